"""From runs to jobs: which engine and which workers get what, in which order, and how long that will take."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from papd.errors import ConfigError
from papd.runs.sweeps import speeds as remembered
from papd.runs.sweeps.index import steps_done
from papd.runs.sweeps.pool import Job, Workforce, ask
from papd.runs.sweeps.spec import SweepRun
from papd.runs.sweeps.tally import seconds_left

Engine = Literal["local", "processes", "vmap", "ray"]
"""What a user may ask for; ``local`` is processes or vmap, whichever is faster."""

Hire = Callable[[str], Workforce]
"""The workforce of an engine."""

WORTH_MEASURING_STEPS = 200_000
"""A program with fewer steps to go is begun at once: a measurement would take longer than it is worth."""

WORTH_COMPARING_SECONDS = 60.0
"""Nor are engines compared for a program that takes processes no longer than this."""

POPULATION = 16
"""So many runs, at most, step together in a measurement."""


@dataclass(frozen=True)
class Part:
    """The runs of a sweep that one engine does."""

    engine: str
    runs: tuple[SweepRun, ...]
    workers: int
    speeds: Mapping[str, float]
    """Steps a second of one worker, by program, where that is known."""

    def jobs(self, folder: Path, command: Sequence[str]) -> list[Job]:
        """A run is a job; for a population the runs of a program are."""
        if self.engine == "vmap":
            groups = by_program(self.runs).values()
            return [job("train population", group, folder, command) for group in groups]
        return [job("train", [run], folder, command) for run in in_order(self.runs, self.speeds)]


@dataclass(frozen=True)
class Plan:
    """What a sweep is about to do."""

    folder: Path
    runs: tuple[SweepRun, ...]
    parts: tuple[Part, ...]

    @property
    def todo(self) -> list[SweepRun]:
        """The runs that are not finished yet."""
        return [run for part in self.parts for run in part.runs]

    @property
    def seconds(self) -> float:
        """How long it will take, one part after the other; no number where no speed is known."""
        return sum(
            seconds_left(
                [(run.program, max(0, run.config.steps - steps_done(self.folder, run))) for run in part.runs],
                part.speeds,
                part.workers,
            )
            for part in self.parts
        )

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        engine_of = {run.name: part.engine for part in self.parts for run in part.runs}
        return {
            "folder": str(self.folder),
            "runs": [
                {
                    "name": run.name,
                    "steps": run.config.steps,
                    "done": steps_done(self.folder, run),
                    "engine": engine_of.get(run.name),
                }
                for run in self.runs
            ],
            "left": len(engine_of),
            "steps": sum(run.config.steps for run in self.todo),
            "programs": len(by_program(self.todo)),
            "engines": {part.engine: part.workers for part in self.parts},
            "seconds": self.seconds if math.isfinite(self.seconds) else None,
        }


def make_plan(
    hire: Hire,
    folder: Path,
    runs: Sequence[SweepRun],
    todo: Sequence[SweepRun],
    engine: Engine,
    *,
    least: int,
) -> Plan:
    """Check every kind of run, measure programs of ``least`` steps or more, and choose engines.

    A run that cannot be made is a :class:`ConfigError`, and nothing was begun.
    """
    if not todo:
        return Plan(folder, tuple(runs), ())
    home = "processes" if engine == "local" else engine
    force = hire(home)
    in_jax = check(force, todo)
    outside = [run.name for run in todo if run.program not in in_jax]
    if engine == "vmap" and outside:
        raise ConfigError(
            f"run {outside[0]!r}: its environment is stepped outside JAX, which no vmap can: take engine 'processes'"
        )
    speeds = measure(force, home, todo, least)
    chosen = _choose(hire, todo, speeds, in_jax) if engine == "local" else {}
    alone = [run for run in todo if run.program not in chosen]
    together = [run for run in todo if run.program in chosen]
    parts = [Part("vmap", tuple(together), 1, chosen)] if together else []
    if alone:
        parts.append(Part(home, tuple(alone), force.size, speeds))
    return Plan(folder, tuple(runs), tuple(parts))


def _choose(
    hire: Hire, todo: Sequence[SweepRun], speeds: dict[str, float], in_jax: set[str]
) -> dict[str, float]:
    """The programs that a population does sooner than the processes, with its steps a second.

    Both are measured now, one after the other: what is remembered may be of an hour in which the machine was busy.
    """
    chosen: dict[str, float] = {}
    processes = hire("processes")
    for program, group in by_program(todo).items():
        steps = [(program, run.config.steps) for run in group]
        seconds = seconds_left(steps, speeds, processes.size) if program in speeds else 0.0
        if program in in_jax and len(group) > 1 and seconds > WORTH_COMPARING_SECONDS:
            speeds |= measure(processes, "processes", group, least=1, afresh=True)
            together = measure(hire("vmap"), "vmap", group, least=1, afresh=True)
            if seconds_left(steps, together, 1) < seconds_left(steps, speeds, processes.size):
                chosen |= together
    return chosen


def measure(
    force: Workforce, engine: str, runs: Sequence[SweepRun], least: int, *, afresh: bool = False
) -> dict[str, float]:
    """Steps a second of each program: what an earlier sweep found, and a short measurement of long ones."""
    known = {} if afresh else remembered.known(engine)
    speeds, unknown = {}, []
    for program, group in by_program(runs).items():
        sample = group[:POPULATION] if engine == "vmap" else group[:1]
        key = program if engine != "vmap" else f"{len(sample)} x {program}"
        if key in known:
            speeds[program] = known[key]
        elif sum(run.config.steps for run in group) >= least:
            unknown.append((key, sample))
    kind = "measure population" if engine == "vmap" else "measure"
    answers = ask(force, [job(kind, sample, Path(), ()) for _, sample in unknown])
    measured = {key: _measured(sample[0], answers[sample[0].name]) for key, sample in unknown}
    remembered.remember(engine, measured)
    return {**speeds, **{sample[0].program: measured[key] for key, sample in unknown}}


def _measured(run: SweepRun, answer: Mapping[str, Any]) -> float:
    if answer["status"] == "failed":
        raise ConfigError(f"run {run.name!r}: {answer['reason']}")
    speed: float = answer["steps_per_second"]
    return speed


def in_order(runs: Sequence[SweepRun], speeds: Mapping[str, float]) -> list[SweepRun]:
    """Runs of one program after each other, so that a worker compiles it once; the longest work first."""
    groups = by_program(runs)
    slowest = min(speeds.values(), default=1.0)

    def seconds(run: SweepRun) -> float:
        return run.config.steps / speeds.get(run.program, slowest)

    ranked = sorted(groups.values(), key=lambda group: -max(map(seconds, group)))
    return [run for group in ranked for run in sorted(group, key=lambda run: -run.config.steps)]


def by_program(runs: Sequence[SweepRun]) -> dict[str, list[SweepRun]]:
    """Runs that share a compiled program."""
    groups: dict[str, list[SweepRun]] = defaultdict(list)
    for run in runs:
        groups[run.program].append(run)
    return groups


def job(kind: str, runs: Sequence[SweepRun], folder: Path, command: Sequence[str]) -> Job:
    """A job about runs of one program. Its values are JSON's."""
    return {
        "kind": kind,
        "program": runs[0].program,
        "runs": [run.name for run in runs],
        "configs": {run.name: run.config.to_json() for run in runs},
        "folder": str(folder.absolute()),
        "command": list(command),
        "tell_every": 0.5,
        "patience": 0.0,
    }


def check(force: Workforce, runs: Sequence[SweepRun]) -> set[str]:
    """Make one agent of each kind; the programs that are JAX throughout.

    The first agent that cannot be made is a :class:`ConfigError`.
    """
    kinds = {(run.program, _sizes(run)): run for run in runs}
    groups = by_program(list(kinds.values()))
    answers = ask(force, [job("check", group, Path(), ()) for group in groups.values()])
    for name, answer in answers.items():
        if answer["status"] == "failed":
            raise ConfigError(f"run {name!r}: {answer['reason']}")
    return {program for program, group in groups.items() if answers[group[0].name]["in_jax"]}


def _sizes(run: SweepRun) -> tuple[int, ...]:
    """Whether the values that constraints have fit their number."""
    names = ("cost_limit", "rate_weights", "multiplier_fixed", "multiplier_step", "kp", "ki", "kd")
    return tuple(len(getattr(run.config, name)) for name in names)
