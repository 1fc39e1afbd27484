"""``papd bench``: how fast this machine learns and steps, and what share of its arithmetic that is."""

import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from papd.errors import ConfigError, RunError, nearest

RUN_ENV, FAST_ENV = "SafetyCarRun-v0", "SafetyBallRun-v0"

LEAST_STEPS = 40_000
"""Ten iterations: fewer would time little but the first ones."""


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    name: str
    value: float
    unit: str
    aim: str = ""


@dataclass
class Bench:
    """Everything measured, with the machine and the day."""

    lines: list[Line] = field(default_factory=list)
    machine: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {"machine": self.machine, "lines": [vars(line) for line in self.lines]}


def run_bench(
    parts: Sequence[str] = (), *, steps: int = 400_000, tell: Callable[[str], None] = print
) -> Bench:
    """Measure the named parts (all of them by default), one after the other, each in processes of its own."""
    for name in parts:
        if name not in PARTS:
            raise ConfigError(f"{name!r} is no part of the benchmark{nearest(name, PARTS)}")
    if steps < LEAST_STEPS:
        raise ConfigError(f"steps={steps}: a training is timed over {LEAST_STEPS:,} steps or more")
    bench = Bench(machine=describe_machine())
    if os.getloadavg()[0] > 0.5:
        tell(
            f"the machine is not idle (load {os.getloadavg()[0]:.1f}): expect lower figures, trust the ratios"
        )
    for name in parts or PARTS:
        tell(f"measuring {name} ...")
        bench.lines += PARTS[name](steps)
    return bench


def learn(steps: int) -> list[Line]:
    """PPOL on a twin: one agent on all cores, one agent on one core, one agent a core."""
    work = {"env": RUN_ENV, "algo": "ppol", "backend": "twin", "steps": steps}
    free = task("train", work)
    alone = task("train", work, core=_cores()[0])
    together = sum(found["steps_per_second"] for found in tasks("train", work, _cores()))
    one_core = alone["steps_per_second"]
    return [
        Line("PPOL, one agent on all cores", free["steps_per_second"], "steps/s", ">= 120,000 on 2 cores"),
        Line("PPOL, one agent on one core", one_core, "steps/s"),
        Line("PPOL, one agent a core", together, "steps/s"),
        Line("  over one agent on all cores", together / free["steps_per_second"], "x", ">= 1.6"),
        Line("PPOL, resident memory", free["resident_mib"], "MiB", "< 1024"),
    ]


