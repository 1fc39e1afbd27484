"""``papd report``: any runs as one HTML page that needs no network, no server and no library.

The page is written as text with every name escaped; its one script puts names into the page as text and never as
markup, and a content security policy admits that script and no other. Charts are drawn as SVG by ``page/report.js``.
"""

import base64
import hashlib
import html
import json
import math
import shlex
import string
import warnings
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from papd.results import report_data, tables
from papd.results.bands import POINTS
from papd.results.load import Run, read_runs
from papd.results.report_data import METRICS, Group, text_of
from papd.runs.files import write_atomic

RUN_POINTS = 40_000
"""Points of all single runs' curves together: what keeps a page of hundreds of runs at a few megabytes."""

SHORT = 32
"""Texts up to this length stay on one line of a table."""

DASHES = {"-": "", "--": "7 4", "-.": "8 3 2 3", ":": "2 3"}

GROUP_COLUMNS = {
    "env": "Environment",
    "group": "Group",
    "runs": "Runs",
    "return_mean": "Return, mean",
    "return_deviation": "± sd",
    "return_iqm": "Return, IQM",
    "return_interval": "95% interval",
    "cost_mean": "Cost, mean",
    "cost_deviation": "± sd",
    "cost_iqm": "Cost, IQM",
    "cost_interval": "95% interval",
    "feasible_share": "Share feasible",
    "feasible_return": "Return of feasible runs",
    "mean_violation": "Violation of the others",
}
RUN_COLUMNS = {
    "run": "Run",
    "env": "Environment",
    "group": "Group",
    "seed": "Seed",
    "env_steps": "Steps",
    "return_mean": "Return",
    "cost_mean": "Cost",
    "violation": "Violation",
    "multiplier": "Multiplier",
    "learning_rate": "Learning rate",
}
PAIR_COLUMNS = {
    "method": "Group",
    "against": "Against",
    "verdict": "Verdict",
    "improvement": "P(better), feasible first",
    "improvement_interval": "95% interval",
    "return_improvement": "P(higher return)",
    "cost_improvement": "P(lower cost)",
    "tasks": "Environments",
    "seeds": "Seeds",
}


PAIRS = "Pairs of groups, on the environments both have. Feasible first: any feasible run is above every infeasible one"


def write_report(runs: Sequence[Path], out: Path) -> None:
    """Write the report of all runs at or under the paths ``runs`` to the file ``out``, atomically.

    Runs that cannot be read are left out, named by a warning and on the page.
    """
    found, left_out = read_runs(*runs)
    for words in left_out:
        warnings.warn(words, stacklevel=2)
    invocation = shlex.join(["papd", "report", *(str(path) for path in runs), "--out", str(out)])
    write_atomic(out, page(found, left_out, invocation).encode())


def page(runs: Sequence[Run], left_out: Sequence[str] = (), invocation: str = "") -> str:
    """The whole page, as text."""
    groups = report_data.groups_of(runs)
    final = report_data.final_results(groups)
    script, style = (_asset(name) for name in ("report.js", "report.css"))
    return string.Template(_asset("report.html")).substitute(
        policy=(
            f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data:; "
            "base-uri 'none'; form-action 'none'"
        ),
        style=style,
        counts=_counts(runs, groups),
        notices="".join(f'<p class="notice">{_text(words)}</p>' for words in left_out),
        groups=_groups_table(final),
        pairs=_pairs_table(final),
        runs=_table("runs", "One row a run", RUN_COLUMNS, final),
        differences=_differences(groups),
        shared=_listed({name: text_of(value) for name, value in report_data.shared_fields(groups).items()}),
        commands="\n".join(_commands(group, is_open=len(groups) == 1) for group in groups),
        origin=_listed({name: ", ".join(values) for name, values in report_data.provenance(runs).items()}),
        invocation=_text(invocation),
        data=_json(_payload(runs, groups)),
        script=script,
    )


