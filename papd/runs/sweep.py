"""Sweeps: many runs from one spec, over the cores of this machine, its accelerator, or a cluster.

    from papd.runs.sweep import Sweep, run_sweep
    run_sweep(Sweep(base={"env": "SafetyCarRun-v0"}, axes={"lr": ["constant", "invqua"]}, seeds=(0, 1)), Path("out"))

A sweep is a folder of run directories. Killed at any point, ``resume=True`` finishes only what is missing.
"""

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from papd.runs.lock import locked
from papd.runs.progress import clock
from papd.runs.sweeps import speeds
from papd.runs.sweeps.board import make_board
from papd.runs.sweeps.hire import Hire, Means
from papd.runs.sweeps.index import LOGS, check_folder, close_index, missing, write_index
from papd.runs.sweeps.plan import WORTH_MEASURING_STEPS, Engine, Part, Plan, by_program, make_plan
from papd.runs.sweeps.spec import Sweep, SweepRun, from_spec, read_spec, sweep_of
from papd.runs.sweeps.tally import Tally

if TYPE_CHECKING:
    from papd.runs.train import Stop

__all__ = [
    "Engine",
    "Plan",
    "Sweep",
    "SweepResult",
    "SweepRun",
    "from_spec",
    "plan_sweep",
    "read_spec",
    "run_sweep",
    "sweep_of",
]

REMEMBER_SECONDS = 5.0
"""A speed that was seen for longer than this is remembered for the next plan."""


@dataclass(frozen=True)
class SweepResult:
    """What became of a sweep."""

    folder: Path
    runs: tuple[SweepRun, ...]
    states: Mapping[str, str]
    """Each run's state: finished, failed, interrupted or waiting."""
    failed: Mapping[str, str]
    """Why runs failed, in one line each."""
    engines: Mapping[str, int]
    """How many runs each engine was given now."""
    signal: int | None
    """The signal that stopped it, if one did."""
    seconds: float
    steps: int
    """Environment steps that were taken now; what was there before does not count."""

    @property
    def finished(self) -> bool:
        """Whether every run is."""
        return all(state == "finished" for state in self.states.values())

    def path(self, run: SweepRun) -> Path:
        """A run's directory."""
        return self.folder / run.name

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        states = list(self.states.values())
        return {
            "folder": str(self.folder),
            "runs": len(self.runs),
            **{state: states.count(state) for state in ("finished", "failed", "interrupted", "waiting")},
            "reasons": dict(self.failed),
            "engines": dict(self.engines),
            "signal": self.signal,
            "seconds": self.seconds,
            "steps": self.steps,
            "steps_per_second": self.steps / self.seconds if self.seconds else 0.0,
        }


def run_sweep(
    spec: Sweep | Path | str,
    out: Path | str,
    *,
    engine: Engine = "local",
    resume: bool = False,
    workers: int | None = None,
    address: str | None = None,
    gpus: float = 0.0,
    quiet: bool = False,
    command: Sequence[str] = ("papd.runs.sweep.run_sweep",),
) -> SweepResult:
    """Run all runs of a sweep that are not finished yet into the folder ``out``.

    ``workers`` is how many runs go on at a time, one a core by default; ``address`` and ``gpus`` (what a run takes of
    one) are for ``engine="ray"``; ``command`` is what ``config.json`` names as the origin. Runs that fail are told in
    the result and stop no other; a wrong spec raises before anything starts.
    """
    sweep, folder, means = _read(spec), Path(out), Means(workers, address, gpus)
    means.check(engine)
    check_folder(folder, resume=resume)
    with locked(folder), Hire(folder, folder / LOGS, means) as hire:
        check_folder(folder, resume=resume)
        todo = missing(folder, sweep.runs)
        plan = make_plan(hire, folder, sweep.runs, todo, engine, least=WORTH_MEASURING_STEPS)
        if not todo:
            return _Session(plan, hire, list(command), quiet=quiet).result
        write_index(folder, sweep, engine, list(command))
        result = _Session(plan, hire, list(command), quiet=quiet).run()
        close_index(folder, {key: value for key, value in result.to_json().items() if key != "folder"})
        return result


def plan_sweep(
    spec: Sweep | Path | str,
    out: Path | str,
    *,
    engine: Engine = "local",
    resume: bool = False,
    workers: int | None = None,
    address: str | None = None,
    gpus: float = 0.0,
) -> Plan:
    """What :func:`run_sweep` would do, checked in the same way, every program measured; ``out`` is left alone."""
    sweep, folder, means = _read(spec), Path(out), Means(workers, address, gpus)
    means.check(engine)
    check_folder(folder, resume=resume)
    todo = missing(folder, sweep.runs)
    with tempfile.TemporaryDirectory() as logs, Hire(folder, Path(logs) / LOGS, means) as hire:
        return make_plan(hire, folder, sweep.runs, todo, engine, least=1)


def headline(plan: Plan) -> str:
    """A plan in one line."""
    todo = plan.todo
    programs = len(by_program(todo))
    engines = ", ".join(f"{part.engine} ({part.workers} at a time)" for part in plan.parts)
    words = [
        f"{len(todo)} of {len(plan.runs)} runs to do",
        f"{programs} program{'s' * (programs != 1)}",
        f"{sum(run.config.steps for run in todo):,} steps",
        f"engine {engines or '-'}",
        f"about {clock(plan.seconds)}",
    ]
    return ", ".join(words)


def _read(spec: Sweep | Path | str) -> Sweep:
    return spec if isinstance(spec, Sweep) else read_spec(Path(spec))


class _Session:
    """One process's work on a sweep whose folder is locked."""

    def __init__(self, plan: Plan, hire: Hire, command: list[str], *, quiet: bool):
        self._plan, self._hire, self._command, self._quiet = plan, hire, command, quiet
        self._tallies: list[Tally] = []
        self._began = time.monotonic()
        self._signal: int | None = None

    def run(self) -> SweepResult:
        """Do one part after the other."""
        from papd.runs.train import Stop

        if not self._quiet:
            print(headline(self._plan), file=sys.stderr, flush=True)
        stop = Stop()
        self._tallies = [self._tally(part) for part in self._plan.parts]
        for part, tally in zip(self._plan.parts, self._tallies, strict=True):
            if stop.signal is None:
                self._do(part, tally, stop)
        self._signal = stop.signal
        return self.result

    def _tally(self, part: Part) -> Tally:
        return Tally(part.runs, part.workers, {} if part.engine == "vmap" else part.speeds)

    def _do(self, part: Part, tally: Tally, stop: "Stop") -> None:
        with closing(make_board(tally, quiet=self._quiet)) as board, stop:
            jobs = part.jobs(self._plan.folder, self._command)
            self._hire(part.engine).run(jobs, board.take, lambda: stop.signal)
        if part.engine != "vmap":  # The speed of one run among others is no speed of a population.
            seen = {name: s.value for name, s in tally.speeds.items() if s.seconds > REMEMBER_SECONDS}
            speeds.remember(part.engine, seen)

    @property
    def result(self) -> SweepResult:
        """What became of it so far."""
        runs = {name: run for tally in self._tallies for name, run in tally.runs.items()}
        states = {run.name: "finished" for run in self._plan.runs}
        states |= {name: "interrupted" if run.state == "running" else run.state for name, run in runs.items()}
        return SweepResult(
            self._plan.folder,
            self._plan.runs,
            states,
            {name: run.reason for name, run in runs.items() if run.state == "failed"},
            {part.engine: len(part.runs) for part in self._plan.parts},
            self._signal,
            time.monotonic() - self._began,
            sum(tally.covered for tally in self._tallies),
        )