def learn_ddpgl(steps: int) -> list[Line]:
    """DDPGL on a twin, one agent."""
    found = task(
        "train", {"env": RUN_ENV, "algo": "ddpgl", "backend": "twin", "steps": max(steps // 10, 4000)}
    )
    return [
        Line("DDPGL, one agent on all cores", found["steps_per_second"], "steps/s", ">= 4,000 on 2 cores"),
        Line("DDPGL, updates", found["updates_per_second"], "updates/s"),
        Line("DDPGL, resident memory", found["resident_mib"], "MiB", "< 1024"),
    ]


def update(_: int) -> list[Line]:
    """The minibatch updates beside bare matrix products of the same shapes, and of large ones, on one core and all."""
    lines = [
        Line(f"large matrix products, {where}", task("peak", {"size": 2048}, core=core)["gflops"], "GFLOP/s")
        for where, core in (("one core", _cores()[0]), ("all cores", None))
    ]
    for name, kind in (("PPOL", "ppol_update"), ("DDPGL", "ddpgl_update")):
        for where, core in (("one core", _cores()[0]), ("all cores", None)):
            found = task(kind, {"env": RUN_ENV}, core=core)
            lines += [
                Line(f"{name} update, {where}", found["gflops"], "GFLOP/s"),
                Line("  matrix products of its shapes", found["peak_gflops"], "GFLOP/s"),
                Line("  share reached", 100 * found["share"], "%", ">= 60"),
            ]
    return lines


def compile_time(_: int) -> list[Line]:
    """The first iteration of an agent in a new process: with an empty cache, then with a full one."""
    work = {"env": RUN_ENV, "algo": "ppol", "backend": "twin", "steps": 1}
    with tempfile.TemporaryDirectory() as folder:
        cold, warm = (task("train", work, cache=folder) for _ in range(2))
    return [
        Line("first iteration, empty cache", cold["first_iteration_seconds"], "s", "< 5"),
        Line("first iteration, warm cache", warm["first_iteration_seconds"], "s", "< 1"),
    ]


def twins(_: int) -> list[Line]:
    """Twins stepped with random actions."""
    aims = {FAST_ENV: ">= 5,000,000", RUN_ENV: ">= 1,000,000"}
    return [
        Line(
            f"{env} twin, 20 environments",
            task("twin_steps", {"env": env, "num_envs": 20, "seconds": 2.0})["steps_per_second"],
            "steps/s",
            aims.get(env, ""),
        )
        for env in (FAST_ENV, RUN_ENV, "SafetyBallCircle-v0", "SafetyCarCircle-v0")
    ]


def real(_: int) -> list[Line]:
    """PPOL's collection in real Bullet, over the package's own step in bare loops, one process a core."""
    lines = []
    for env in (FAST_ENV, "SafetyBallCircle-v0", RUN_ENV, "SafetyCarCircle-v0"):
        found = task("real_steps", {"env": env, "seconds": 2.0, "rounds": 3})
        aim = ">= 2.00" if "Ball" in env else ">= 0.85"
        lines += [
            Line(f"{env} in Bullet, PPOL's collection", max(found["workers"]), "steps/s"),
            Line("  over bare loops of the package", found["ratio"], "x", aim),
        ]
    return lines


def training_ratio(steps: int) -> list[Line]:
    """Whole PPOL training on CarRun: the twin over real Bullet, in one run."""
    work = {"env": RUN_ENV, "algo": "ppol"}
    bullet = task("train", {**work, "backend": "bullet", "steps": 24_000})["steps_per_second"]
    twin = task("train", {**work, "backend": "twin", "steps": steps})["steps_per_second"]
    return [
        Line("PPOL training on CarRun in Bullet", bullet, "steps/s"),
        Line("PPOL training on CarRun's twin", twin, "steps/s"),
        Line("  twin over Bullet", twin / bullet, "x", ">= 40"),
    ]


PARTS: dict[str, Callable[[int], list[Line]]] = {
    "learn": learn,
    "ddpgl": learn_ddpgl,
    "update": update,
    "compile": compile_time,
    "twins": twins,
    "real": real,
    "ratio": training_ratio,
}


def task(name: str, arguments: dict[str, Any], *, core: int | None = None, cache: str | None = None) -> Any:
    """The answer of one task, in a process of its own."""
    return _answer(_start(name, arguments, core, cache))


def tasks(name: str, arguments: dict[str, Any], cores: Sequence[int]) -> list[Any]:
    """The answers of the same task on several cores at the same time."""
    started = [_start(name, arguments, core, None) for core in cores]
    return [_answer(process) for process in started]


def describe_machine() -> dict[str, Any]:
    """What the figures belong to."""
    return {
        "date": datetime.date.today().isoformat(),
        "platform": platform.platform(),
        "cores": len(_cores()),
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
    }


def _start(
    name: str, arguments: dict[str, Any], core: int | None, cache: str | None
) -> subprocess.Popen[str]:
    """One core means one thread, too."""
    environment = dict(os.environ)
    if core is not None:
        flags = environment.get("XLA_FLAGS", "")
        environment["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
    if cache is not None:
        environment["PAPD_CACHE_DIR"] = cache

    def pin() -> None:
        if core is not None:
            os.sched_setaffinity(0, {core})

    words = [sys.executable, "-m", "papd.results.bench_tasks", name, json.dumps(arguments)]
    return subprocess.Popen(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=pin
    )


def _answer(process: subprocess.Popen[str]) -> Any:
    out, err = process.communicate()
    if process.returncode != 0:
        last = err.strip().splitlines()[-1] if err.strip() else f"exit status {process.returncode}"
        raise RunError(f"a measurement failed: {last}")
    return json.loads(out.strip().splitlines()[-1])


def _cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))
