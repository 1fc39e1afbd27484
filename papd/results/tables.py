"""From the rows of many runs to the numbers of a table: one row a run, a group, or a comparison."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from papd.errors import ConfigError, nearest
from papd.results import statistics
from papd.results.statistics import STANDARD, Bootstrap

FINAL = 0.1
"""The last part of training over which a run's result is the mean: its last tenth."""

RESULTS = ("return_mean", "cost_mean", "multiplier", "learning_rate")


def final_scores(
    frame: pd.DataFrame, limits: float | Sequence[float], fraction: float = FINAL
) -> pd.DataFrame:
    """One row a run: means over the last tenth of its iterations, its violation and whether it is feasible.

    ``frame`` is what :func:`papd.results.load` gives. A run that finished no episode in that time has NaN.
    """
    if not 0.0 < fraction <= 1.0:
        raise ConfigError(f"fraction={fraction}: the last part of training is above 0 and at most 1")
    costs = cost_columns(frame)
    metrics = [name for name in (*RESULTS, *costs) if name in frame.columns]
    rows = [
        _final_row(run, fraction, list(dict.fromkeys(metrics))) for _, run in frame.groupby("run", sort=False)
    ]
    final = pd.DataFrame(rows)
    final["violation"] = statistics.violation(final[costs].to_numpy(dtype=float), limits)
    final["feasible"] = final["violation"] <= 0.0
    return final


def cost_columns(frame: pd.DataFrame) -> list[str]:
    """The columns that cost limits bound: ``cost_mean``, or one for each of several constraints."""
    return [name for name in frame.columns if name.startswith("cost_mean_")] or ["cost_mean"]


def _final_row(run: pd.DataFrame, fraction: float, metrics: list[str]) -> dict[str, Any]:
    """The configuration of a run, where it ended, and its means over the last part."""
    last = run.iloc[-max(1, math.ceil(len(run) * fraction)) :]
    before = list(run.columns[: run.columns.get_loc("iteration")])
    own = {name: run[name].iloc[0] for name in before}
    ended = {name: run[name].iloc[-1] for name in ("iteration", "env_steps")}
    return {**own, **ended, **{name: last[name].mean() for name in metrics}}


def summary(final: pd.DataFrame, by: str | Sequence[str], how: Bootstrap = STANDARD) -> pd.DataFrame:
    """One row a group of :func:`final_scores`: the paper's numbers, interquartile means, feasibility.

    ``runs`` counts the runs with a result, ``without`` those that have none (NaN), which nothing else counts.
    """
    keys = _keys(final, by)
    rows = []
    for values, group in final.groupby(keys, sort=False, dropna=False):
        known = group[np.isfinite(group["return_mean"]) & np.isfinite(group["violation"])]
        row = dict(zip(keys, values, strict=True)) | {"runs": len(known), "without": len(group) - len(known)}
        rows.append(row | (_summary_row(known, how) if len(known) else {}))
    return pd.DataFrame(rows)


def _summary_row(group: pd.DataFrame, how: Bootstrap) -> dict[str, float]:
    row: dict[str, float] = {}
    for name in ("return", "cost"):
        scores = group[f"{name}_mean"].to_numpy(dtype=float)
        paper, middle = statistics.spread(scores), statistics.stratified_interval([scores], how=how)
        row |= {f"{name}_{key}": getattr(paper, key) for key in ("mean", "deviation", "low", "high")}
        row |= {
            f"{name}_iqm": middle.estimate,
            f"{name}_iqm_low": middle.low,
            f"{name}_iqm_high": middle.high,
        }
    score = statistics.feasibility(*_scores(group))
    return row | {
        "feasible_share": score.share,
        "feasible_return": score.feasible_return,
        "mean_violation": score.violation,
    }


def comparisons(
    final: pd.DataFrame,
    method: str,
    task: str | None = "env",
    *,
    against: Any = None,
    how: Bootstrap = STANDARD,
) -> pd.DataFrame:
    """Every pair of methods (or all against one): probabilities of improvement over all tasks, and verdicts.

    ``method`` and ``task`` are columns of :func:`final_scores`. ``improvement`` is in the feasible-first
    order of docs/statistics.md; ``return_improvement`` and ``cost_improvement`` (lower cost) are of one number.
    """
    _keys(final, [method, *([task] if task else [])])
    names = list(final[method].drop_duplicates())
    if against is not None and against not in names:
        raise ConfigError(f"against={against!r}: no such {method}{nearest(str(against), map(str, names))}")
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    if against is not None:
        pairs = [(name, against) for name in names if name != against]
    return pd.DataFrame([_comparison(final, method, task, pair, how) for pair in pairs])


def _comparison(
    final: pd.DataFrame, method: str, task: str | None, pair: tuple[Any, Any], how: Bootstrap
) -> dict[str, Any]:
    ours, theirs = (_by_task(final[final[method] == name], task) for name in pair)
    tasks = [name for name in ours if name in theirs]
    if not tasks:
        raise ConfigError(
            f"{pair[0]} and {pair[1]} share no task: a comparison needs runs of both on one {task}"
        )
    here, there = [ours[name] for name in tasks], [theirs[name] for name in tasks]
    seeds = min(returns.size for returns, *_ in (*here, *there))
    improvement = statistics.feasible_first_improvement(
        [(r, v) for r, v, _ in here], [(r, v) for r, v, _ in there], how
    )
    by_return = statistics.probability_of_improvement([r for r, *_ in here], [r for r, *_ in there], how)
    by_cost = statistics.probability_of_improvement([-c for *_, c in here], [-c for *_, c in there], how)
    row: dict[str, Any] = {"method": pair[0], "against": pair[1], "tasks": len(tasks), "seeds": seeds}
    for name, interval in (
        ("improvement", improvement),
        ("return_improvement", by_return),
        ("cost_improvement", by_cost),
    ):
        row |= {name: interval.estimate, f"{name}_low": interval.low, f"{name}_high": interval.high}
    told = statistics.verdict(improvement, seeds, null=0.5)
    return row | {"verdict": {"higher": "better", "lower": "worse"}.get(told, told)}


def _by_task(group: pd.DataFrame, task: str | None) -> dict[Any, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Returns, violations and costs of a method's runs on each task; runs without a result are left out."""
    known = group[np.isfinite(group["return_mean"]) & np.isfinite(group["violation"])]
    parts = known.groupby(task, sort=False) if task else [(None, known)]
    return {
        name: (*_scores(part), part["cost_mean"].to_numpy(dtype=float)) for name, part in parts if len(part)
    }


def _scores(group: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    return group["return_mean"].to_numpy(dtype=float), group["violation"].to_numpy(dtype=float)


def _keys(final: pd.DataFrame, by: str | Sequence[str]) -> list[str]:
    keys = [by] if isinstance(by, str) else list(by)
    for key in keys:
        if key not in final.columns:
            hint = nearest(key, map(str, final.columns))
            raise ConfigError(
                f"no column {key!r}{hint}; a field that all runs share needs load(..., keep=[{key!r}])"
            )
    return keys
