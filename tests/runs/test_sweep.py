"""``papd sweep`` in the real command, with real workers: what it leaves, what it says, and what kills it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import papd
from papd.errors import ConfigError, RunError
from papd.runs.sweep import plan_sweep, run_sweep
from tests.runs.sweeps import BANDIT, BROKEN, RULES, small, toml, untimed

COMMAND = [sys.executable, "-m", "papd", "sweep"]
LONG = {"iterations": 600, "checkpoint_every": 25}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four long runs that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    result = run_sweep(small(**LONG), folder, engine="processes", workers=2, quiet=True)
    assert result.finished
    assert result.failed == {}
    return folder


def test_a_failed_run_is_told_and_stops_no_other(tmp_path: Path) -> None:
    spec, out = tmp_path / "spec.toml", tmp_path / "out"
    sweep = small(30, axes={"env": [BANDIT, BROKEN], "lr": RULES}, seeds=1)
    spec.write_text(toml(sweep))
    done = _sweep(str(spec), "--out", str(out), "--workers", "2", "--json")
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert {name: told[name] for name in ("runs", "finished", "failed", "signal")} == {
        "runs": 4,
        "finished": 2,
        "failed": 2,
        "signal": None,
    }
    assert len(told["reasons"]) == 2
    for name, reason in told["reasons"].items():
        assert "broken" in name
        assert "of iteration 1 is no finite number" in reason
        assert f"{name} failed: {reason}" in done.stderr
    assert f"to try the failed runs again: papd sweep --resume --out {out}" in done.stderr
    assert "finished 2  running 0  failed 2  waiting 0" in done.stderr
    assert "Traceback" not in done.stderr

    frame = papd.results.load(out)
    assert set(frame["lr"]) == set(RULES)
    assert len(frame) == 2 * 30
    assert list(frame.columns[:3]) == ["run", "seed", "lr"]

    finished = [path for path in out.glob("*/summary.json") if "broken" not in str(path)]
    before = {path: path.stat().st_mtime_ns for path in finished}
    again = _sweep("--resume", "--out", str(out), "--workers", "1")
    assert again.returncode == 1
    assert "2 of 4 runs to do" in again.stderr
    assert {path: path.stat().st_mtime_ns for path in finished} == before
    index = json.loads((out / "sweep.json").read_text())
    assert [session["failed"] for session in index["sessions"]] == [2, 2]
    assert not (out / "logs").exists()


def test_killed_with_all_its_workers_it_finishes_only_what_is_missing(tmp_path: Path, whole: Path) -> None:
    spec, out = tmp_path / "spec.toml", tmp_path / "out"
    spec.write_text(toml(small(**LONG)))
    with _started(str(spec), "--out", str(out), "--workers", "2") as process:
        _wait(lambda: len(_finished(out)) >= 2 and len(list(out.glob("*/checkpoints/*"))) > 6, process)
        for number in [process.pid, *_children(process.pid)]:
            os.kill(number, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    early = _finished(out)
    assert 2 <= len(early) < 4, "the kill came too late to prove anything"
    before = {name: (out / name / "summary.json").stat().st_mtime_ns for name in early}

    refused = _sweep(str(spec), "--out", str(out))
    assert refused.returncode == 2
    assert "--resume finishes what is missing" in refused.stderr
    done = _sweep("--resume", "--out", str(out), "--workers", "2", "--quiet", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["finished"] == 4
    assert {name: (out / name / "summary.json").stat().st_mtime_ns for name in early} == before
    _assert_equal(out, whole)


def test_a_worker_that_dies_is_replaced_and_a_signal_saves_every_run(tmp_path: Path, whole: Path) -> None:
    spec, out = tmp_path / "spec.toml", tmp_path / "out"
    spec.write_text(toml(small(**LONG)))
    with _started(str(spec), "--out", str(out), "--workers", "2") as process:
        _wait(lambda: len(list(out.glob("*/checkpoints/*"))) >= 2, process)
        killed = _children(process.pid)[0]
        os.kill(killed, signal.SIGKILL)
        _wait(lambda: killed not in (now := _children(process.pid)) and len(now) == 2, process)
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        _, words = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGINT
    assert "its worker was ended by SIGKILL; going on from the checkpoint" in words
    assert f"stopped; go on with: papd sweep --resume --out {out}" in words
    assert "Traceback" not in words
    states = json.loads((out / "sweep.json").read_text())["sessions"][0]
    assert states["signal"] == signal.SIGINT
    assert states["interrupted"] + states["waiting"] >= 2
    assert run_sweep(spec, out, engine="processes", workers=2, resume=True, quiet=True).finished
    _assert_equal(out, whole)


def test_a_plan_is_printed_and_nothing_started(tmp_path: Path) -> None:
    spec, out = tmp_path / "spec.toml", tmp_path / "out"
    spec.write_text(toml(small(50)))
    done = _sweep(str(spec), "--out", str(out), "--dry-run", "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert "constant-seed0" in done.stdout
    last = done.stdout.splitlines()[-1]
    assert last.startswith(
        "4 of 4 runs to do, 1 program, 4,000 steps, engine processes (2 at a time), about 0:0"
    )
    assert not out.exists()


def test_what_is_wrong_with_any_run_is_told_before_anything_starts(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(ConfigError, match=r"run 'probes:bandit2.*bandit2|has no 'bandit2'|bandit2"):
        run_sweep(small(5, axes={"env": [BANDIT, BANDIT + "2"]}, seeds=1), out, workers=1, quiet=True)
    assert not out.exists()
    with pytest.raises(ConfigError, match="cost_limit"):
        plan_sweep(small(5, axes={"cost_limit": [[1.0], [1.0, 2.0]]}, seeds=1), out, workers=1)
    assert not out.exists()


def test_a_sweep_is_not_written_over_something_else(tmp_path: Path, whole: Path) -> None:
    with pytest.raises(RunError, match="holds a sweep: --resume"):
        run_sweep(small(5), whole)
    with pytest.raises(RunError, match="holds a single run"):
        run_sweep(small(5), next(whole.glob("*seed0")))
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="is a file"):
        run_sweep(small(5), tmp_path / "file")
    with pytest.raises(ConfigError, match="was trained with cost_limit"):
        run_sweep(small(**LONG, cost_limit=0.6), whole, resume=True)


def test_the_command_says_which_sweep_it_needs(tmp_path: Path) -> None:
    for words, told in (
        ([], "which sweep? papd sweep SPEC.toml"),
        (["--resume"], "which sweep?"),
        (["--resume", "--out", str(tmp_path)], "holds no sweep"),
        ([str(tmp_path / "none.toml")], "cannot read"),
        (["--engine", "slurm"], "engine is one of local, processes, vmap, ray"),
    ):
        done = _sweep(*words)
        assert done.returncode == 2
        assert told in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


def _sweep(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=300)


@contextlib.contextmanager
def _started(*words: str) -> "Iterator[subprocess.Popen[str]]":
    process = subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def _wait(holds: Callable[[], Any], process: "subprocess.Popen[str]") -> None:
    """Until it holds; a sweep that ends before has ended too early."""
    deadline = time.monotonic() + 200
    while not holds():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _children(parent: int) -> list[int]:
    path = Path(f"/proc/{parent}/task/{parent}/children")
    return [int(word) for word in path.read_text().split()]


def _finished(out: Path) -> set[str]:
    return {
        path.parent.name
        for path in out.glob("*/summary.json")
        if json.loads(path.read_text())["status"] == "finished"
    }


def _assert_equal(out: Path, whole: Path) -> None:
    names = sorted(path.parent.name for path in whole.glob("*/metrics.csv"))
    assert len(names) == 4
    for name in names:
        assert untimed(out / name) == untimed(whole / name)
        assert (out / name / "policy.safetensors").read_bytes() == (
            whole / name / "policy.safetensors"
        ).read_bytes()
