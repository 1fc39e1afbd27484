"""Which engine gets which runs, how long that will take, and how far a sweep is: with workforces that only count."""

import dataclasses
import io
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from rich.console import Console

from papd.errors import ConfigError
from papd.runs.sweeps import plan as planning
from papd.runs.sweeps import speeds
from papd.runs.sweeps.board import Table, make_board
from papd.runs.sweeps.hire import Means
from papd.runs.sweeps.plan import Plan, in_order, make_plan
from papd.runs.sweeps.pool import Job, Watch
from papd.runs.sweeps.spec import Sweep, SweepRun
from papd.runs.sweeps.tally import Tally, seconds_left

BALL, CAR = "SafetyBallRun-v0", "SafetyCarRun-v0"
STEPS = 10_000_000


@dataclasses.dataclass
class Force:
    """Checks and measures in no time; the answers are given."""

    speed: float
    size: int = 2
    in_jax: bool = True
    jobs: list[Job] = dataclasses.field(default_factory=list)

    def run(self, jobs: Sequence[Job], watch: Watch, stopped: Callable[[], int | None]) -> None:
        self.jobs += jobs
        for job in jobs:
            for run in job["runs"]:
                watch(
                    {
                        "event": "ended",
                        "run": run,
                        "status": "ok",
                        "in_jax": self._in_jax(job, run),
                        "steps_per_second": self.speed,
                    }
                )

    def _in_jax(self, job: Job, run: str) -> bool:
        return self.in_jax and job["configs"][run]["backend"] == "twin"


@pytest.fixture(autouse=True)
def _nothing_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAPD_CACHE_DIR", str(tmp_path / "cache"))


def sweep(seeds: int = 8, **base: object) -> Sweep:
    return Sweep({"env": BALL, "backend": "twin", "steps": STEPS, **base}, seeds=tuple(range(seeds)))


def plan(forces: dict[str, Force], spec: Sweep, engine: planning.Engine = "local", least: int = 1) -> Plan:
    return make_plan(forces.__getitem__, Path("nowhere"), spec.runs, spec.runs, engine, least=least)


@pytest.mark.parametrize(("together", "engine"), [(150.0, "processes"), (250.0, "vmap")])
def test_local_is_what_measures_faster(together: float, engine: str) -> None:
    forces = {"processes": Force(100.0), "vmap": Force(together, size=1)}
    found = plan(forces, sweep())
    assert [(part.engine, len(part.runs)) for part in found.parts] == [(engine, 8)]
    assert [job["kind"] for job in forces["vmap"].jobs] == ["measure population"]
    assert found.seconds == pytest.approx(8 * STEPS / max(200.0, together))


def test_what_is_remembered_of_a_busy_hour_does_not_choose_the_engine() -> None:
    program = sweep().runs[0].program
    speeds.remember("processes", {program: 10.0})
    speeds.remember("vmap", {f"8 x {program}": 1000.0})
    found = plan({"processes": Force(100.0), "vmap": Force(150.0, size=1)}, sweep())
    assert [part.engine for part in found.parts] == ["processes"]
    assert found.seconds == pytest.approx(8 * STEPS / 200.0)


def test_programs_outside_jax_stay_with_processes_beside_a_population() -> None:
    spec = Sweep({"env": BALL, "steps": STEPS}, {"backend": ["twin", "bullet"]}, seeds=(0, 1, 2))
    found = plan({"processes": Force(100.0), "vmap": Force(1000.0, size=1)}, spec)
    assert [(part.engine, {run.config.backend for run in part.runs}) for part in found.parts] == [
        ("vmap", {"twin"}),
        ("processes", {"bullet"}),
    ]
    jobs = [part.jobs(Path("nowhere"), ["papd"]) for part in found.parts]
    assert [len(job["runs"]) for job in jobs[0]] == [3]
    assert [len(job["runs"]) for job in jobs[1]] == [1, 1, 1]


def test_what_takes_no_minute_is_begun_without_asking_for_a_vmap() -> None:
    forces = {"processes": Force(1e9)}
    assert [part.engine for part in plan(forces, sweep()).parts] == ["processes"]


def test_short_programs_are_not_measured_and_speeds_are_remembered() -> None:
    forces = {"processes": Force(100.0)}
    unmeasured = plan(forces, sweep(seeds=1, steps=1000), least=200_000)
    assert math.isnan(unmeasured.seconds)
    assert unmeasured.to_json()["seconds"] is None
    plan(forces, sweep(seeds=1), "processes")
    assert [job["kind"] for job in forces["processes"].jobs].count("measure") == 1
    again = plan(forces, sweep(seeds=3), "processes")
    assert [job["kind"] for job in forces["processes"].jobs].count("measure") == 1
    assert again.seconds == pytest.approx(3 * STEPS / 100 / 2)


