"""``papd paper``: the paper's figures and tables, run again and judged."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from papd.commands.parse import parse
from papd.commands.show import note, print_json, table
from papd.runs.config import Backend
from papd.runs.progress import clock
from papd.runs.sweep import Engine

if TYPE_CHECKING:
    from papd.results.paper import Outcome


@dataclass(frozen=True)
class Options:
    """Run the paper's experiments as far as they are not, draw them, and say which of the paper's claims hold."""

    names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[NAME ...]")] = ()
    """motivation, ppol, runtime, robust-h1, robust-h2, ddpgl; all of them by default."""
    backend: Backend = "twin"
    """Train on the calibrated twins (minutes) or in the real simulator (days); twins' policies are played there too."""
    seeds: Annotated[
        int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: as the spec says, five)")
    ] = None
    """Seeds 0 to N - 1 of every case."""
    steps: Annotated[
        int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: as the spec says)")
    ] = None
    """Steps of every run, for trying things out; needs another --out."""
    engine: Engine = "local"
    """How runs are spread, as papd sweep has it."""
    workers: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: one a core)")] = (
        None
    )
    """Processes that work."""
    episodes: Annotated[int, tyro.conf.arg(metavar="N")] = 50
    """Episodes of each final policy."""
    resume: bool = False
    """Go on with runs that were begun and not finished."""
    run: bool = True
    """--no-run only measures, draws and judges what is there."""
    afresh: bool = False
    """Run also what the results have rows of already."""
    store: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/paper")
    """Where the runs lie."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("results")
    """Where metrics, figures and pages go."""
    specs: Annotated[
        Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: the package's)")
    ] = None
    """Experiments to run, NAME.toml; copy the package's to change them."""
    quiet: bool = False
    """No progress."""
    json: bool = False
    """Print the outcome and every verdict as JSON."""


def main(words: Sequence[str]) -> int:
    """Run the command: 0 when all runs are finished, 1 when some failed, 128 + n for signal n."""
    options = parse(Options, words, prog="papd paper", default=Options())

    from papd.results.paper import Request, run_paper
    from papd.runs import cache

    cache.enable()
    given = {
        n: value for n, value in vars(options).items() if n not in ("names", "json") and value is not None
    }
    request = Request(**given, command=["papd", "paper", *words])
    outcome = run_paper(options.names, request, say=_silent if options.quiet else note)
    if outcome.signal is not None:
        note(f"stopped; go on with: {_again(words)}")
        return 128 + outcome.signal
    if options.json:
        print_json(outcome.to_json())
    else:
        print(summary(outcome, options.out))
    if not outcome.complete:
        note(f"to try the failed runs again: {_again(words)}")
    return int(not outcome.complete)


def summary(outcome: "Outcome", out: Path) -> str:
    """What was done, and the verdicts: a line for each claim and reading."""
    lines = []
    for name, (results, judged) in outcome.told.items():
        titles = {reading.name: reading.title for reading in results.readings()}
        rows = [
            [each.claim.name, titles[reading], str(verdict)]
            for each in judged
            for reading, verdict in each.verdicts.items()
        ]
        lines += ["", f"{results.plan.experiment.title}: {out / name}.md"]
        lines.append(
            table([["claim", "reading", "verdict"], *rows], left=(0, 1, 2)) if rows else "nothing run yet"
        )
    done = len(outcome.sweep.runs) if outcome.sweep else 0
    stages = ", ".join(f"{stage} {clock(seconds)}" for stage, seconds in outcome.seconds.items())
    head = f"{done} runs done, {outcome.known} known, {outcome.timed} timed, {outcome.played} policies played in Bullet"
    return "\n".join([f"{head} ({stages})", *lines])


def _again(words: Sequence[str]) -> str:
    return shlex.join(["papd", "paper", *words, *(["--resume"] if "--resume" not in words else [])])


def _silent(text: str) -> None:
    """Say nothing."""
