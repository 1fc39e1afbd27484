"""Figures for a two-column paper: 8 pt, colours that the colour-blind tell apart, vector and pixels.

Nothing here touches pyplot or matplotlib's global state; a figure is made, saved and forgotten.
"""

import io
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from papd.errors import ConfigError, nearest
from papd.results.bands import POINTS, Band, band
from papd.results.load import Run, read_run
from papd.runs.files import write_atomic

# It would tell, once a font, that the dates in matplotlib's own fonts are old.
logging.getLogger("fontTools").setLevel(logging.ERROR)

COLUMN, PAGE = 3.3, 7.0
"""Widths in inches: one column of a two-column paper, and both."""
DOTS = 90
"""Points of a curve to an inch of the figure: more cannot be seen and make a vector figure large."""

LABELS = {
    "return_mean": "Return",
    "cost_mean": "Cost",
    "multiplier": "Multiplier $\\lambda$",
    "learning_rate": "Learning rate $\\eta$",
}
METRICS = tuple(LABELS)

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILLION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
"""The palette of Okabe and Ito. Blue is always InvLin and vermillion InvQua."""

ADAPTIVE = (BLUE, VERMILLION)

CONSTANTS = {0.0001: SKY, 0.00025: GREEN, 0.0003: GREEN, 0.0005: ORANGE, 0.0006: ORANGE, 0.001: PURPLE}
"""The constant rates of the paper keep their colour in every figure."""

SPARE = (GREEN, ORANGE, PURPLE, SKY, BLACK, BLUE, VERMILLION, YELLOW)
DASHES = ("-", "--", "-.", ":")

STYLE: dict[Any, Any] = {
    "font.size": 8.0,
    "axes.titlesize": 8.0,
    "axes.labelsize": 8.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.fontsize": 8.0,
    "font.family": "DejaVu Sans",
    "mathtext.fontset": "dejavusans",
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "axes.formatter.use_mathtext": True,
    "axes.formatter.limits": (-3, 4),
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "papd",
}


class Look(NamedTuple):
    """How the line of a group is drawn."""

    colour: str
    dashes: str
    width: float


def rule_label(rule: str, h1: float, h2: float | None = None) -> str:
    """``InvLin 0.001/3``, ``InvQua 0.015/6`` or ``constant 0.0005``, from the fields of a configuration."""
    names = {"invlin": "InvLin", "invqua": "InvQua"}
    if rule not in names:
        return f"{rule} {h1:g}"
    return f"{names[rule]} {h1:g}" + ("" if h2 is None else f"/{h2:g}")


