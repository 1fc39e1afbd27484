"""The store of the paper's runs: one folder, each run under a name that says what it is, shared by all experiments."""

import itertools
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from papd.errors import RunError
from papd.results.paper_experiments import Plan, run_name
from papd.runs.config import Backend, RunConfig, from_mapping
from papd.runs.folder import RunFolder
from papd.runs.stored import check_stored, finished
from papd.runs.sweep import Engine, SweepResult, run_sweep
from papd.runs.sweeps.spec import sweep_of

BACKENDS: tuple[Backend, ...] = ("bullet", "twin")


class Stored(NamedTuple):
    """A finished run of the store."""

    cell: str
    backend: Backend
    seed: int
    folder: RunFolder
    config: RunConfig


def wanted(plans: Sequence[Plan], backend: Backend, episodes: int) -> dict[str, RunConfig]:
    """The runs of all plans by name, each once."""
    return {name: config for plan in plans for name, config in plan.runs(backend, episodes).items()}


def missing(store: Path, runs: Mapping[str, RunConfig], *, resume: bool) -> dict[str, RunConfig]:
    """Those that are not finished. One that was begun is refused, unless it may be gone on with."""
    left = {}
    for name, config in runs.items():
        folder = RunFolder(store / name)
        if not folder.config.exists():
            left[name] = config
            continue
        check_stored(folder, config, resume=True)
        if finished(folder, config) is not None:
            continue
        if not resume:
            raise RunError(f"{folder.path} holds a run that is not finished: --resume goes on with it")
        left[name] = config
    return left


def run_missing(
    store: Path,
    runs: Mapping[str, RunConfig],
    *,
    engine: Engine,
    workers: int | None,
    quiet: bool,
    command: Sequence[str],
) -> SweepResult:
    """Run them into the store, over the cores of this machine, its accelerator or a cluster."""
    try:
        return run_sweep(
            sweep_of(runs, name="paper"),
            store,
            engine=engine,
            resume=True,
            workers=workers,
            quiet=quiet,
            command=list(command),
        )
    except RunError as error:
        raise RunError(str(error).replace("--out", "--store")) from error


def stored_runs(store: Path, plans: Sequence[Plan]) -> list[Stored]:
    """Every finished run of the plans' cells that lies in the store, on any backend and with any seed."""
    cells = {cell.name: cell for plan in plans for cell in plan.cells}
    found = []
    for name, cell in cells.items():
        for backend in BACKENDS:
            prefix = run_name(name, backend, 0).removesuffix("0")
            for seed in _seeds(store, prefix):
                folder = RunFolder(store / f"{prefix}{seed}")
                if is_finished(folder, cell.run(backend, seed)):
                    found.append(Stored(name, backend, seed, folder, cell.run(backend, seed)))
    return found


def _seeds(store: Path, prefix: str) -> list[int]:
    endings = [path.name.removeprefix(prefix) for path in store.glob(f"{prefix}*")]
    return sorted(int(ending) for ending in endings if ending.isdecimal())


def is_finished(folder: RunFolder, config: RunConfig) -> bool:
    """Whether the run of this configuration lies here with all its steps; another one under its name is refused."""
    if not folder.config.exists() or not folder.policy.exists():
        return False
    stored = from_mapping(folder.read_config(), where=str(folder.config)).resolved()
    if stored.identity() != config.identity():
        raise RunError(
            f"{folder.path} was trained with another configuration than the experiment's: move it away, or "
            "choose another --store"
        )
    summary = folder.read_summary()
    return bool(summary.get("status") == "finished" and summary.get("env_steps", 0) >= config.steps)


def engine_of(command: object) -> str:
    """The engine that a run's command names."""
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return "local"
    for word, following in itertools.pairwise([*words, ""]):
        if word == "--engine":
            return following
        if word.startswith("--engine="):
            return word.partition("=")[2]
    return "local"
