"""Statistics of a handful of runs: spread, interquartile mean, intervals, improvement, feasibility.

What each number means is told once, in docs/statistics.md. A *task* is an environment; the scores of a method
are one array of runs per task. Nothing here hides a NaN: a run without a result is the caller's to name.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.stats
from jaxtyping import Float, Int, Real

from papd.errors import ConfigError

Scores = Real[np.ndarray, " _"]
"""One number a run."""

Statistic = Callable[[np.ndarray], np.ndarray]
"""Brings the last axis, the runs, down to one number."""


class Interval(NamedTuple):
    """An estimate and its confidence interval; its ends are NaN where no task has two runs to tell a spread from."""

    estimate: float
    low: float
    high: float


class Spread(NamedTuple):
    """What the paper prints of a case: mean and standard deviation over runs, and the ends of its band."""

    runs: int
    mean: float
    deviation: float
    low: float
    high: float


class Feasibility(NamedTuple):
    """How often runs are feasible, what the feasible ones return, and how far the others are off.

    ``feasible_return`` is NaN where no run is feasible, ``violation`` is 0 where every run is.
    """

    runs: int
    share: float
    feasible_return: float
    violation: float


@dataclass(frozen=True)
class Bootstrap:
    """How an interval is drawn. ``small_sample=False`` is rliable's percentile interval (:func:`tail`)."""

    confidence: float = 0.95
    resamples: int = 4000
    small_sample: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 < self.confidence < 1.0:
            raise ConfigError(f"confidence={self.confidence}: must lie between 0 and 1, for example 0.95")
        if self.resamples < 1:
            raise ConfigError(f"resamples={self.resamples}: at least 1, better 1000 or more")


STANDARD = Bootstrap()


def spread(scores: Scores) -> Spread:
    """Mean, sample standard deviation (NaN for one run), minimum and maximum over runs."""
    values = _checked(scores)
    deviation = float(values.std(ddof=1)) if values.size > 1 else float("nan")
    return Spread(values.size, float(values.mean()), deviation, float(values.min()), float(values.max()))


def mean(scores: Real[np.ndarray, "*batch runs"]) -> Float[np.ndarray, "*batch"]:
    """The mean over runs (the last axis)."""
    return np.asarray(scores.mean(axis=-1))


