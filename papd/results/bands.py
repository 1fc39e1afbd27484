"""Curves of a group of runs: one grid of environment steps, a centre line and a band. NumPy only."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Real

from papd.results.statistics import Bootstrap, interquartile_mean, tail


class Curve(NamedTuple):
    """A group's curve over environment steps: centre line, band, and how many runs are behind each point."""

    steps: Float[np.ndarray, " points"]
    centre: Float[np.ndarray, " points"]
    low: Float[np.ndarray, " points"]
    high: Float[np.ndarray, " points"]
    runs: Int[np.ndarray, " points"]


Band = Literal["range", "iqm"]
"""``range``: mean, minimum to maximum, as the paper draws. ``iqm``: interquartile mean and its interval."""

PER_POINT = Bootstrap(resamples=1000)
POINTS = 250
"""At most as many points has a curve; finer ones are averaged over the cells of a grid."""


def on_grid(
    steps: Real[np.ndarray, " rows"], values: Real[np.ndarray, " rows"], grid: Real[np.ndarray, " points"]
) -> Float[np.ndarray, " points"]:
    """One run's curve on another grid; NaN before its first and after its last row.

    Where the grid is the coarser one a point is the mean of the (piecewise linear) curve over the point's
    cell, so that nothing between two points is lost; otherwise it is interpolated.
    """
    known = np.isfinite(values)
    x, y = np.asarray(steps[known], np.float64), np.asarray(values[known], np.float64)
    if x.size == 0:
        return np.full(grid.shape, np.nan)
    if x.size <= grid.size:
        return np.asarray(np.interp(grid, x, y, left=np.nan, right=np.nan))
    middles = (grid[1:] + grid[:-1]) / 2.0
    edges = np.clip(np.concatenate([grid[:1], middles, grid[-1:]]), x[0], x[-1])
    area = np.concatenate([[0.0], np.cumsum(np.diff(x) * (y[1:] + y[:-1]) / 2.0)])
    width = np.diff(edges)
    means = np.diff(_area_at(edges, x, y, area)) / np.where(width > 0, width, 1.0)
    cells = np.where(width > 0, means, np.interp(grid, x, y))
    return np.where((grid >= x[0]) & (grid <= x[-1]), cells, np.nan)


def _area_at(points: np.ndarray, x: np.ndarray, y: np.ndarray, area: np.ndarray) -> np.ndarray:
    """The integral of the piecewise linear curve (x, y) from x[0] up to each point."""
    index = np.clip(np.searchsorted(x, points, side="right") - 1, 0, x.size - 1)
    return np.asarray(area[index] + (points - x[index]) * (y[index] + np.interp(points, x, y)) / 2.0)


def common_grid(
    steps: Sequence[Real[np.ndarray, " _"]], points: int = POINTS
) -> Float[np.ndarray, " points"]:
    """The grid of several runs: their own steps where all agree and are few enough, else even ones."""
    first = steps[0]
    if first.size <= points and all(np.array_equal(first, other) for other in steps[1:]):
        return np.asarray(first, dtype=np.float64)
    return np.linspace(min(s[0] for s in steps), max(s[-1] for s in steps), points)


def band(
    curves: Sequence[tuple[Real[np.ndarray, " _"], Real[np.ndarray, " _"]]],
    *,
    kind: Band = "range",
    whole: bool = True,
    points: int = POINTS,
) -> Curve:
    """The curve of a group from the (env_steps, values) of its runs, which may differ in where they logged.

    ``whole`` keeps only the steps that every run has reached; otherwise a point is over the runs there are.
    """
    known = [(s, v) for s, v in curves if np.isfinite(v).any()]
    if not known:
        empty = np.zeros(0)
        return Curve(empty, empty, empty, empty, np.zeros(0, dtype=int))
    grid = common_grid([s[np.isfinite(v)] for s, v in known], points)
    return band_of(grid, np.stack([on_grid(s, v, grid) for s, v in known]), kind=kind, whole=whole)


def band_of(
    grid: Real[np.ndarray, " points"],
    table: Float[np.ndarray, "runs points"],
    *,
    kind: Band = "range",
    whole: bool = True,
) -> Curve:
    """The curve of runs that are on one grid already, NaN where a run is not."""
    present = np.isfinite(table)
    runs = present.sum(axis=0)
    centre, low, high = (np.full(grid.shape, np.nan) for _ in range(3))
    patterns, which = np.unique(present, axis=1, return_inverse=True)
    for index in range(patterns.shape[1]):
        here, rows = which.reshape(-1) == index, patterns[:, index]
        if rows.any():
            centre[here], low[here], high[here] = _ends(table[np.ix_(rows, here)], kind)
    kept = runs == len(table) if whole else runs > 0
    return Curve(np.asarray(grid[kept], np.float64), centre[kept], low[kept], high[kept], runs[kept])


def _ends(table: Float[np.ndarray, "runs points"], kind: Band) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if kind == "range":
        return table.mean(axis=0), table.min(axis=0), table.max(axis=0)
    runs = table.shape[0]
    centre = interquartile_mean(table.T)
    if runs == 1:
        return centre, centre, centre
    draws = np.random.default_rng(PER_POINT.seed).integers(runs, size=(PER_POINT.resamples, runs))
    cut = tail([runs], PER_POINT)
    ends = [np.quantile(interquartile_mean(column[draws]), [cut, 1.0 - cut]) for column in table.T]
    low, high = np.array(ends).T
    return centre, np.minimum(low, centre), np.maximum(high, centre)
