"""Table 1: runs that are timed one after another, with an eye on what else the machine does meanwhile.

NAME.times.csv has a row a run. ``others`` is how many cores the processes that are not ours kept busy; a run beside
which that was above :data:`QUIET` is stored, told, and not judged.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from papd.results.paper_data import KEYS, read_table, write_table
from papd.results.paper_experiments import Cell, Plan
from papd.results.paper_load import Others
from papd.runs.config import Backend
from papd.runs.provenance import provenance

TIMES = (
    *KEYS,
    "identity",
    "steps",
    "seconds",
    "others",
    "started",
    "papd",
    "commit",
    "jax",
    "processor",
    "cores",
)
"""Columns of a row a run."""

QUIET = 0.05
"""Cores that others may keep busy beside a run whose time counts."""

Say = Callable[[str], None]


def time_runs(
    folder: Path, plan: Plan, backend: Backend, *, afresh: bool, workers: int | None, say: Say
) -> int:
    """Time the runs of a plan that have no row that counts yet, seed by seed so that drift meets every cell alike.

    Each is in the file as soon as it is over. Returns how many were timed.
    """
    path = times_file(folder, plan)
    done = set() if afresh else _timed(read_times(folder, plan), backend)
    todo = [(seed, cell) for seed in plan.seeds for cell in plan.cells if (cell.name, seed) not in done]
    for number, (seed, cell) in enumerate(todo, 1):
        row = _time_run(cell, backend, seed, workers)
        known = read_table(path, TIMES)
        same = (known["cell"] == cell.name) & (known["backend"] == backend) & (known["seed"] == seed)
        rows = [frame for frame in (known[~same], pd.DataFrame([row], columns=list(TIMES))) if len(frame)]
        write_table(path, pd.concat(rows, ignore_index=True))
        busy = (
            "" if row["others"] <= QUIET else f", beside others on {row['others']:.2f} cores: does not count"
        )
        say(f"{number} of {len(todo)}: {cell.label}, seed {seed}: {row['seconds']:.1f} s{busy}")
    return len(todo)


def times_file(folder: Path, plan: Plan) -> Path:
    """Where the times of a plan lie."""
    return folder / f"{plan.experiment.spec}.times.csv"


def read_times(folder: Path, plan: Plan) -> pd.DataFrame:
    """The rows of a plan's cells that were run as the plan has them."""
    rows = read_table(times_file(folder, plan), TIMES)
    cells = {cell.name: cell for cell in plan.cells}
    known = rows[rows["cell"].isin(list(cells))]
    keys = zip(known["cell"], known["backend"], known["seed"], strict=True)
    same = [cells[cell].run(backend, int(seed)).identity() for cell, backend, seed in keys]
    return known[known["identity"].isin(same)].reset_index(drop=True)


def counting(times: pd.DataFrame) -> pd.DataFrame:
    """Those beside which the machine did nothing else; an unknown load does not count."""
    return times[times["others"].astype(float) <= QUIET]


def _timed(times: pd.DataFrame, backend: Backend) -> set[tuple[str, int]]:
    rows = counting(times[times["backend"] == backend])
    return {(cell, int(seed)) for cell, seed in zip(rows["cell"], rows["seed"], strict=True)}


def _time_run(cell: Cell, backend: Backend, seed: int, workers: int | None) -> dict[str, Any]:
    """One run: an iteration to compile and to start what is stepped, then the clock."""
    from papd.runs.agent import from_config

    config = dataclasses.replace(cell.run(backend, seed, episodes=0), workers=workers)
    told = provenance(["papd", "paper", "runtime"])
    with contextlib.closing(from_config(config)) as agent:
        agent.iterate()
        others, begun, before = Others(), time.perf_counter(), agent.env_steps
        agent.learn(config.steps)
        seconds = time.perf_counter() - begun
        busy, steps = others.cores(), agent.env_steps - before
    return {
        "cell": cell.name,
        "backend": backend,
        "seed": seed,
        "identity": config.identity(),
        "steps": steps,
        "seconds": seconds,
        "others": busy,
        "started": told["started"][:10],
        "papd": told["papd"],
        "commit": told["git_commit"] or "",
        "jax": told["versions"].get("jax", ""),
        "processor": told["processor"],
        "cores": told["cores"],
    }
