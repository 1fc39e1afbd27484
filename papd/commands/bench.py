"""``papd bench``: how fast this machine learns and steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from papd.commands.parse import parse
from papd.commands.show import note, number, print_json, table
from papd.runs.fields import parse_whole


@dataclass(frozen=True)
class Options:
    """Measure training, updates beside bare matrix products, compilation, twins and the real simulator."""

    parts: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[PART ...]")] = ()
    """learn, ddpgl, update, compile, twins, real, ratio; all of them by default (minutes, on an idle machine)."""
    steps: Annotated[str, tyro.conf.arg(metavar="N")] = "400_000"
    """Environment steps of each training that is measured."""
    json: bool = False
    """Print JSON."""


def main(words: Sequence[str]) -> int:
    """Run the command."""
    options = parse(Options, words, prog="papd bench", default=Options())

    from papd.results.bench import run_bench

    bench = run_bench(options.parts, steps=parse_whole(options.steps), tell=note)
    if options.json:
        print_json(bench.to_json())
        return 0
    head = ["measured", "value", "unit", "aim"]
    rows = [
        [line.name, number(line.value, 2 if line.value < 100 else 0), line.unit, line.aim]
        for line in bench.lines
    ]
    print(table([head, *rows], left=(0, 2, 3)))
    machine = bench.machine
    print(
        f"{machine['date']}, {machine['cores']} cores, {machine['platform']}, load {machine['load']:.2f} at the start"
    )
    return 0