def looks(groups: Sequence[str]) -> dict[str, Look]:
    """One look a group. Adaptive rules are solid and thick, constants beside them dashed and thin."""
    taken: dict[str, Look] = {}
    mixed = any(_known_colour(group) in ADAPTIVE for group in groups)
    for group in groups:
        known = _known_colour(group)
        if known is not None and all(look.colour != known for look in taken.values()):
            adaptive = known in ADAPTIVE or not mixed
            taken[group] = Look(known, "-" if adaptive else "--", 1.3 if adaptive else 0.9)
    spare = [colour for colour in SPARE if all(look.colour != colour for look in taken.values())] or list(
        SPARE
    )
    rest = [group for group in groups if group not in taken]
    for index, group in enumerate(rest):
        dashes = DASHES[(index // len(spare)) % len(DASHES)]
        taken[group] = Look(spare[index % len(spare)], dashes, 0.9)
    return {group: taken[group] for group in groups}


def _known_colour(group: str) -> str | None:
    name, _, rest = group.strip().lower().partition(" ")
    if name in ("invlin", "invqua"):
        return BLUE if name == "invlin" else VERMILLION
    try:
        return CONSTANTS.get(float(rest)) if name == "constant" else None
    except ValueError:
        return None


def curves(
    frame: pd.DataFrame,
    *,
    by: str,
    columns: str | None = None,
    metrics: Sequence[str] = METRICS,
    kind: Band = "range",
    cost_limit: float | None = None,
    width: float = PAGE,
    row_height: float = 1.25,
) -> Figure:
    """Curves over environment steps: a row a metric, a column a value of ``columns``, a line a group of ``by``.

    ``frame`` is what :func:`papd.results.load` gives. ``kind`` "range" is the mean with the minimum-maximum band of
    the paper, "iqm" the interquartile mean with its bootstrap interval. Groups appear in the order of the table.
    """
    for name in (by, *([columns] if columns else []), *metrics):
        if name not in frame.columns:
            hint = nearest(name, map(str, frame.columns))
            raise ConfigError(
                f"no column {name!r}{hint}; a field that all runs share needs load(..., keep=[{name!r}])"
            )
    panels = list(frame[columns].drop_duplicates()) if columns else [None]
    points = int(np.clip(DOTS * width / len(panels), DOTS, POINTS))
    look = looks([str(group) for group in frame[by].drop_duplicates()])
    with matplotlib.rc_context(STYLE):
        figure, axes = _grid(len(metrics), len(panels), width, row_height)
        for column, panel in enumerate(panels):
            part = frame if columns is None else frame[frame[columns] == panel]
            for row, metric in enumerate(metrics):
                _draw(axes[row, column], part, metric, by, look, kind, points, cost_limit)
        _label(axes, metrics, panels, float(frame["env_steps"].max()))
        _legend(figure, look, cost_limit if "cost_mean" in metrics else None, width)
        settle(figure)
    return figure


def training_figure(folder: Path) -> Figure:
    """What one run did: return, cost, multiplier and rate over its environment steps."""
    run = read_run(folder)
    limit = run.config.get("cost_limit")
    several = isinstance(limit, tuple)
    with matplotlib.rc_context(STYLE):
        figure, axes = _grid(2, 2, PAGE, 1.7)
        for axis, metric in zip(axes.flat, METRICS, strict=True):
            steps = run.metrics["env_steps"] / _unit(float(run.metrics["env_steps"].max()))[0]
            for name, colour in zip(_parts(run.metrics, metric, several), SPARE, strict=False):
                own = name.removeprefix(f"{metric}_") if name != metric else None
                axis.plot(steps, run.metrics[name], color=colour if several else BLUE, lw=1.2, label=own)
            axis.set_ylabel(LABELS[metric])
            if metric == "cost_mean":
                _draw_limits(axis, limit)
            if axis.get_legend_handles_labels()[1]:
                axis.legend(frameon=False)
        figure.supxlabel(_unit(float(run.metrics["env_steps"].max()))[1], fontsize=8.0)
        figure.suptitle(_plain(_title(run)), fontsize=8.0)
        settle(figure)
    return figure


def _title(run: Run) -> str:
    """The run's name, and what it was where its configuration says so."""
    rule, h1, h2 = (run.config.get(name) for name in ("lr", "h1", "h2"))
    told = [run.config.get("env"), run.config.get("backend"), run.config.get("algo")]
    if isinstance(rule, str) and isinstance(h1, int | float):
        told.append(rule_label(rule, h1, h2 if isinstance(h2, int | float) else None))
    return ", ".join([run.name, *(str(part) for part in told if part)])


def save(figure: Figure, stem: Path, formats: Sequence[str] = ("pdf", "svg", "png")) -> list[Path]:
    """Write ``stem``.pdf, .svg and .png (300 dpi), atomically; the same figure gives the same bytes."""
    written = []
    for kind in formats:
        metadata: dict[str, Any] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind, {})
        buffer = io.BytesIO()
        with matplotlib.rc_context(STYLE):
            figure.savefig(buffer, format=kind, dpi=300, metadata=metadata)
        path = stem.with_name(f"{stem.name}.{kind}")
        write_atomic(path, buffer.getvalue())
        written.append(path)
    return written


def _grid(rows: int, columns: int, width: float, row_height: float) -> tuple[Figure, np.ndarray]:
    figure = Figure(figsize=(width, row_height * rows + 0.45), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, sharex="col", squeeze=False)
    return figure, axes


def _draw(
    axis: Axes,
    frame: pd.DataFrame,
    metric: str,
    by: str,
    look: Mapping[str, Look],
    kind: Band,
    points: int,
    cost_limit: float | None,
) -> None:
    unit = _unit(float(frame["env_steps"].max()))[0]
    for group, runs in frame.groupby(by, sort=False):
        rows = [
            (run["env_steps"].to_numpy(), run[metric].to_numpy(dtype=float)) for _, run in runs.groupby("run")
        ]
        curve, style = band(rows, kind=kind, points=points), look[str(group)]
        axis.fill_between(curve.steps / unit, curve.low, curve.high, color=style.colour, alpha=0.18, lw=0)
        above = 2.0 + style.width
        axis.plot(
            curve.steps / unit,
            curve.centre,
            color=style.colour,
            ls=style.dashes,
            lw=style.width,
            zorder=above,
        )
    if metric == "cost_mean":
        _draw_limits(axis, cost_limit)


def _draw_limits(axis: Axes, limit: Any) -> None:
    for value in limit if isinstance(limit, tuple) else (limit,):
        if isinstance(value, int | float):
            axis.axhline(value, color=BLACK, ls=(0, (4, 2)), lw=0.9, zorder=4)


def _label(axes: np.ndarray, metrics: Sequence[str], panels: Sequence[Any], steps: float) -> None:
    for row, metric in enumerate(metrics):
        axes[row, 0].set_ylabel(LABELS.get(metric, _plain(metric)))
    for column, panel in enumerate(panels):
        axes[-1, column].set_xlabel(_unit(steps)[1])
        if panel is not None:
            axes[0, column].set_title(_plain(str(panel)))


def _legend(figure: Figure, look: Mapping[str, Look], cost_limit: float | None, width: float) -> None:
    lines = [Line2D([], [], color=style.colour, ls=style.dashes, lw=style.width) for style in look.values()]
    names = [_plain(name) for name in look]
    if cost_limit is not None:
        lines.append(Line2D([], [], color=BLACK, ls=(0, (4, 2)), lw=0.9))
        names.append(f"cost limit {cost_limit:g}")
    if len(names) > 1:
        longest = max(len(name) for name in names)
        fitting = max(1, int(width / (0.45 + 0.068 * longest)))
        ncols = math.ceil(len(names) / math.ceil(len(names) / fitting))
        figure.legend(
            lines,
            names,
            loc="outside lower center",
            ncols=ncols,
            frameon=False,
            handlelength=2.2,
            columnspacing=1.2,
        )


def settle(figure: Figure) -> None:
    """Lay out once and keep it, so that every format has the same picture."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def _unit(steps: float) -> tuple[float, str]:
    return (1e6, "Steps ($10^6$)") if steps >= 2e5 else (1e3, "Steps ($10^3$)")


def _parts(metrics: pd.DataFrame, metric: str, several: bool) -> list[str]:
    """The column of a metric, or those of each constraint where there are several."""
    own = [str(name) for name in metrics.columns if str(name).startswith(f"{metric}_")]
    return own if several and own else [metric]


def _plain(text: str) -> str:
    """Text as it is: no TeX, no control characters."""
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    return printable.replace("$", r"\$")
