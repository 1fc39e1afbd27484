"""A page for each experiment of the paper, in Markdown, and one that gathers all verdicts."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from papd.results import paper_tables as tables
from papd.results.paper_claims import Judged
from papd.results.paper_experiments import EXPERIMENTS
from papd.results.paper_published import published
from papd.results.paper_scores import FEW, Reading, Results
from papd.results.paper_tables import markdown
from papd.results.paper_time import QUIET
from papd.results.paper_verdicts import SHOWN, Part, Verdict
from papd.runs.config import Backend
from papd.runs.files import write_atomic

INDEX = "paper.md"
"""The page over all experiments."""

BACKENDS = {"bullet": "real Bullet", "twin": "the twin"}

HOW_TO_READ = (
    "*training*: mean over the last tenth of training, of the exploring policy, as the paper's curves show it. *final "
    "policy*: 50 episodes of the last policy, without exploration, as the paper's tables seem to have it. Numbers are "
    f"mean ± standard deviation over runs, of seeds 0 to {FEW - 1} unless a column says more; {tables.NOT_FEASIBLE}: "
    "the mean cost is above the limit."
)


def write_page(
    folder: Path, results: Results, judged: Sequence[Judged], drawn: Sequence[tuple[Backend, str]]
) -> Path:
    """Write an experiment's page."""
    path = folder / f"{results.plan.name}.md"
    write_atomic(path, page(results, judged, drawn).encode())
    return path


def page(results: Results, judged: Sequence[Judged], drawn: Sequence[tuple[Backend, str]]) -> str:
    """An experiment's page."""
    experiment = results.plan.experiment
    readings = results.readings()
    parts = [
        f"# {experiment.title}",
        f"{experiment.shows} Cost limit {results.plan.limit:g}. Made by `papd paper {experiment.name}`; see "
        "[docs/reproduction.md](../docs/reproduction.md) for what is asked and within which margins.",
        "## Verdicts",
        verdict_table(judged, readings) if readings else "Nothing has been run yet.",
    ]
    for backend, name in drawn:
        parts += [
            f"## On {BACKENDS[backend]}",
            f"![{experiment.title}, {BACKENDS[backend]}]({name}.png)",
            _legend(results),
        ]
    if readings:
        parts += ["## The numbers, side by side", *_numbers(results, readings)]
        parts += ["## Claim by claim", *(_claim(each, readings) for each in judged)]
    notes = "\n".join(f"- {note}" for note in experiment.notes)
    parts += ["## To be known", notes, "## The runs", _origin(results)]
    return "\n\n".join(parts) + "\n"


def _legend(results: Results) -> str:
    if results.plan.experiment.timed:
        return "Every dot is a run."
    if results.plan.name.startswith("robust"):
        return "Filled: mean and minimum to maximum over runs, at the end of training. Hollow: the paper's means."
    return "Line: mean over runs; band: minimum to maximum; dashed: the cost limit."


def _numbers(results: Results, readings: Sequence[Reading]) -> list[str]:
    if results.plan.experiment.timed:
        return [tables.running_times(results, readings)]
    parts = [HOW_TO_READ, tables.side_by_side(results, readings)]
    if results.plan.name in published():
        parts.append("Bold: what the paper prints in bold.")
    if results.plan.name == "robust-h1":
        parts += ["### Table 3: over the eight blocks", tables.summary_of_blocks(results, readings)]
    for reading in readings:
        if len({cell.env for cell in results.plan.cells}) > 1:
            parts += _pooled(results, reading)
    parts.append("### Statistics of each case")
    for reading in readings:
        parts.append(_folded(reading.title, tables.robust_statistics(results, reading)))
    parts.append(
        "IQM: interquartile mean with its 95% bootstrap interval; all of it is defined in [docs/statistics.md]"
        "(../docs/statistics.md)."
    )
    return parts


def _pooled(results: Results, reading: Reading) -> list[str]:
    return [
        f"### Over all environments: {reading.title}",
        tables.over_environments(results, reading),
        tables.improvements(results, reading),
    ]