def _payload(runs: Sequence[Run], groups: Sequence[Group]) -> dict[str, Any]:
    points = int(np.clip(RUN_POINTS // len(runs), 50, POINTS))
    return {
        "metrics": list(METRICS.items()),
        "groups": [
            {"label": _line(label), "colour": look.colour, "dashes": DASHES[look.dashes]}
            for label, look in {group.label: group.look for group in groups}.items()
        ],
        "panels": [{**panel, "title": _line(panel["title"])} for panel in report_data.panels(groups, points)],
    }


def _asset(name: str) -> str:
    return (resources.files("papd.results") / "page" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _json(value: Any) -> str:
    """JSON that cannot end the element it stands in, nor begin another."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _line(text: str) -> str:
    """One line of what a run may call itself: control characters are shown, not obeyed."""
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)


def _text(value: Any) -> str:
    return html.escape(_line(str(value)))


def _counts(runs: Sequence[Run], groups: Sequence[Group]) -> str:
    environments = len({group.env for group in groups})
    return (
        f"{_count(len(runs), 'run')}, {_count(len(groups), 'group')}, {_count(environments, 'environment')}"
    )


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"


def _groups_table(final: pd.DataFrame) -> str:
    summary = tables.summary(final, ["env", "group"])
    for name in ("return", "cost"):
        if f"{name}_iqm_low" in summary.columns:
            summary[f"{name}_interval"] = _intervals(summary, f"{name}_iqm")
    return _table("groups", "One row a group", GROUP_COLUMNS, summary)


def _pairs_table(final: pd.DataFrame) -> str:
    pairs = report_data.comparisons(final)
    if pairs.empty:
        return ""
    pairs["improvement_interval"] = _intervals(pairs, "improvement")
    return _table("pairs", PAIRS, PAIR_COLUMNS, pairs)


def _intervals(frame: pd.DataFrame, name: str) -> list[str]:
    ends = zip(frame[f"{name}_low"], frame[f"{name}_high"], strict=True)
    return [f"{_number(low)} to {_number(high)}" if np.isfinite(low + high) else "–" for low, high in ends]


def _differences(groups: Sequence[Group]) -> str:
    fields = [name for name in report_data.shown_fields(groups) if name != "env"]
    if not fields:
        return "<p>Nothing differs but environments and seeds.</p>"
    rows = [
        {"env": group.env, "group": group.label}
        | {f"field:{name}": _distinct(group, name) for name in fields}
        for group in groups
    ]
    columns = {"env": "Environment", "group": "Group"} | {f"field:{name}": name for name in fields}
    return _table("differences", "Fields that differ between groups", columns, pd.DataFrame(rows))


def _distinct(group: Group, name: str) -> Any:
    """The value of a field in a group; all of them, as text, where its runs differ."""
    values = list(dict.fromkeys(run.config.get(name) for run in group.runs))
    return values[0] if len(values) == 1 else ", ".join(map(text_of, values))


def _commands(group: Group, *, is_open: bool) -> str:
    lines = "\n".join(_text(report_data.command(run)) for run in group.runs)
    title = _text(f"{group.env}: {group.label} ({_count(len(group.runs), 'run')})")
    return f"<details{' open' if is_open else ''}><summary>{title}</summary><pre>{lines}</pre></details>"


def _listed(values: Mapping[str, str]) -> str:
    rows = "".join(
        f"<tr><th scope='row'>{_text(name)}</th><td class='text'>{_text(value)}</td></tr>"
        for name, value in values.items()
    )
    return (
        f"<div class='scroll'><table><tbody>{rows}</tbody></table></div>" if rows else "<p>Not recorded.</p>"
    )


def _table(name: str, caption: str, columns: dict[str, str], frame: pd.DataFrame) -> str:
    """A table whose headings are buttons that sort; numbers keep their full value for that."""
    known = [column for column in columns if column in frame.columns]
    heads = "".join(
        f"<th scope='col'><button type='button'>{_text(columns[column])}</button></th>" for column in known
    )
    rows = "".join(
        f"<tr>{''.join(map(_cell, row))}</tr>" for row in frame[known].itertuples(index=False, name=None)
    )
    return (
        f"<div class='scroll' tabindex='0'><table class='sortable' id='{name}'><caption>{caption}.</caption>"
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _cell(value: Any) -> str:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        words = text_of(value)
        return f"<td class='{'text' if len(words) > SHORT else 'text short'}'>{_text(words)}</td>"
    number = float(value)
    if not math.isfinite(number):
        return "<td class='number'>–</td>"
    return f"<td class='number' data-value='{number!r}'>{_number(number)}</td>"


def _number(value: float) -> str:
    """Whole numbers whole; others with two decimals, small ones with four digits."""
    if value.is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.4g}"
