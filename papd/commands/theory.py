"""``papd theory``: Algorithm 1 and the theorems, checked by machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from papd.commands.parse import parse
from papd.commands.show import print_json


@dataclass(frozen=True)
class Options:
    """Check the paper's statements on problems whose constants are known, and show where they need a correction."""

    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: none)")] = None
    """Write theory.json and the figures there."""
    problems: Annotated[int, tyro.conf.arg(metavar="N")] = 1000
    """Random problems of each kind."""
    seed: Annotated[int, tyro.conf.arg(metavar="N")] = 0
    """Seed of the random problems."""
    json: bool = False
    """Print JSON."""


def main(words: Sequence[str]) -> int:
    """Run the command; the exit status is 1 where a statement does not hold."""
    options = parse(Options, words, prog="papd theory", default=Options())

    from rich.console import Console

    from papd.results.theory import run_theory
    from papd.runs import cache

    cache.enable()
    report = run_theory(options.out, problems=options.problems, seed=options.seed)
    if options.json:
        print_json(report.to_json())
    else:
        report.show(Console())
    return int(not report.holds)