def verdict_table(judged: Sequence[Judged], readings: Sequence[Reading]) -> str:
    """Claims by readings."""
    rows = [
        [
            each.claim.name,
            str(each.claim.line),
            *(_word(each.verdicts.get(reading.name)) for reading in readings),
        ]
        for each in judged
    ]
    return markdown(
        ["claim", "paper.tex", *(reading.title for reading in readings)], rows, left=2 + len(readings)
    )


def _word(verdict: Verdict | None) -> str:
    return "-" if verdict is None else str(verdict)


def _claim(judged: Judged, readings: Sequence[Reading]) -> str:
    claim = judged.claim
    lines = [f"### {claim.name}", "", f"> {claim.quote} (line {claim.line})", "", f"Asked: {claim.asked}", ""]
    for reading in readings:
        verdict = judged.verdicts.get(reading.name)
        if verdict is not None:
            lines += [_folded(f"{reading.title}: <b>{verdict}</b>", "\n".join(_parts(verdict.parts))), ""]
    return "\n".join(lines).rstrip()


def _parts(parts: Sequence[Part], depth: int = 0) -> list[str]:
    """What was asked, what the runs answer, and the numbers; indented below what it is a part of."""
    lines = []
    for part in parts:
        if part.answer != "not run":
            told = f"; {part.numbers}" if part.numbers else ""
            lines.append(f"{'  ' * depth}- {part.what}: **{SHOWN[part.answer]}**{told}")
            lines += _parts(part.parts, depth + 1)
    return lines


def _folded(title: str, *parts: str) -> str:
    """Something that a reader opens."""
    return "\n\n".join([f"<details><summary>{title}</summary>", *parts, "</details>"])


def _origin(results: Results) -> str:
    """How many runs of what, by whom and when."""
    runs = results.data.runs
    if not len(runs):
        return "None yet."
    rows = []
    for backend, own in runs.groupby("backend", sort=True):
        cells = own["cell"].nunique()
        rows.append(
            [
                BACKENDS[str(backend)],
                str(len(own)),
                f"{cells} of {len(results.plan.cells)}",
                _listed(own["processor"] + ", " + own["cores"].astype(str) + " cores"),
                _listed(own["papd"]),
                _listed(own["commit"].fillna("").astype(str).str[:10]),
                _listed(own["jax"]),
                _listed(own["started"]),
            ]
        )
    head = ["where", "runs", "cases", "machine", "papd", "commits", "jax", "days"]
    spec = results.plan.experiment.spec
    if results.plan.experiment.timed:
        rows_of = f"[{spec}.times.csv]({spec}.times.csv)"
        files = f"Rows: {rows_of}, those beside which others kept at most {QUIET:g} cores busy."
    else:
        files = (
            f"Rows: [{spec}.runs.csv]({spec}.runs.csv), curves: [{spec}.curves.csv.gz]({spec}.curves.csv.gz) (their "
            "`wall_seconds` are of machines that may have been busy with other work)."
        )
    return markdown(head, rows, left=len(head)) + "\n\n" + files


def _listed(values: pd.Series) -> str:
    return ", ".join(str(value) for value in dict.fromkeys(values) if str(value))


def write_index(folder: Path, everything: Sequence[tuple[Results, Sequence[Judged]]]) -> Path:
    """Write the page over all experiments that have runs."""
    parts = [
        "# The paper's claims, and what our runs say",
        "Every sentence of the paper's experiments that runs can answer, in each reading of the runs. Made by "
        "`papd paper`; a page for each experiment has the numbers, [docs/reproduction.md](../docs/reproduction.md) the "
        "margins.",
        HOW_TO_READ,
    ]
    for results, judged in everything:
        experiment = results.plan.experiment
        parts += [f"## [{experiment.title}]({experiment.name}.md)"]
        parts.append(verdict_table(judged, results.readings()))
    missing = [name for name in EXPERIMENTS if name not in {results.plan.name for results, _ in everything}]
    if missing:
        parts.append("Not run yet: " + ", ".join(f"`{name}`" for name in missing) + ".")
    path = folder / INDEX
    write_atomic(path, ("\n\n".join(parts) + "\n").encode())
    return path
