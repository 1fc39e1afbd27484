"""The statistics against closed forms, their symmetries, and the coverage they promise."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from papd.errors import ConfigError
from papd.results import bands, statistics
from papd.results.statistics import Bootstrap, Interval

QUICK = Bootstrap(resamples=500)
scores = hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(-1e6, 1e6, allow_nan=False, width=32))


def normal(runs: int, shift: float = 0.0, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(shift, 1.0, runs)


def test_spread_of_known_numbers() -> None:
    result = statistics.spread(np.array([1.0, 2.0, 3.0, 6.0]))
    assert result == (4, 3.0, pytest.approx(np.sqrt(14 / 3)), 1.0, 6.0)
    assert np.isnan(statistics.spread(np.array([5.0])).deviation)


def test_interquartile_mean_drops_a_quarter_at_each_end() -> None:
    assert statistics.interquartile_mean(np.array([100.0, 1.0, 2.0, 3.0, -50.0])) == 2.0
    assert statistics.interquartile_mean(np.arange(8.0)) == 3.5
    assert statistics.interquartile_mean(np.array([1.0, 5.0, 9.0])) == 5.0


@given(scores)
def test_interquartile_mean_is_scipys_trimmed_mean(values: np.ndarray) -> None:
    assert statistics.interquartile_mean(values) == pytest.approx(
        scipy.stats.trim_mean(values, 0.25), abs=1e-6
    )


@given(scores, st.randoms())
def test_interquartile_mean_is_within_the_scores_and_blind_to_their_order(values: np.ndarray, random) -> None:
    result = float(statistics.interquartile_mean(values))
    slack = 1e-9 * (1.0 + np.abs(values).max())
    assert values.min() - slack <= result <= values.max() + slack
    shuffled = values.copy()
    random.shuffle(shuffled)
    assert float(statistics.interquartile_mean(shuffled)) == result


def test_interval_is_deterministic_given_its_seed_and_varies_with_it() -> None:
    tasks = [normal(5), normal(5, seed=1)]
    first = statistics.stratified_interval(tasks)
    assert first == statistics.stratified_interval(tasks)
    assert first != statistics.stratified_interval(tasks, how=Bootstrap(seed=1))
    assert first.low < first.estimate < first.high


def test_interval_of_equal_scores_is_a_point() -> None:
    assert statistics.stratified_interval([np.full(5, 3.0)]) == Interval(3.0, 3.0, 3.0)


def test_bootstrap_is_stratified_by_task() -> None:
    """Scores that differ between tasks only: drawing within tasks leaves nothing to chance."""
    tasks = [np.zeros(5), np.full(5, 100.0)]
    assert statistics.stratified_interval(tasks, statistics.mean) == Interval(50.0, 50.0, 50.0)


def test_percentile_interval_of_the_mean_meets_the_normal_one_for_many_runs() -> None:
    values = normal(2000)
    plain = Bootstrap(small_sample=False)
    result = statistics.stratified_interval([values], statistics.mean, plain)
    half = 1.96 * values.std() / np.sqrt(values.size)
    assert result.low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert result.high == pytest.approx(values.mean() + half, abs=0.1 * half)


def test_small_sample_tail_is_students() -> None:
    """Five runs: t with 4 degrees of freedom, times sqrt(5 / 4), as a normal quantile."""
    expected = scipy.stats.norm.sf(2.7764451 * np.sqrt(5 / 4))
    assert statistics.tail([5], Bootstrap()) == pytest.approx(expected, rel=1e-4)
    assert statistics.tail([5], Bootstrap(small_sample=False)) == pytest.approx(0.025)
    assert statistics.tail([100000], Bootstrap()) == pytest.approx(0.025, rel=1e-2)


def test_one_run_has_no_interval_and_no_verdict() -> None:
    for interval in (
        statistics.stratified_interval([np.array([3.0]), np.array([4.0])]),
        statistics.probability_of_improvement([np.array([3.0])], [np.array([1.0])]),
        statistics.difference([np.array([3.0])], [np.array([1.0])]),
    ):
        assert np.isfinite(interval.estimate)
        assert np.isnan(interval.low)
        assert np.isnan(interval.high)
        assert statistics.verdict(interval, 1) == "cannot be told at 1 seed"


@pytest.mark.parametrize(("runs", "tasks", "least"), [(5, 1, 0.87), (5, 4, 0.90), (20, 1, 0.90)])
def test_coverage_of_the_interval(runs: int, tasks: int, least: float) -> None:
    """Of 200 intervals of the mean at 95%, how many hold the truth; rliable's cover less."""
    random = np.random.default_rng(7)
    covered = {True: 0, False: 0}
    for _ in range(200):
        sample = [random.normal(size=runs) for _ in range(tasks)]
        for small_sample in covered:
            how = Bootstrap(resamples=400, small_sample=small_sample)
            found = statistics.stratified_interval(sample, statistics.mean, how)
            covered[small_sample] += found.low <= 0.0 <= found.high
    assert least <= covered[True] / 200 <= 0.995
    assert covered[True] >= covered[False]


