"""Runs that step together as one vmap leave what single runs leave, and either engine goes on with the other's."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from papd.runs.metrics import read_metrics
from papd.runs.sweeps import jobs, memory
from papd.runs.sweeps.plan import job
from papd.runs.sweeps.pool import Job
from papd.runs.sweeps.spec import Sweep, SweepRun
from papd.runs.train import Stop
from tests.runs.sweeps import EPISODES, small

ITERATIONS = 5
"""So few that rounding has not turned a sampled action into the other one yet; from there on the runs differ."""
TIMES = ("steps_per_second", "wall_seconds")


class Heard:
    """What was told."""

    def __init__(self, stop: Stop | None = None, stop_at: int = 0):
        self.events: list[dict[str, Any]] = []
        self._stop, self._stop_at = stop, stop_at

    def __call__(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        if self._stop is not None and event.get("env_steps", 0) >= self._stop_at * EPISODES:
            self._stop.signal = 2

    def ended(self) -> dict[str, str]:
        return {event["run"]: event["status"] for event in self.events if event["event"] == "ended"}


def order(kind: str, runs: Sequence[SweepRun], folder: Path) -> Job:
    return {**job(kind, list(runs), folder, ["test"]), "tell_every": 0.0}


def together(runs: Sequence[SweepRun], folder: Path, heard: Heard, stop: Stop | None = None) -> None:
    jobs.do(order("train population", runs, folder), heard, stop or Stop())


def one_by_one(runs: Sequence[SweepRun], folder: Path) -> None:
    for run in runs:
        jobs.do(order("train", (run,), folder), lambda event: None, Stop())


def rows(folder: Path) -> np.ndarray:
    return np.array(
        [[row[name] for name in row if name not in TIMES] for row in read_metrics(folder / "metrics.csv")]
    )


@pytest.fixture(scope="module")
def sweep() -> Sweep:
    return small(ITERATIONS, seeds=1, cost_limit=0.3)


@pytest.fixture(scope="module")
def alone(sweep: Sweep, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    one_by_one(sweep.runs, folder)
    return folder


def assert_same(folder: Path, alone: Path, runs: Sequence[SweepRun]) -> None:
    for run in runs:
        np.testing.assert_allclose(rows(folder / run.name), rows(alone / run.name), rtol=2e-3, atol=2e-5)
        summary = json.loads((folder / run.name / "summary.json").read_text())
        assert (summary["status"], summary["iterations"]) == ("finished", ITERATIONS)
        names = {path.name for path in (folder / run.name).iterdir() if "tfevents" not in path.name}
        assert names == {path.name for path in (alone / run.name).iterdir() if "tfevents" not in path.name}
    rates = {
        float(row["learning_rate"]) for run in runs for row in read_metrics(folder / run.name / "metrics.csv")
    }
    assert len(rates) >= 3


def test_a_population_is_its_runs_one_by_one(sweep: Sweep, alone: Path, tmp_path: Path) -> None:
    heard = Heard()
    together(sweep.runs, tmp_path, heard)
    assert heard.ended() == {run.name: "finished" for run in sweep.runs}
    covered = sum(event["covered"] for event in heard.events if event["event"] == "row")
    assert covered == len(sweep.runs) * ITERATIONS * EPISODES
    assert_same(tmp_path, alone, sweep.runs)
    again = Heard()
    together(sweep.runs, tmp_path, again)
    assert [event["event"] for event in again.events] == ["ended"] * len(sweep.runs)


def test_more_runs_than_memory_holds_go_in_turns(
    sweep: Sweep, alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = iter([300])  # Of two together.
    monkeypatch.setattr(memory, "_needed", lambda compiled: next(needed))
    monkeypatch.setattr(memory, "_free", lambda: 200)
    heard = Heard()
    together(sweep.runs, tmp_path, heard)
    first, second = (run.name for run in sweep.runs)
    order = [event["run"] for event in heard.events if event["event"] in ("begun", "ended")]
    assert order == [first, first, second, second]
    assert_same(tmp_path, alone, sweep.runs)


def test_stopped_in_the_middle_either_engine_goes_on(sweep: Sweep, alone: Path, tmp_path: Path) -> None:
    stop = Stop()
    heard = Heard(stop, stop_at=2)
    together(sweep.runs, tmp_path, heard, stop)
    assert heard.ended() == {run.name: "interrupted" for run in sweep.runs}
    assert {len(rows(tmp_path / run.name)) for run in sweep.runs} == {2}
    one_by_one(sweep.runs[:1], tmp_path)
    together(sweep.runs, tmp_path, Heard())
    assert_same(tmp_path, alone, sweep.runs)


def test_a_member_that_cannot_go_on_is_told_and_the_others_finish(sweep: Sweep, tmp_path: Path) -> None:
    longer = small(12, seeds=1, cost_limit=0.3)
    bad = small(12, axes={"h1": [3e38]}, seeds=1, lr="constant", cost_limit=0.3)
    runs = (longer.runs[0], SweepRun("bad", bad.runs[0].config, {}))
    heard = Heard()
    together(runs, tmp_path, heard)
    assert heard.ended() == {runs[0].name: "finished", "bad": "failed"}
    (reason,) = [event["reason"] for event in heard.events if event.get("status") == "failed"]
    assert "were no finite numbers" in reason
    assert json.loads((tmp_path / "bad" / "summary.json").read_text())["status"] == "stopped"
    assert (len(rows(tmp_path / "bad")), len(rows(tmp_path / runs[0].name))) == (10, 12)


def test_a_directory_that_holds_something_else_fails_alone(sweep: Sweep, tmp_path: Path) -> None:
    one_by_one((SweepRun(sweep.runs[0].name, sweep.runs[1].config, {}),), tmp_path)
    heard = Heard()
    together(sweep.runs[:2], tmp_path, heard)
    assert heard.ended() == {sweep.runs[0].name: "failed", sweep.runs[1].name: "finished"}


def test_the_memory_of_a_program_decides_how_many_step_together() -> None:
    import jax.numpy as jnp

    example = jnp.zeros(1000)
    one = 8 * 1000  # Four bytes in, four bytes out.
    for free, expected in ((10**9, 10), (int(6 * one / memory.SHARE), 5), (1, 1)):
        size, step = memory.compile_largest(lambda population: population + 1, example, 10, free)
        assert size == expected
        assert step(jnp.zeros((size, 1000))).shape == (size, 1000)
