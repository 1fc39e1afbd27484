"""Runs that are timed: what counts, what is timed again, and what else the machine did meanwhile."""

import math
import os
from pathlib import Path

import pytest

from papd.results import paper_load, paper_time
from papd.results.paper_experiments import EXPERIMENTS, SPECS, Plan, make_plan
from papd.results.paper_load import Others
from papd.results.paper_time import counting, read_times, time_runs


def write_process(proc: Path, pid: int, parent: int, *ticks: int) -> None:
    (proc / str(pid)).mkdir(exist_ok=True)
    fields = ["S", str(parent), *["0"] * 9, *map(str, ticks), "0"]
    (proc / str(pid) / "stat").write_text(f"{pid} (a (strange) name) {' '.join(fields)}\n")


def write_machine(proc: Path, *, busy: int, stolen: int, ours: int, child: int, other: int) -> None:
    proc.mkdir(exist_ok=True)
    (proc / "stat").write_text(f"cpu  {busy} 0 0 900 50 7 7 {stolen} 0 0\ncpu0 1 2 3\n")
    write_process(proc, os.getpid(), 1, ours, 0, 0, 0)
    write_process(proc, 999_001, os.getpid(), child, 0, 0, 0)
    write_process(proc, 999_002, 999_001, 0, 0, 0, 0)
    write_process(proc, 999_003, 1, other, 0, 0, 0)


def test_others_are_what_is_neither_us_nor_our_descendants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([100.0, 110.0])
    monkeypatch.setattr(paper_load, "PROC", tmp_path / "proc")
    monkeypatch.setattr(paper_load.time, "monotonic", lambda: next(clock))
    hertz = os.sysconf("SC_CLK_TCK")
    write_machine(tmp_path / "proc", busy=1000, stolen=0, ours=300, child=200, other=500)
    others = Others()
    write_machine(
        tmp_path / "proc",
        busy=1000 + 17 * hertz,
        stolen=3 * hertz,
        ours=300 + 5 * hertz,
        child=200 + 8 * hertz,
        other=500 + 4 * hertz,
    )
    # 20 processor seconds in 10, 13 of them ours.
    assert others.cores() == pytest.approx(0.7)


def test_elsewhere_the_load_is_unknown_and_the_time_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper_load.sys, "platform", "darwin")
    assert math.isnan(Others().cores())


class Quiet:
    """A machine that does nothing else."""

    busy = 0.0

    def cores(self) -> float:
        """How busy it is."""
        return self.busy


class Busy(Quiet):
    """One that does."""

    busy = 0.5


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Two rules on the Ball's twin, a few short episodes."""
    text = (SPECS / "runtime.toml").read_text()
    text = text.replace(
        "steps = 100_000", "steps = 800\nhidden_sizes = [8]\nepisodes_per_iteration = 4\nnum_envs = 4"
    )
    text = text.replace(
        text[text.index('env = ["SafetyBallRun-v0"') : text.index("\n\n[[cases")],
        'env = ["SafetyBallRun-v0"]',
    )
    blocks = text.split("[[cases.rule]]")
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "runtime.toml").write_text("[[cases.rule]]".join([*blocks[:2], blocks[-1]]))
    return make_plan(EXPERIMENTS["runtime"], tmp_path / "specs", seeds=1)


def test_runs_beside_other_work_are_stored_told_and_timed_again(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def run(afresh: bool = False) -> int:
        return time_runs(tmp_path / "out", plan, "twin", afresh=afresh, workers=None, say=told.append)

    assert len(plan.cells) == 2
    monkeypatch.setattr(paper_time, "Others", Busy)
    assert run() == 2
    assert all("beside others on 0.50 cores: does not count" in line for line in told)
    rows = read_times(tmp_path / "out", plan)
    assert len(rows) == 2
    assert counting(rows).empty
    monkeypatch.setattr(paper_time, "Others", Quiet)
    told.clear()
    assert run() == 2
    assert not any("does not count" in line for line in told)
    rows = read_times(tmp_path / "out", plan)
    assert len(counting(rows)) == len(rows) == 2
    assert (rows["seconds"] > 0.0).all()
    assert (rows["steps"] == 800).all()
    assert run() == 0
    assert run(afresh=True) == 2
    assert len(read_times(tmp_path / "out", plan)) == 2
