"""How fast sweeps are on this machine. Each part takes about a minute on an idle one and prints JSON values.

python -m benchmarks.sweeps twins          # a PPOL sweep on twins beside one agent that has all cores
python -m benchmarks.sweeps bullet ID ...  # sweeps on the real simulator beside the package's own step in bare loops
python -m benchmarks.sweeps vmap           # a population as one vmap beside one process a core
python -m benchmarks.sweeps processes      # 1, 2, 3 processes
python -m benchmarks.sweeps ray [N ...]    # 1, 2, 3 Ray nodes of one CPU each
python -m benchmarks.sweeps overhead       # what Ray takes for a task and for a message
python -m benchmarks.sweeps record OUT     # a small sweep's run times, for benchmarks/scheduler.py
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.ray_nodes import ray_nodes
from papd.runs.metrics import read_metrics
from papd.runs.sweep import Engine, Sweep, SweepRun, run_sweep
from papd.runs.sweeps.plan import job
from papd.runs.sweeps.pool import Pool, anywhere, ask

BALL, CAR = "SafetyBallRun-v0", "SafetyCarRun-v0"
PER_CORE = {BALL: 11_000, CAR: 2_700, "SafetyBallCircle-v0": 10_000, "SafetyCarCircle-v0": 1_700}
"""About how many steps a second a core does on the real simulator: how long to make the runs."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=PARTS)
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help="ids, numbers of nodes, or the file to write"
    )
    options = parser.parse_args()
    print(json.dumps(PARTS[options.part](options.words), indent=2))


def twins(words: Sequence[str]) -> dict[str, Any]:
    """Alone and together in turn, twice; the median of the ratios."""
    alone, together = [], []
    for _ in range(2):
        alone.append(trained(CAR, 600_000))
        together.append(swept(twin_sweep(2, 600_000), 2)["steps_per_second"])
    ratios = [both / one for one, both in zip(alone, together, strict=True)]
    one_core = swept(twin_sweep(1, 400_000), 1)["steps_per_second"]
    return {
        "one agent on all cores": alone,
        "sweep": together,
        "ratio": statistics.median(ratios),
        "one agent on one core": one_core,
    }


def bullet(words: Sequence[str]) -> dict[str, Any]:
    """Bare loops and a sweep of as many runs, one a core, in turn."""
    from papd.envs.measure import compare

    found = {}
    for name in words or PER_CORE:
        result = compare(name, lambda seconds, name=name: _bullet_rate(name, seconds), seconds=10.0, rounds=2)
        found[name] = {"bare loops": result.bare, "sweep": result.workers, "ratio": result.ratio}
    return found


def _bullet_rate(env: str, seconds: float) -> float:
    steps = max(4 * 10_000, round(PER_CORE[env] * seconds))
    return swept(sweep(2, steps, env=env), 2)["steps_per_second"]


def vmap(words: Sequence[str]) -> dict[str, Any]:
    """What the local engine compares, by the number of runs."""
    together = {count: measured("measure population", twin_sweep(count, 1)) for count in (1, 4, 16)}
    return {"vmap": together, "processes": swept(twin_sweep(2, 800_000), 2)["steps_per_second"]}


def processes(words: Sequence[str]) -> dict[str, Any]:
    """As many runs as processes."""
    return {count: swept(twin_sweep(count, 200_000), count) for count in (1, 2, 3)}


def ray(words: Sequence[str]) -> dict[str, Any]:
    """As many runs as nodes."""
    found = {}
    for count in map(int, words or ("1", "2", "3")):
        with ray_nodes(count):
            found[count] = swept(twin_sweep(count, 200_000), None, "ray")
    return found


def overhead(words: Sequence[str]) -> dict[str, Any]:
    """Empty tasks, and messages to one actor, as fast as one driver gets them done."""
    with ray_nodes(1):
        import ray

        from papd.runs.sweeps.cluster import Mailbox

        nothing = ray.remote(num_cpus=0)(_nothing)
        mailbox = ray.remote(num_cpus=0)(Mailbox).remote()
        ray.get([nothing.remote() for _ in range(50)])
        count, began = 2000, time.perf_counter()
        ray.get([nothing.remote() for _ in range(count)])
        tasks = count / (time.perf_counter() - began)
        event = {
            "event": "row",
            "run": "x" * 40,
            "covered": 1,
            "seconds": 5.0,
            "env_steps": 1,
            "cost_mean": 1.0,
        }
        began = time.perf_counter()
        ray.get([mailbox.put.remote(event) for _ in range(count)])
        return {"tasks a second": tasks, "messages a second": count / (time.perf_counter() - began)}