def test_a_vmap_of_what_is_stepped_outside_jax_is_refused() -> None:
    spec = Sweep({"env": BALL, "backend": "bullet"}, seeds=(0, 1))
    with pytest.raises(ConfigError, match=r"'seed0': its environment is stepped outside JAX.*'processes'"):
        plan({"vmap": Force(1.0)}, spec, "vmap")


def test_one_agent_of_each_kind_is_made_before_anything_starts() -> None:
    force = Force(1.0)
    spec = Sweep(
        {"env": BALL, "backend": "twin"}, {"lr": ["constant", "invqua"], "gamma": [0.9, 0.99]}, seeds=(0, 1)
    )
    plan({"processes": force}, spec, "processes", least=10**9)
    assert [job["kind"] for job in force.jobs] == ["check", "check"]
    assert sum(len(job["runs"]) for job in force.jobs) == 2


def test_runs_of_a_program_follow_each_other_and_the_longest_come_first() -> None:
    spec = Sweep({"backend": "twin"}, {"env": [BALL, CAR], "steps": [10, 30]}, seeds=(0, 1))
    slow_car = {run.program: 1.0 if run.config.env == CAR else 10.0 for run in spec.runs}
    ordered = in_order(spec.runs, slow_car)
    assert [run.config.env for run in ordered] == [CAR] * 4 + [BALL] * 4
    assert [run.config.steps for run in ordered] == [30, 30, 10, 10] * 2


def test_seconds_left_is_a_share_of_all_but_never_less_than_the_longest_run() -> None:
    speeds = {"a": 10.0, "b": 5.0}
    assert seconds_left([("a", 100), ("b", 100)], speeds, 2) == pytest.approx(20.0)
    assert seconds_left([("a", 100), ("a", 100), ("b", 100)], speeds, 2) == pytest.approx(20.0)
    assert seconds_left([("a", 100)] * 4, speeds, 2) == pytest.approx(20.0)
    assert seconds_left([("unknown", 20)], speeds, 1) == pytest.approx(20 / (2 / (1 / 10 + 1 / 5)))
    assert seconds_left([("a", 0)], {}, 2) == 0.0
    assert math.isnan(seconds_left([("a", 1)], {}, 2))


def test_a_tally_follows_runs_through_their_states() -> None:
    runs: Sequence[SweepRun] = sweep(seeds=3, steps=100).runs
    tally = Tally(runs, 2, {runs[0].program: 10.0})
    assert tally.seconds_left == pytest.approx(15.0)
    tally.take({"event": "begun", "run": "seed0", "env_steps": 40})
    row = {"event": "row", "run": "seed0", "env_steps": 60, "covered": 20, "seconds": 4.0}
    tally.take({**row, "return_mean": 1.0, "cost_mean": 2.0})
    assert tally.covered == 20
    assert tally.speeds[runs[0].program].value == pytest.approx(5.0)
    assert tally.seconds_left == pytest.approx((40 + 100 + 100) / 5 / 2)
    tally.take({"event": "ended", "run": "seed0", "status": "finished", "env_steps": 100})
    tally.take({"event": "ended", "run": "seed1", "status": "failed", "reason": "why"})
    assert [tally.count(state) for state in ("finished", "failed", "waiting", "running")] == [1, 1, 1, 0]
    assert tally.runs["seed1"].reason == "why"
    assert tally.seconds_left == pytest.approx(100 / 5)


def test_the_table_shows_the_sweep_and_each_running_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    tally = Tally(sweep(seeds=3, steps=100).runs, 2, {})
    board = make_board(tally, quiet=False)
    assert isinstance(board, Table)
    try:
        board.take({"event": "begun", "run": "seed0", "env_steps": 0})
        row = {"event": "row", "run": "seed0", "env_steps": 60, "covered": 60, "seconds": 4.0}
        board.take({**row, "return_mean": 7.0, "cost_mean": 2.0})
        board.take({"event": "ended", "run": "seed1", "status": "failed", "reason": "why"})
        console = Console(width=120, file=io.StringIO())
        console.print(board.draw())
        shown = " ".join(re.sub("[^ -~]", " ", console.file.getvalue()).split())
    finally:
        board.close()
    assert "finished running failed waiting steps steps/s left" in shown
    assert "0 1 1 1 60 of 300 (20%)" in shown
    assert "seed0 60% return 7.0 cost 2.0 of 10" in shown


@pytest.mark.parametrize(
    ("means", "engine", "words"),
    [
        (Means(workers=0), "local", "workers=0"),
        (Means(workers=2), "vmap", "a vmap is one process"),
        (Means(address="auto"), "local", "engine='ray'"),
        (Means(gpus=0.5), "processes", "engine='ray'"),
        (Means(gpus=-1.0), "ray", "gpus=-1.0"),
    ],
)
def test_what_would_be_ignored_is_refused(means: Means, engine: planning.Engine, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        means.check(engine)