def interquartile_mean(scores: Real[np.ndarray, "*batch runs"]) -> Float[np.ndarray, "*batch"]:
    """The mean of the middle half: a quarter of the runs, rounded down, is cut at each end (rliable)."""
    runs = scores.shape[-1]
    ordered = np.sort(scores, axis=-1)
    return np.asarray(ordered[..., runs // 4 : runs - runs // 4].mean(axis=-1))


def tail(tasks: Sequence[int], how: Bootstrap) -> float:
    """The share of the bootstrap distribution cut off at each end, for these numbers of runs; NaN for one each.

    rliable cuts (1 - confidence) / 2. Over n runs the bootstrap distribution is too narrow, by
    sqrt((n - 1) / n), and has normal tails where Student's are due; with ``small_sample`` less is cut, to
    make up for both (the expanded percentile interval, Hesterberg 2015). docs/statistics.md has what that
    does to the coverage.
    """
    alpha = (1.0 - how.confidence) / 2.0
    freedom = sum(tasks) - len(tasks)
    if freedom == 0:
        return float("nan")
    if not how.small_sample:
        return alpha
    narrow = np.sqrt(sum(tasks) / freedom)
    return float(scipy.stats.norm.sf(scipy.stats.t.isf(alpha, freedom) * narrow))


def stratified_interval(
    tasks: Sequence[Scores], statistic: Statistic = interquartile_mean, how: Bootstrap = STANDARD
) -> Interval:
    """A statistic of the scores of all tasks together, with its stratified bootstrap interval.

    The runs of each task are drawn again, with replacement, within that task (rliable). Scores of different
    tasks must be on one scale: see :func:`normalised`.
    """
    scores = _checked_tasks(tasks)
    pooled = np.concatenate(_resampled(scores, how, np.random.default_rng(how.seed)), axis=1)
    estimate = float(statistic(np.concatenate(scores)))
    return _interval(estimate, statistic(pooled), tail([s.size for s in scores], how))


def difference(
    first: Sequence[Scores],
    second: Sequence[Scores],
    statistic: Statistic = interquartile_mean,
    how: Bootstrap = STANDARD,
) -> Interval:
    """How much higher the statistic of the first method is, averaged over tasks, with its interval."""
    ours, theirs = _checked_pair(first, second)
    random = np.random.default_rng(how.seed)

    def gap(here: Sequence[np.ndarray], there: Sequence[np.ndarray]) -> np.ndarray:
        each = [statistic(x) - statistic(y) for x, y in zip(here, there, strict=True)]
        return np.asarray(np.mean(each, axis=0))

    drawn = gap(_resampled(ours, how, random), _resampled(theirs, how, random))
    return _interval(float(gap(ours, theirs)), drawn, tail([s.size for s in (*ours, *theirs)], how))


def probability_of_improvement(
    first: Sequence[Scores], second: Sequence[Scores], how: Bootstrap = STANDARD
) -> Interval:
    """P(X > Y) + P(X = Y) / 2 for a run X of the first and Y of the second method, averaged over tasks."""
    ours, theirs = _checked_pair(first, second)
    random = np.random.default_rng(how.seed)
    estimates, distributions = [], []
    for x, y in zip(ours, theirs, strict=True):
        wins = (np.sign(x[:, None] - y[None, :]) + 1.0) / 2.0
        estimates.append(wins.mean())
        shares = [_shares(_draws(s.size, how, random)) for s in (x, y)]
        distributions.append(np.einsum("bi,ij,bj->b", shares[0], wins, shares[1], optimize=True))
    cut = tail([s.size for s in (*ours, *theirs)], how)
    return _interval(float(np.mean(estimates)), np.mean(distributions, axis=0), cut)


def normalised(scores: Scores, low: float, high: float) -> Float[np.ndarray, " _"]:
    """Scores on a scale where ``low`` is 0 and ``high`` is 1, so that tasks can be pooled."""
    if not (np.isfinite(low) and np.isfinite(high) and high > low):
        raise ConfigError(f"low={low}, high={high}: the scale of a task needs two finite ends, low < high")
    return np.asarray((scores - low) / (high - low), dtype=np.float64)


def violation(
    costs: Real[np.ndarray, " runs"] | Real[np.ndarray, "runs constraints"], limits: float | Sequence[float]
) -> Float[np.ndarray, " runs"]:
    """(J_C - d)+ of each run, summed over constraints: 0 exactly where the run is feasible.

    ``limits`` is one limit for all constraints, or one each.
    """
    table = costs.reshape(len(costs), -1)
    each = np.atleast_1d(np.asarray(limits, dtype=np.float64))
    if each.ndim != 1 or each.size not in (1, table.shape[1]):
        raise ConfigError(f"{each.size} cost limits for {table.shape[1]} costs: give one for each")
    return np.asarray(np.maximum(table - each[None, :], 0.0).sum(axis=1))


def feasibility(returns: Scores, violations: Scores) -> Feasibility:
    """The three numbers of the feasibility-aware score of one method on one task (docs/statistics.md)."""
    values, excess = _checked(returns, "returns"), _checked(violations, "violations")
    feasible = excess <= 0.0
    return Feasibility(
        runs=values.size,
        share=float(feasible.mean()),
        feasible_return=float(values[feasible].mean()) if feasible.any() else float("nan"),
        violation=float(excess[~feasible].mean()) if not feasible.all() else 0.0,
    )


def feasible_first(
    returns: Real[np.ndarray, " runs"], violations: Real[np.ndarray, " runs"]
) -> Int[np.ndarray, " runs"]:
    """Each run's place in the feasible-first order, from 1 (the worst) up; runs that tie share a place.

    A feasible run is above every infeasible one. Among feasible runs the higher return is above, among
    infeasible ones the smaller violation, and where that is equal the higher return.
    """
    values, excess = _checked(returns, "returns"), _checked(violations, "violations")
    _, places = np.unique(np.stack([-excess, values], axis=1), axis=0, return_inverse=True)
    return np.asarray(places.reshape(-1) + 1)


def feasible_first_improvement(
    first: Sequence[tuple[Scores, Scores]],
    second: Sequence[tuple[Scores, Scores]],
    how: Bootstrap = STANDARD,
) -> Interval:
    """Probability of improvement in the feasible-first order; each task is its (returns, violations)."""
    _check_tasks_agree(first, second)
    ours, theirs = [], []
    for (our_returns, our_excess), (their_returns, their_excess) in zip(first, second, strict=True):
        places = feasible_first(
            np.concatenate([our_returns, their_returns]), np.concatenate([our_excess, their_excess])
        )
        ours.append(places[: our_returns.size])
        theirs.append(places[our_returns.size :])
    return probability_of_improvement(ours, theirs, how)


def verdict(interval: Interval, seeds: int, null: float = 0.0) -> str:
    """``higher`` or ``lower`` where the whole interval is, else ``cannot be told at n seeds``.

    ``null`` is what no difference would be: 0 for a difference, 0.5 for a probability of improvement.
    """
    if seeds > 1 and interval.low > null:
        return "higher"
    if seeds > 1 and interval.high < null:
        return "lower"
    return f"cannot be told at {seeds} seed{'' if seeds == 1 else 's'}"


def _checked(scores: Scores, name: str = "scores") -> np.ndarray:
    if scores.size == 0:
        raise ConfigError(f"{name} are empty: a statistic needs at least one run")
    finite = np.isfinite(scores)
    if not finite.all():
        raise ConfigError(
            f"{name} hold NaN or infinity (run {int(np.argmin(finite))} of {scores.size}): leave such a run "
            "out and say so, or say what it counts as"
        )
    return np.asarray(scores, dtype=np.float64)


def _checked_tasks(tasks: Sequence[Scores]) -> list[np.ndarray]:
    if len(tasks) == 0:
        raise ConfigError("no task: give the scores of at least one")
    return [_checked(task, f"the scores of task {index}") for index, task in enumerate(tasks)]


def _check_tasks_agree(first: Sequence[object], second: Sequence[object]) -> None:
    if len(first) != len(second):
        raise ConfigError(f"{len(first)} tasks against {len(second)}: compare two methods on the same tasks")


def _checked_pair(
    first: Sequence[Scores], second: Sequence[Scores]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    _check_tasks_agree(first, second)
    return _checked_tasks(first), _checked_tasks(second)


def _draws(runs: int, how: Bootstrap, random: np.random.Generator) -> np.ndarray:
    return random.integers(runs, size=(how.resamples, runs))


def _resampled(tasks: Sequence[np.ndarray], how: Bootstrap, random: np.random.Generator) -> list[np.ndarray]:
    """Each task's runs drawn again: [resamples, runs]."""
    return [scores[_draws(scores.size, how, random)] for scores in tasks]


def _shares(draws: np.ndarray) -> np.ndarray:
    """How large a part of each resample each run is: [resamples, runs]."""
    resamples, runs = draws.shape
    flat = draws + runs * np.arange(resamples)[:, None]
    counts = np.bincount(flat.ravel(), minlength=resamples * runs)
    return np.asarray(counts.reshape(resamples, runs) / runs)


def _interval(estimate: float, distribution: np.ndarray, cut: float) -> Interval:
    if np.isnan(cut):
        return Interval(estimate, cut, cut)
    low, high = np.quantile(distribution, [cut, 1.0 - cut])
    # An estimate is never outside its own interval, not even by the noise of few resamples.
    return Interval(estimate, float(min(low, estimate)), float(max(high, estimate)))
