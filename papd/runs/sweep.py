"""Sweeps: many runs from one spec, over the cores of this machine, its accelerator, or a cluster.

    from papd.runs.sweep import Sweep, run_sweep
    run_sweep(Sweep(base={"env": "SafetyCarRun-v0"}, axes={"lr": ["constant", "invqua"]}, seeds=(0, 1)), Path("out"))

A sweep is a folder of run directories. Killed at any point, ``resume=True`` finishes only what is missing.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from papd.errors import ConfigError
from papd.runs.lock import locked
from papd.runs.sweeps import speeds
from papd.runs.sweeps.board import make_board
from papd.runs.sweeps.index import LOGS, check_folder, close_index, missing, write_index
from papd.runs.sweeps.plan import check, in_order, job
from papd.runs.sweeps.pool import Pool, one_a_core
from papd.runs.sweeps.spec import Sweep, SweepRun, from_spec, read_spec, sweep_of
from papd.runs.sweeps.tally import Tally

__all__ = ["Engine", "Sweep", "SweepResult", "SweepRun", "from_spec", "read_spec", "run_sweep", "sweep_of"]

Engine = Literal["local", "processes"]


@dataclass(frozen=True)
class SweepResult:
    """What became of a sweep."""

    folder: Path
    runs: tuple[SweepRun, ...]
    states: Mapping[str, str]
    """Each run's state: finished, failed, interrupted or waiting."""
    failed: Mapping[str, str]
    """Why runs failed, in one line each."""
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
    quiet: bool = False,
    command: Sequence[str] = ("papd.runs.sweep.run_sweep",),
) -> SweepResult:
    """Run all runs of a sweep that are not finished yet into the folder ``out``.

    ``workers`` is how many processes work, one a core by default; ``command`` is what ``config.json`` names as the
    origin. Runs that fail are told in the result and stop no other; a wrong spec raises before anything starts.
    """
    sweep = spec if isinstance(spec, Sweep) else read_spec(Path(spec))
    folder = Path(out)
    if workers is not None and workers < 1:
        raise ConfigError(f"workers={workers}: a sweep needs one worker or more")
    check_folder(folder, resume=resume)
    with locked(folder):
        check_folder(folder, resume=resume)
        todo = missing(folder, sweep.runs)
        return _run(_Task(sweep, folder, todo, engine, list(command)), workers, quiet=quiet)


@dataclass(frozen=True)
class _Task:
    """A sweep whose folder is locked, and what is left of it."""

    sweep: Sweep
    folder: Path
    todo: list[SweepRun]
    engine: str
    command: list[str]


def _run(task: _Task, workers: int | None, *, quiet: bool) -> SweepResult:
    from papd.runs.train import Stop

    places = one_a_core(workers)
    known = speeds.known(task.engine)
    tally, stop, began = Tally(task.todo, len(places.cores), known), Stop(), time.monotonic()
    if task.todo:
        with Pool(places, task.folder / LOGS) as pool:
            check(pool, task.todo)
            write_index(task.folder, task.sweep, task.engine, task.command)
            jobs = [job("train", [run], task.folder, task.command) for run in in_order(task.todo, known)]
            with closing(make_board(tally, quiet=quiet)) as board, stop:
                pool.run(jobs, board.take, lambda: stop.signal)
        speeds.remember(task.engine, {name: s.value for name, s in tally.speeds.items() if s.seconds > 5.0})
    result = _result(task, tally, stop.signal, time.monotonic() - began)
    if task.todo:
        close_index(task.folder, {key: value for key, value in result.to_json().items() if key != "folder"})
    return result


def _result(task: _Task, tally: Tally, signal: int | None, seconds: float) -> SweepResult:
    states = {run.name: "finished" for run in task.sweep.runs}
    states.update(
        {name: "interrupted" if run.state == "running" else run.state for name, run in tally.runs.items()}
    )
    reasons = {name: run.reason for name, run in tally.runs.items() if run.state == "failed"}
    return SweepResult(task.folder, task.sweep.runs, states, reasons, signal, seconds, tally.covered)
