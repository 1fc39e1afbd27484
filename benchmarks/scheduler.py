"""A simulation of a sweep on a cluster, from recorded run times: how long, how busy, what crosses the network.

python -m benchmarks.scheduler                       # sweeps of 420 and 42,000 runs on 1 to 400 nodes
python -m benchmarks.scheduler --check               # the recorded sweep simulated beside its measured time

What is simulated is what papd.runs.sweeps.cluster does: one queue, the longest runs first, a driver that hands out
tasks one by one, worker processes that start and compile a program once each, nodes that die and come back, tasks
that go on from their newest checkpoint. A run takes on every core what it took here on one of two.
"""

import argparse
import heapq
import itertools
import json
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

TIMES = Path(__file__).with_name("sweep_times.json")
"""Recorded by ``python -m benchmarks.sweeps record``."""


@dataclass(frozen=True)
class Task:
    """A run: the program that it needs compiled, and its seconds of work after that."""

    program: str
    seconds: float


@dataclass(frozen=True)
class Cluster:
    """What tasks run on."""

    nodes: int
    cores: int = 32
    hand_out_seconds: float = 0.001
    """The driver's time for each task: one after the other."""
    start_seconds: float = 3.0
    """Of a worker process, until it can take its first task."""
    compile_seconds: float = 6.0
    """Of a program, once in each process."""
    hours_between_failures: float = float("inf")
    """Mean, of a node."""
    away_seconds: float = 300.0
    """Until a node that failed is replaced."""
    notice_seconds: float = 15.0
    """Until Ray knows that a node is gone."""
    checkpoint_seconds: float = 10.0
    """Work that is lost with a process, at most."""


@dataclass(frozen=True)
class Outcome:
    """What became of it."""

    seconds: float
    busy: float
    """The share of all cores' time that was work on runs."""
    restarts: int


def simulate(tasks: Sequence[Task], cluster: Cluster, seed: int = 0) -> Outcome:
    """Run all tasks. Events are (time, number, kind, what), so that equal times keep their order."""
    return _Simulation(tasks, cluster, seed).run()


