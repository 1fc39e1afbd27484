"""``papd theory``: Algorithm 1 and the theorems, checked by machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from papd.commands.parse import parse
from papd.commands.show import print_json
from papd.errors import ConfigError

BRIDGE_WIDTH = 110
"""The bridge's table is numbers in ten columns: narrower, it would tell none of them."""


@dataclass(frozen=True)
class Options:
    """Check the paper's statements on problems whose constants are known, and show where they need a correction."""

    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: none)")] = None
    """Write theory.json and the figures there."""
    problems: Annotated[int, tyro.conf.arg(metavar="N")] = 1000
    """Random problems of each kind."""
    seed: Annotated[int, tyro.conf.arg(metavar="N")] = 0
    """Seed of the random problems."""
    bridge: bool = False
    """Instead: the L_R and L_C of policies in training on the four twins, and the h1 and h2 they suggest (minutes)."""
    steps: tuple[int, ...] = (20_000, 100_000, 300_000)
    """With --bridge: environment steps at which the curvature is measured."""
    json: bool = False
    """Print JSON."""


def main(words: Sequence[str]) -> int:
    """Run the command; the exit status is 1 where a statement does not hold."""
    options = parse(Options, words, prog="papd theory", default=Options())

    from rich.console import Console

    from papd.runs import cache

    cache.enable()
    if options.bridge:
        return _bridge(options)

    from papd.results.theory import run_theory

    report = run_theory(options.out, problems=options.problems, seed=options.seed)
    if options.json:
        print_json(report.to_json())
    else:
        report.show(Console())
    return int(not report.holds)


def _bridge(options: Options) -> int:
    from rich.console import Console

    from papd.results.bridge import bridge, bridge_table
    from papd.runs.files import write_json

    if not options.steps or min(options.steps) < 1:
        raise ConfigError(f"--steps {' '.join(map(str, options.steps))}: give one or more whole numbers >= 1")
    rows = bridge(steps=options.steps)
    values = [row.to_json() for row in rows]
    if options.out is not None:
        write_json(options.out / "bridge.json", values)
    if options.json:
        print_json(values)
    else:
        console = Console()
        console.width = max(console.width, BRIDGE_WIDTH)
        console.print(bridge_table(rows))
    return 0
