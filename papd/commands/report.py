"""``papd report``: any runs as one HTML page, and as figures."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from papd.commands.parse import parse
from papd.commands.show import note
from papd.errors import ConfigError


@dataclass(frozen=True)
class Options:
    """Write one self-contained HTML page about the runs at or under RUN...: curves, final results, configurations."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN ...")] = ()
    """Run directories, or folders that hold some at any depth."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE.html")] = Path("report.html")
    """The page."""
    figures: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: none)")] = None
    """Draw each run's training there too, as .pdf, .svg and .png."""


def main(words: Sequence[str]) -> int:
    """Run the command."""
    options = parse(Options, words, prog="papd report", default=Options())
    if not options.runs:
        raise ConfigError("which runs? for example: papd report runs/ --out report.html")

    from papd.results.report import write_report

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        write_report(options.runs, options.out)
        drawn = _draw(options) if options.figures else 0
    for text in dict.fromkeys(str(warning.message) for warning in told if warning.category is UserWarning):
        note(text)
    print(options.out if not drawn else f"{options.out}, {drawn} figures in {options.figures}")
    return 0


def _draw(options: Options) -> int:
    from papd.results.figures import save, training_figure
    from papd.results.load import load_runs

    assert options.figures is not None
    drawn = [
        save(training_figure(run.folder), options.figures / run.name.replace("/", "-"))
        for run in load_runs(*options.runs)
    ]
    return sum(map(len, drawn))