def test_false_verdicts_on_equal_methods_stay_near_the_level() -> None:
    random = np.random.default_rng(3)
    told = 0
    for _ in range(200):
        interval = statistics.probability_of_improvement(
            [random.normal(size=5)], [random.normal(size=5)], QUICK
        )
        told += not statistics.verdict(interval, 5, null=0.5).startswith("cannot")
    assert told / 200 <= 0.09


def test_probability_of_improvement_by_counting() -> None:
    """Of the 6 pairs of (2, 4) and (1, 2, 3), four are won, one is tied, one is lost."""
    found = statistics.probability_of_improvement([np.array([2.0, 4.0])], [np.array([1.0, 2.0, 3.0])])
    assert found.estimate == pytest.approx((4 + 0.5) / 6)
    assert 0.0 <= found.low <= found.estimate <= found.high <= 1.0


@given(scores, scores)
def test_probability_of_improvement_is_symmetric_to_one(first: np.ndarray, second: np.ndarray) -> None:
    here = statistics.probability_of_improvement([first], [second], Bootstrap(resamples=50)).estimate
    there = statistics.probability_of_improvement([second], [first], Bootstrap(resamples=50)).estimate
    assert here + there == pytest.approx(1.0)


def test_probability_of_improvement_of_normals_is_the_closed_form() -> None:
    shift = 0.7
    found = statistics.probability_of_improvement([normal(800, shift)], [normal(800, seed=1)], QUICK)
    assert found.estimate == pytest.approx(scipy.stats.norm.cdf(shift / np.sqrt(2)), abs=0.03)
    assert found.low < scipy.stats.norm.cdf(shift / np.sqrt(2)) < found.high


def test_probability_of_improvement_averages_tasks() -> None:
    better, worse = [np.array([2.0, 3.0])], [np.array([0.0, 1.0])]
    both = statistics.probability_of_improvement(better + worse, worse + better)
    assert both.estimate == 0.5


def test_difference_of_shifted_scores() -> None:
    first = [np.arange(5.0) + 10.0, np.arange(5.0) * 3.0]
    second = [np.arange(5.0), np.arange(5.0) * 3.0]
    found = statistics.difference(first, second)
    assert found.estimate == pytest.approx(5.0)
    assert statistics.difference(second, first).estimate == pytest.approx(-5.0)


def test_verdict_names_its_seeds() -> None:
    assert statistics.verdict(Interval(1.0, 0.2, 1.9), 5) == "higher"
    assert statistics.verdict(Interval(-1.0, -2.0, -0.1), 5) == "lower"
    assert statistics.verdict(Interval(1.0, -0.2, 1.9), 5) == "cannot be told at 5 seeds"
    assert statistics.verdict(Interval(1.0, 1.0, 1.0), 1) == "cannot be told at 1 seed"
    assert statistics.verdict(Interval(0.8, 0.6, 0.9), 20, null=0.5) == "higher"


def test_violation_and_feasibility_of_known_runs() -> None:
    returns = np.array([100.0, 200.0, 300.0, 50.0])
    excess = statistics.violation(np.array([5.0, 10.0, 12.0, 30.0]), 10.0)
    assert excess.tolist() == [0.0, 0.0, 2.0, 20.0]
    assert statistics.feasibility(returns, excess) == (4, 0.5, 150.0, 11.0)


def test_feasibility_at_its_ends() -> None:
    none = statistics.feasibility(np.array([1.0]), np.array([3.0]))
    assert none.share == 0.0
    assert np.isnan(none.feasible_return)
    assert statistics.feasibility(np.array([1.0]), np.array([0.0])) == (1, 1.0, 1.0, 0.0)


def test_violation_of_several_constraints_is_their_sum() -> None:
    costs = np.array([[11.0, 4.0], [9.0, 7.0], [12.0, 6.0]])
    assert statistics.violation(costs, (10.0, 5.0)).tolist() == [1.0, 2.0, 3.0]
    assert statistics.violation(costs, 10.0).tolist() == [1.0, 0.0, 2.0]
    with pytest.raises(ConfigError, match="3 cost limits for 2 costs"):
        statistics.violation(costs, (1.0, 2.0, 3.0))


def test_feasible_first_order() -> None:
    returns = np.array([500.0, 100.0, 900.0, 800.0, 100.0])
    excess = np.array([0.0, 0.0, 5.0, 1.0, 0.0])
    assert statistics.feasible_first(returns, excess).tolist() == [4, 3, 1, 2, 3]


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 3)), min_size=2, max_size=12))
def test_feasible_first_agrees_with_the_rule_in_every_pair(runs: list[tuple[int, int]]) -> None:
    returns, excess = (np.array(column, dtype=float) for column in zip(*runs, strict=True))
    places = statistics.feasible_first(returns, excess)
    for i in range(len(runs)):
        for j in range(len(runs)):
            above = (excess[i] < excess[j]) or (excess[i] == excess[j] and returns[i] > returns[j])
            assert (places[i] > places[j]) == above