def record(words: Sequence[str]) -> dict[str, Any]:
    """Twelve runs of three programs over two processes: how long each took, and all together."""
    (out,) = words
    spec = Sweep(
        {"backend": "twin", "eval_episodes": 20, "steps": 200_000},
        {"env": [BALL, CAR], "lr": ["constant", "invqua"]},
        seeds=(0, 1, 2),
    )
    with tempfile.TemporaryDirectory() as folder:
        began = time.time()
        result = run_sweep(spec, Path(folder) / "out", engine="processes", workers=2, quiet=True)
        assert result.finished
        runs = [_recorded(Path(folder) / "out", run, began) for run in spec.runs]
    values = {"workers": 2, "seconds": result.seconds, "runs": runs}
    Path(out).write_text(json.dumps(values, indent=2) + "\n")
    return values


def _recorded(folder: Path, run: SweepRun, began: float) -> dict[str, Any]:
    """From the directory's lock to its last file; sizes are what storage holds of it."""
    path = folder / run.name
    files = [file for file in path.rglob("*") if file.is_file()]
    ended = max(file.stat().st_mtime for file in files)
    first = read_metrics(path / "metrics.csv")[0]
    return {
        "name": run.name,
        "program": run.config.env,
        "began": (path / ".lock").stat().st_mtime - began,
        "ended": ended - began,
        "first_iteration": first["wall_seconds"],
        "bytes": sum(file.stat().st_size for file in files),
        "checkpoint_bytes": max(file.stat().st_size for file in (path / "checkpoints").iterdir()),
        "config_bytes": len(json.dumps(run.config.to_json())),
    }


def sweep(count: int, steps: int, **base: Any) -> Sweep:
    return Sweep({"eval_episodes": 0, "steps": steps, **base}, seeds=tuple(range(count)))


def twin_sweep(count: int, steps: int) -> Sweep:
    return sweep(count, steps, env=CAR, backend="twin")


def trained(env: str, steps: int) -> float:
    """``papd train`` on the twin, with all cores; what it leaves on disk is what a sweep's run leaves."""
    with tempfile.TemporaryDirectory() as folder:
        words = (
            f"train {env} --backend twin --steps {steps} --eval-episodes 0 --quiet --out {folder}/run".split()
        )
        subprocess.run([sys.executable, "-m", "papd", *words], check=True, stdout=subprocess.DEVNULL)
        return _speed(Path(folder) / "run")


def measured(kind: str, spec: Sweep) -> float:
    """Steps a second of one process that has all cores."""
    with tempfile.TemporaryDirectory() as logs, Pool(anywhere(), Path(logs) / "logs") as pool:
        answer = ask(pool, [job(kind, spec.runs, Path(), ())])[spec.runs[0].name]
    return float(answer["steps_per_second"])


def swept(spec: Sweep, workers: int | None, engine: Engine = "processes") -> dict[str, float]:
    """A whole sweep: of all runs together while they go on, and with everything from start to end."""
    with tempfile.TemporaryDirectory() as folder:
        result = run_sweep(spec, Path(folder) / "out", engine=engine, workers=workers, quiet=True)
        assert result.finished, result.failed
        going = sum(_speed(result.path(run)) for run in spec.runs)
    return {"steps_per_second": going, "with_start": result.steps / result.seconds, "seconds": result.seconds}


def _speed(path: Path) -> float:
    """Between the first iteration, which compiles, and the last."""
    rows = read_metrics(path / "metrics.csv")
    first, last = rows[0], rows[-1]
    return (last["env_steps"] - first["env_steps"]) / (last["wall_seconds"] - first["wall_seconds"])


def _nothing() -> None:
    return None


PARTS = {
    "twins": twins,
    "bullet": bullet,
    "vmap": vmap,
    "processes": processes,
    "ray": ray,
    "overhead": overhead,
    "record": record,
}

if __name__ == "__main__":
    main()
