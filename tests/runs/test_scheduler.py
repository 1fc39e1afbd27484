"""The simulated scheduler against what can be worked out by hand, and against a sweep that was measured."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.scheduler import Cluster, Task, check, large_sweep, simulate

BARE = {"hand_out_seconds": 0.0, "start_seconds": 0.0, "compile_seconds": 0.0}


def test_small_sweeps_worked_out_by_hand() -> None:
    tasks = [Task("a", 4.0), Task("a", 2.0), Task("b", 3.0)]
    assert simulate(tasks, Cluster(1, 1, **BARE)).seconds == 9.0
    assert simulate(tasks, Cluster(1, 2, **BARE)).seconds == 5.0  # 4, and 2 + 3.
    assert simulate(tasks, Cluster(3, 1, **BARE)).seconds == 4.0
    assert simulate(tasks, Cluster(1, 2, **BARE)).busy == pytest.approx(9 / 10)


def test_a_process_starts_and_compiles_once_and_the_driver_hands_out_one_by_one() -> None:
    slow = Cluster(1, 1, hand_out_seconds=1.0, start_seconds=10.0, compile_seconds=100.0)
    same = [Task("a", 5.0)] * 3
    assert simulate(same, slow).seconds == 10 + 100 + 3 * (1 + 5)
    assert simulate([*same, Task("b", 5.0)], slow).seconds == 10 + 2 * 100 + 4 * (1 + 5)
    many = Cluster(1, 100, **{**BARE, "hand_out_seconds": 1.0})
    assert simulate([Task("a", 5.0)] * 100, many).seconds == 100 + 5


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.floats(0.1, 1000.0), min_size=1, max_size=60),
    st.integers(1, 8),
    st.integers(1, 4),
    st.floats(0.05, 10.0),
    st.integers(0, 5),
)
def test_no_cluster_beats_its_cores_or_the_longest_run_and_failures_lose_nothing_for_good(
    seconds: list[float], nodes: int, cores: int, hours: float, seed: int
) -> None:
    tasks = [Task("ab"[i % 2], each) for i, each in enumerate(seconds)]
    safe = simulate(tasks, Cluster(nodes, cores))
    least = max(max(seconds), sum(seconds) / (nodes * cores))
    assert safe.seconds >= least
    assert safe.seconds <= 3 + 2 * sum(seconds) / (nodes * cores) + max(seconds) + len(seconds) * 6.001
    hard = simulate(tasks, Cluster(nodes, cores, hours_between_failures=hours), seed)
    assert hard.seconds >= least - 1e-6
    assert hard == simulate(tasks, Cluster(nodes, cores, hours_between_failures=hours), seed)
    assert (hard.restarts == 0) or hard.seconds > 0


def test_the_recorded_sweep_takes_as_long_as_it_took() -> None:
    assert check()["ratio"] == pytest.approx(1.0, abs=0.1)


def test_more_nodes_help_until_every_run_has_a_core() -> None:
    tasks = large_sweep(420, 60.0)
    times = [simulate(tasks, Cluster(nodes)).seconds for nodes in (1, 2, 4, 14, 100)]
    assert times == sorted(times, reverse=True)
    assert times[0] / times[2] > 3.0
    assert times[3] - times[4] < 0.05 * times[3]