def test_feasible_first_improvement_prefers_a_poor_feasible_run() -> None:
    feasible = (np.array([10.0, 20.0]), np.zeros(2))
    violating = (np.array([500.0, 600.0]), np.array([3.0, 0.1]))
    assert statistics.feasible_first_improvement([feasible], [violating]).estimate == 1.0
    assert statistics.probability_of_improvement([feasible[0]], [violating[0]]).estimate == 0.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: statistics.spread(np.array([])), "at least one run"),
        (lambda: statistics.stratified_interval([np.array([1.0, np.nan])]), "run 1 of 2"),
        (lambda: statistics.stratified_interval([]), "no task"),
        (lambda: statistics.difference([normal(3)], []), "1 tasks against 0"),
        (lambda: statistics.normalised(normal(3), 1.0, 1.0), "low < high"),
        (lambda: Bootstrap(confidence=95.0), "between 0 and 1"),
        (lambda: Bootstrap(resamples=0), "at least 1"),
    ],
)
def test_mistakes_are_told(call, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        call()


def test_normalised_scale() -> None:
    assert statistics.normalised(np.array([5.0, 10.0, 20.0]), 0.0, 10.0).tolist() == [0.5, 1.0, 2.0]


def line(steps: np.ndarray, slope: float) -> tuple[np.ndarray, np.ndarray]:
    return steps, slope * steps


def test_band_of_runs_logged_at_the_same_steps_is_exact() -> None:
    steps = np.arange(1.0, 6.0)
    curve = bands.band([line(steps, 1.0), line(steps, 2.0), line(steps, 6.0)])
    assert curve.steps.tolist() == steps.tolist()
    np.testing.assert_allclose(curve.centre, 3.0 * steps)
    np.testing.assert_allclose(curve.low, steps)
    np.testing.assert_allclose(curve.high, 6.0 * steps)
    assert curve.runs.tolist() == [3] * 5


def test_band_of_runs_logged_at_different_steps() -> None:
    curve = bands.band([line(np.arange(0.0, 101.0, 7.0), 1.0), line(np.arange(0.0, 101.0, 3.0), 3.0)])
    np.testing.assert_allclose(curve.centre, 2.0 * curve.steps, atol=1e-9)
    assert curve.steps.max() <= 98.0


def test_whole_band_ends_with_the_shortest_run_and_the_other_goes_on() -> None:
    short, long = line(np.arange(1.0, 11.0), 1.0), line(np.arange(1.0, 101.0), 3.0)
    assert bands.band([short, long]).steps.max() <= 10.0
    rest = bands.band([short, long], whole=False)
    assert rest.steps.max() == 100.0
    assert rest.runs[0] == 2
    assert rest.runs[-1] == 1
    np.testing.assert_allclose(rest.centre[rest.runs == 1], 3.0 * rest.steps[rest.runs == 1])


def test_long_curves_are_averaged_not_sampled() -> None:
    """An alternating curve of 10000 rows has mean 0.5 in every cell; sampling it would give 0 or 1."""
    steps = np.arange(10_000.0)
    curve = bands.band([(steps, steps % 2.0)], points=100)
    assert curve.steps.size == 100
    np.testing.assert_allclose(curve.centre, 0.5, atol=0.01)


def test_band_leaves_out_rows_without_a_value_and_runs_without_any() -> None:
    steps = np.arange(4.0)
    hole = np.array([0.0, np.nan, 2.0, 3.0])
    curve = bands.band([(steps, hole), (steps, np.full(4, np.nan))])
    assert np.isfinite(curve.centre).all()
    assert bands.band([(steps, np.full(4, np.nan))]).steps.size == 0


def test_iqm_band_ignores_one_collapsed_run_and_holds_the_centre() -> None:
    steps = np.arange(1.0, 9.0)
    runs = [line(steps, slope) for slope in (1.0, 1.1, 0.9, 1.05, -50.0)]
    curve = bands.band(runs, kind="iqm")
    np.testing.assert_allclose(curve.centre, steps * np.mean([0.9, 1.0, 1.05]))
    assert (curve.low <= curve.centre).all()
    assert (curve.centre <= curve.high).all()
    alone = bands.band(runs[:1], kind="iqm")
    assert alone.low.tolist() == alone.centre.tolist() == steps.tolist()


@given(hnp.arrays(np.float64, (3, 20), elements=st.floats(-1e3, 1e3)), st.booleans())
def test_band_holds_its_centre_and_is_blind_to_the_order_of_runs(table: np.ndarray, whole: bool) -> None:
    steps = np.arange(20.0)
    runs = [(steps, row) for row in table]
    curve, turned = bands.band(runs, whole=whole), bands.band(runs[::-1], whole=whole)
    assert (curve.low <= curve.centre + 1e-9).all()
    assert (curve.centre <= curve.high + 1e-9).all()
    np.testing.assert_allclose(curve.centre, turned.centre, atol=1e-9)
