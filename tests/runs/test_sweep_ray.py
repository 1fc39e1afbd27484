"""A sweep on a real Ray cluster of this machine: a head and two nodes, one of which is killed in the middle."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.ray_nodes import ray_nodes
from papd.errors import ConfigError, RunError
from papd.runs.sweep import run_sweep
from tests.optional import needs
from tests.runs.sweeps import BANDIT, BROKEN, small, untimed

pytestmark = needs("ray", "ray")

ITERATIONS = 600


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes with a CPU each."""
    with ray_nodes(2) as cluster:
        yield cluster


def test_a_killed_nodes_runs_go_on_elsewhere_and_all_equal_the_local_engines(
    cluster: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    sweep = small(ITERATIONS, checkpoint_every=10)
    local = run_sweep(sweep, tmp_path / "local", engine="processes", workers=2, quiet=True)
    assert local.finished
    out = tmp_path / "ray"
    killed: list[str] = []
    killer = threading.Thread(target=_kill_node, args=(cluster, out, killed), daemon=True)
    killer.start()
    result = run_sweep(sweep, out, engine="ray")
    killer.join(timeout=10)
    (name,) = killed
    assert result.finished, result.failed
    assert result.engines == {"ray": 4}
    assert f"{name}: its worker or node died; going on at step" in capfd.readouterr().err
    resumed = json.loads((out / name / "config.json").read_text())["provenance"]["resumed"]
    assert len(resumed) == 1
    for run in sweep.runs:
        assert untimed(out / run.name) == untimed(local.path(run))
        policies = [folder / run.name / "policy.safetensors" for folder in (out, tmp_path / "local")]
        assert policies[0].read_bytes() == policies[1].read_bytes()


def _kill_node(cluster: Any, out: Path, killed: list[str]) -> None:
    """Kill a node with all its processes, as soon as the run that it is at has a checkpoint."""
    import ray

    ours = ray.get_runtime_context().get_node_id()
    node = next(node for node in cluster.worker_nodes if node.node_id != ours)
    raylets = {info.process.pid for info in node.all_processes["raylet"]}
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        for path in out.glob("*/checkpoints/*.safetensors"):
            run = path.parent.parent
            held = (run / ".lock").read_text().split()  # "process 123 on host"
            worker = int(held[1]) if len(held) > 1 else 0
            if worker and _parent(worker) in raylets and not (run / "summary.json").exists():
                killed.append(run.name)
                cluster.remove_node(node, allow_graceful=False)
                return
        time.sleep(0.02)


def _parent(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def test_a_failed_run_is_told_and_stops_no_other(cluster: Any, tmp_path: Path) -> None:
    sweep = small(10, axes={"env": [BANDIT, BROKEN]}, seeds=1)
    result = run_sweep(sweep, tmp_path / "out", engine="ray", quiet=True)
    assert sorted(result.states.values()) == ["failed", "finished"]
    (reason,) = result.failed.values()
    assert "of iteration 1 is no finite number" in reason
    assert not list((tmp_path / "out").glob(".papd-*"))


def test_ctrl_c_saves_the_running_runs_and_they_go_on(cluster: Any, tmp_path: Path) -> None:
    sweep, out = small(5 * ITERATIONS, checkpoint_every=10_000, axes={"lr": ["constant"]}), tmp_path / "out"
    interrupter = threading.Thread(target=_interrupt, args=(out,), daemon=True)
    interrupter.start()
    result = run_sweep(sweep, out, engine="ray", quiet=True)
    interrupter.join(timeout=10)
    assert result.signal == signal.SIGINT
    assert set(result.states.values()) <= {"interrupted", "waiting"}
    saved = {path.parent.name: json.loads(path.read_text()) for path in out.glob("*/summary.json")}
    assert saved
    for name, summary in saved.items():
        assert summary["status"] == "interrupted"
        assert 0 < summary["iterations"] < 5 * ITERATIONS
        assert (out / name / "checkpoints" / f"{summary['iterations']:08}.safetensors").exists()


def _interrupt(out: Path) -> None:
    """Ctrl-C, once a run has rows: no checkpoint is due before the signal asks for one."""
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        if any(path.stat().st_size > 2000 for path in out.glob("*/metrics.csv")):
            os.kill(os.getpid(), signal.SIGINT)
            return
        time.sleep(0.02)


def test_what_no_node_can_do_is_refused_before_anything_starts(cluster: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="workers=64; the largest node has 1 CPUs"):
        run_sweep(small(10, workers=64), tmp_path / "out", engine="ray", quiet=True)
    with pytest.raises(ConfigError, match="connected to a Ray cluster already; leave it out"):
        run_sweep(small(10), tmp_path / "out", engine="ray", address="10.0.0.1:6379", quiet=True)
    with pytest.raises(ConfigError, match="takes 2 of a GPU; the largest node has 0 GPUs"):
        run_sweep(small(10), tmp_path / "out", engine="ray", gpus=2.0, quiet=True)
    assert not (tmp_path / "out").exists()


def test_a_node_with_another_papd_or_another_disk_is_named(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import papd
    from papd.runs.sweeps import cluster as engine

    with monkeypatch.context() as patch:
        patch.setattr(papd, "__version__", "99.0")
        with pytest.raises(
            RunError, match=r"node 127.0.0.1 has papd .*, this process 99.0: install the same one"
        ):
            run_sweep(small(10), tmp_path / "out", engine="ray", quiet=True)
    monkeypatch.setattr(engine, "_write_mark", lambda path: None)
    with pytest.raises(
        RunError, match=r"127.0.0.1 does not see .*: a sweep on Ray needs an --out on storage"
    ):
        run_sweep(small(10), tmp_path / "out", engine="ray", quiet=True)


def test_no_cluster_at_the_address_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", _refuse)
    with pytest.raises(RunError, match=r"no Ray cluster at 127.0.0.1:1: could not find"):
        run_sweep(small(10), tmp_path / "out", engine="ray", address="127.0.0.1:1", quiet=True)


def _refuse(**options: Any) -> None:
    raise ConnectionError(f"could not find\n{options['address']}")
