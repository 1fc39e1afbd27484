"""How far a sweep is: what each run does, the steps a second of all together, and when it will be done."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from papd.runs.sweeps.spec import SweepRun

State = Literal["waiting", "running", "finished", "failed", "interrupted"]

FORGET_SECONDS = 60.0
"""The speed shown is that of the last minute."""


@dataclass
class RunTally:
    """One run."""

    run: SweepRun
    state: State = "waiting"
    env_steps: int = 0
    reason: str = ""
    last: dict[str, float] = field(default_factory=dict)

    @property
    def left(self) -> int:
        """Steps to go."""
        return 0 if self.state in ("finished", "failed") else max(0, self.run.config.steps - self.env_steps)


@dataclass
class Speed:
    """Steps and the seconds that workers took for them."""

    steps: float = 0.0
    seconds: float = 0.0

    @property
    def value(self) -> float:
        """Steps a second of one worker; no number before there are any."""
        return self.steps / self.seconds if self.seconds else math.nan


class Tally:
    """Follows the events of an engine."""

    def __init__(self, runs: Sequence[SweepRun], workers: int, speeds: Mapping[str, float]):
        self.runs = {run.name: RunTally(run) for run in runs}
        self.workers, self._known = workers, dict(speeds)
        self.speeds: dict[str, Speed] = {}
        self._began = time.monotonic()
        self._marks: list[tuple[float, int]] = [(self._began, 0)]
        self.covered = 0
        """Steps taken since this process took the sweep up."""

    def count(self, state: State) -> int:
        """Runs in a state."""
        return sum(run.state == state for run in self.runs.values())

    @property
    def seconds(self) -> float:
        """Since this process took the sweep up."""
        return time.monotonic() - self._began

    @property
    def steps_per_second(self) -> float:
        """Of all workers together, over the last minute."""
        (then, before), (now, after) = self._marks[0], self._marks[-1]
        return (after - before) / (now - then) if now > then else 0.0

    @property
    def seconds_left(self) -> float:
        """At the speed of each run's program, known from this sweep or an earlier one; the others' mean elsewhere."""
        speeds = {**self._known, **{name: s.value for name, s in self.speeds.items() if s.seconds > 1.0}}
        at_once = max(self.workers, self.count("running"))
        return seconds_left([(each.run.program, each.left) for each in self.runs.values()], speeds, at_once)

    def take(self, event: Mapping[str, Any]) -> None:
        """One event of :mod:`papd.runs.sweeps.jobs`."""
        if event["event"] == "begun":
            each = self.runs[event["run"]]
            each.state, each.env_steps = "running", event["env_steps"]
        elif event["event"] == "row":
            self._row(event)
        elif event["event"] == "ended":
            each = self.runs[event["run"]]
            each.state, each.reason = event["status"], event.get("reason", "")
            each.env_steps = event.get("env_steps", each.env_steps)

    def _row(self, event: Mapping[str, Any]) -> None:
        each = self.runs[event["run"]]
        each.env_steps = int(event["env_steps"])
        each.last = {name: event[name] for name in ("return_mean", "cost_mean")}
        speed = self.speeds.setdefault(each.run.program, Speed())
        speed.steps += event["covered"]
        speed.seconds += event["seconds"]
        now = time.monotonic()
        self.covered += event["covered"]
        self._marks = [mark for mark in self._marks if now - mark[0] < FORGET_SECONDS] or self._marks[-1:]
        self._marks.append((now, self.covered))


def seconds_left(parts: Sequence[tuple[str, int]], speeds: Mapping[str, float], workers: int) -> float:
    """Time for so many steps of each program, shared by ``workers``; no number where no speed is known."""
    known = [speed for speed in speeds.values() if speed > 0]
    if not any(left for _, left in parts):
        return 0.0
    if not known:
        return math.nan
    mean = len(known) / sum(1 / speed for speed in known)
    single = [left / (speeds.get(program) or mean) for program, left in parts if left]
    return max(sum(single) / workers, max(single))