class _Simulation:
    def __init__(self, tasks: Sequence[Task], cluster: Cluster, seed: int):
        self._cluster, self._draw = cluster, random.Random(seed)
        longest: dict[str, float] = {}
        for task in tasks:
            longest[task.program] = max(longest.get(task.program, 0.0), task.seconds)
        ranked = sorted(tasks, key=lambda task: (-longest[task.program], task.program, -task.seconds))
        self._queue: list[Task] = list(reversed(ranked))
        self._events: list[tuple[float, int, str, int, int]] = []
        self._number = 0
        self._lives = [0] * cluster.nodes
        self._programs: dict[tuple[int, int], str] = {}
        self._going: dict[tuple[int, int], tuple[Task, float, float]] = {}
        self._idle: set[tuple[int, int]] = set()
        self._driver_free = self._ended = 0.0
        self._open, self._restarts = len(tasks), 0
        self._work = sum(task.seconds for task in tasks)

    def run(self) -> Outcome:
        for node in range(self._cluster.nodes):
            self._boot(node, 0.0)
        while self._open:
            now, _, kind, slot, life = heapq.heappop(self._events)
            node = slot // self._cluster.cores
            if kind == "back":
                self._boot(node, now)
            elif life == self._lives[node]:  # What a node that died was about to do never happens.
                {"free": self._free, "done": self._done, "fail": self._fail}[kind](now, slot)
        cores = self._cluster.nodes * self._cluster.cores
        return Outcome(self._ended, self._work / (self._ended * cores), self._restarts)

    def _at(self, time: float, kind: str, slot: int) -> None:
        self._number += 1
        heapq.heappush(
            self._events, (time, self._number, kind, slot, self._lives[slot // self._cluster.cores])
        )

    def _boot(self, node: int, now: float) -> None:
        first = node * self._cluster.cores
        for slot in range(first, first + self._cluster.cores):
            self._at(now + self._cluster.start_seconds, "free", slot)
        if self._cluster.hours_between_failures < float("inf"):
            rate = 1 / (3600 * self._cluster.hours_between_failures)
            self._at(now + self._draw.expovariate(rate), "fail", first)

    def _key(self, slot: int) -> tuple[int, int]:
        return slot, self._lives[slot // self._cluster.cores]

    def _free(self, now: float, slot: int) -> None:
        """A worker takes the next task, or waits for one that comes back."""
        if not self._queue:
            self._idle.add(self._key(slot))
            return
        task = self._queue.pop()
        handed = max(now, self._driver_free) + self._cluster.hand_out_seconds
        self._driver_free = handed
        compiled = self._programs.get(self._key(slot)) == task.program
        self._programs[self._key(slot)] = task.program
        begins = handed + (0.0 if compiled else self._cluster.compile_seconds)
        self._going[self._key(slot)] = (task, begins, begins + task.seconds)
        self._at(begins + task.seconds, "done", slot)

    def _done(self, now: float, slot: int) -> None:
        del self._going[self._key(slot)]
        self._open -= 1
        self._ended = max(self._ended, now)
        self._free(now, slot)

    def _fail(self, now: float, first: int) -> None:
        """All that a node did since the newest checkpoints is lost; the rest of it goes back into the queue."""
        node = first // self._cluster.cores
        keys = [self._key(slot) for slot in range(first, first + self._cluster.cores)]
        self._idle.difference_update(keys)
        self._lives[node] += 1
        for key in keys:
            if key in self._going:
                task, begins, _ = self._going.pop(key)
                done = (
                    max(0.0, now - begins)
                    // self._cluster.checkpoint_seconds
                    * self._cluster.checkpoint_seconds
                )
                self._restarts += 1
                self._queue.append(replace(task, seconds=task.seconds - done))
        for slot, life in sorted(self._idle)[: len(self._queue)]:
            self._idle.discard((slot, life))
            self._at(now + self._cluster.notice_seconds, "free", slot)
        self._number += 1
        back = (now + self._cluster.away_seconds, self._number, "back", first, -1)
        heapq.heappush(self._events, back)


def recorded() -> dict[str, Any]:
    values: dict[str, Any] = json.loads(TIMES.read_text())
    return values


def work() -> tuple[list[Task], float]:
    """The recorded runs without what a fresh process adds to its first run of a program, and that, in the mean.

    A run is its process's first of a program where it began before any run of that program had ended.
    """
    runs, tasks, extra = recorded()["runs"], [], []
    for program in sorted({run["program"] for run in runs}):
        mine = [run for run in runs if run["program"] == program]
        first = min(run["ended"] for run in mine)
        warm = [run["ended"] - run["began"] for run in mine if run["began"] >= first]
        usual = statistics.median(warm)
        fresh = [run["ended"] - run["began"] - usual for run in mine if run["began"] < first]
        tasks += [Task(program, seconds) for seconds in [*warm, *[usual] * len(fresh)]]
        extra += fresh
    return tasks, statistics.mean(extra)


def large_sweep(runs: int, scale: float) -> list[Task]:
    """So many runs with the recorded mix, each ``scale`` times as long."""
    tasks, _ = work()
    return [
        replace(task, seconds=scale * task.seconds) for task in itertools.islice(itertools.cycle(tasks), runs)
    ]


def check() -> dict[str, float]:
    """The recorded sweep on one node of as many cores as it had processes, which were started already."""
    values = recorded()
    tasks, extra = work()
    found = simulate(tasks, Cluster(1, values["workers"], compile_seconds=extra, start_seconds=0.0))
    return {
        "measured": values["seconds"],
        "simulated": found.seconds,
        "ratio": found.seconds / values["seconds"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--scale", type=float, default=60.0, help="how much longer than recorded each run is")
    parser.add_argument(
        "--failures", type=float, default=10.0, metavar="HOURS", help="between those of a node"
    )
    options = parser.parse_args()
    if options.check:
        print(json.dumps(check(), indent=2))
        return
    for runs in (420, 42_000):
        tasks = large_sweep(runs, options.scale)
        print(
            f"{runs} runs, {sum(task.seconds for task in tasks) / 3600:.0f} core hours, each about "
            f"{statistics.median(task.seconds for task in tasks) / 60:.0f} minutes; nodes of 32 cores; "
            f"then with a node failing every {options.failures:g} hours"
        )
        print(f"{'nodes':>6} {'minutes':>8} {'busy':>6} {'minutes':>8} {'restarts':>9}")
        for nodes in (1, 4, 14, 25, 50, 100, 400):
            safe = simulate(tasks, Cluster(nodes))
            hard = simulate(tasks, Cluster(nodes, hours_between_failures=options.failures))
            print(
                f"{nodes:6} {safe.seconds / 60:8.1f} {safe.busy:6.0%} {hard.seconds / 60:8.1f} {hard.restarts:9}"
            )


if __name__ == "__main__":
    main()
