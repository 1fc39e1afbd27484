"""The figures of the paper's experiments, one for each backend they were run on."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from papd.results import figures
from papd.results.figures import BLACK, BLUE, COLUMN, PAGE, SKY, VERMILLION
from papd.results.paper_experiments import Cell
from papd.results.paper_published import row_of
from papd.results.paper_scores import FEW, Results, View
from papd.results.paper_store import BACKENDS
from papd.runs.config import Backend

FOLDER = "figures"
"""Where figures lie beside the pages."""

LOOKS = {
    "invlin": ("InvLin", BLUE, "o"),
    "invqua": ("InvQua", VERMILLION, "s"),
    "constant": ("constant", SKY, "^"),
}
"""Name, colour and marker of a rule in the figures of the tables."""

SHIFT = {"invlin": -0.12, "invqua": 0.12, "constant": 0.0}
"""Rules stand beside each other, by this share of the least distance between two factors."""


def draw(results: Results, folder: Path) -> list[tuple[Backend, str]]:
    """Draw an experiment on each backend that has runs; the backend and the figure's name, without its ending."""
    drawn: list[tuple[Backend, str]] = []
    for backend in BACKENDS:
        figure = _figure(results, backend)
        if figure is not None:
            name = f"{results.plan.name}-{backend}"
            figures.save(figure, folder / FOLDER / name)
            drawn.append((backend, f"{FOLDER}/{name}"))
    return drawn


def _figure(results: Results, backend: Backend) -> Figure | None:
    readings = [each for each in results.readings() if each.backend == backend and each.kind != "policy"]
    if not readings:
        return None
    if results.plan.experiment.timed:
        return _times(View(results, readings[-1]))
    if results.plan.name.startswith("robust"):
        return _over_factors(View(results, readings[0]))
    return _curves(results, backend)


def _curves(results: Results, backend: Backend) -> Figure:
    """The paper's figure of learning curves, from the paper's number of seeds."""
    frame = curve_frame(results, backend)
    metrics = ("return_mean", "cost_mean", "learning_rate")
    is_motivation = results.plan.name == "motivation"
    return figures.curves(
        frame,
        by="rule",
        columns="panel",
        metrics=metrics[:2] if is_motivation else metrics,
        cost_limit=results.plan.limit,
        width=COLUMN if is_motivation else PAGE,
    )


def curve_frame(results: Results, backend: Backend) -> pd.DataFrame:
    """The curves of the paper's seeds as :func:`papd.results.figures.curves` takes them."""
    cells = {cell.name: cell for cell in results.plan.cells}
    curves = results.data.curves
    kept = (curves["backend"] == backend).to_numpy(bool) & (curves["seed"] < FEW).to_numpy(bool)
    frame = curves[kept & curves["cell"].isin(list(cells)).to_numpy(bool)].copy()
    frame["run"] = frame["cell"] + "-" + frame["seed"].astype(str)
    frame["rule"] = [cells[name].rule for name in frame["cell"]]
    frame["panel"] = [_panel(cells[name].env, cells[name].held) for name in frame["cell"]]
    return frame.reset_index(drop=True)


def _panel(env: str, held: float | None) -> str:
    return env if held is None else f"λ = {held:g}"


def _over_factors(view: View) -> Figure:
    """Return and cost over the factor: mean and minimum to maximum of ours, the paper's means hollow."""
    factors = sorted({cell.factor for cell in view.results.plan.cells if cell.factor is not None})
    kinds = [kind for kind in LOOKS if view.cells(kind=kind)]
    with matplotlib.rc_context(figures.STYLE):
        figure = Figure(figsize=(COLUMN, 3.4), layout="constrained")
        axes = figure.subplots(2, 1, sharex=True)
        for axis, metric in zip(axes, ("return", "cost"), strict=True):
            for kind in kinds:
                _rule_over_factors(axis, view, kind, factors, metric)
            axis.set_ylabel(metric.capitalize())
        axes[1].axhline(view.results.plan.limit, color=BLACK, ls=(0, (4, 2)), lw=0.9, zorder=1)
        axes[1].set_xscale("log")
        axes[1].set_xticks(factors, [f"{factor:g}" for factor in factors])
        axes[1].minorticks_off()
        what = "$H_1$, $H_1'$, constant" if view.results.plan.name == "robust-h1" else "$H_2$, $H_2'$"
        axes[1].set_xlabel(f"Factor of {what}")
        shown = dict(zip(*reversed(axes[0].get_legend_handles_labels()), strict=True))
        shown = {name: shown[name] for name in sorted(shown, key=lambda name: name.endswith("paper"))}
        shown[f"cost limit {view.results.plan.limit:g}"] = axes[1].lines[-1]
        figure.legend(shown.values(), shown, loc="outside lower center", ncols=2, frameon=False)
        figures.settle(figure)
    return figure


def _rule_over_factors(axis: Axes, view: View, kind: str, factors: Sequence[float], metric: str) -> None:
    name, colour, marker = LOOKS[kind]
    shift = min(np.diff(np.log(factors)), default=0.1) * SHIFT[kind]
    found = [(factor, view.find(kind=kind, factor=factor)) for factor in factors]
    table = "robust-h1" if view.results.plan.name == "robust-h1" else "robust-h2"
    ours = [(f, s.returns if metric == "return" else s.costs) for f, c in found if (s := view.scores(c))]
    if ours:
        x = np.array([factor for factor, _ in ours]) * np.exp(shift)
        means, lows, highs = (np.array([how(v) for _, v in ours]) for how in (np.mean, np.min, np.max))
        axis.errorbar(
            x,
            means,
            np.stack([means - lows, highs - means]),
            color=colour,
            marker=marker,
            ms=3.5,
            lw=1.0,
            elinewidth=0.8,
            capsize=1.5,
            label=name,
        )
    theirs = [(f, row[metric]) for f, c in found if c is not None and (row := row_of(table, c)) is not None]
    axis.plot(
        [factor * np.exp(shift) for factor, _ in theirs],
        [value for _, value in theirs],
        color=colour,
        marker=marker,
        mfc="white",
        ms=3.5,
        lw=0.6,
        ls=":",
        label=f"{name}, paper",
    )


def _times(view: View) -> Figure:
    """Seconds for a million steps: every run a dot, the rules of an environment beside each other."""
    environments = view.environments()
    rules = list(dict.fromkeys(cell.rule for cell in view.results.plan.cells))
    looks = figures.looks(rules)
    with matplotlib.rc_context(figures.STYLE):
        figure = Figure(figsize=(COLUMN, 2.2), layout="constrained")
        axis = figure.subplots()
        for place, rule in enumerate(rules):
            points = [
                (number + (place - (len(rules) - 1) / 2) * 0.12, second)
                for number, env in enumerate(environments)
                for cell in view.cells(env)
                if cell.rule == rule
                for second in _per_million(view, cell)
            ]
            if points:
                x, y = zip(*points, strict=True)
                axis.plot(x, y, ".", ms=4, color=looks[rule].colour, label=rule)
        axis.set_xticks(range(len(environments)), environments)
        axis.set_ylim(bottom=0.0)
        axis.set_ylabel("Seconds per $10^6$ steps")
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
        figures.settle(figure)
    return figure


def _per_million(view: View, cell: Cell) -> np.ndarray:
    values = view.values(cell, "per_million")
    return np.zeros(0) if values is None else values
