"""The folder of a sweep: a run directory for each run, and ``sweep.json``, which says what belongs to it.

Whether a run is finished is read from the run itself; the index holds the spec, who ran it, and why runs failed.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from papd.errors import RunError
from papd.runs.files import read_json, write_json
from papd.runs.folder import RunFolder
from papd.runs.provenance import provenance
from papd.runs.stored import check_stored, finished
from papd.runs.sweeps.spec import Sweep, SweepRun, from_spec

INDEX = "sweep.json"
FORMAT = 1
"""The number of this layout. A reader refuses a larger one."""

LOGS = "logs"
"""Where workers leave what they print."""


def read_index(folder: Path) -> dict[str, Any]:
    """The values of ``sweep.json``."""
    path = folder / INDEX
    if not path.is_file():
        raise RunError(f"{folder} holds no sweep: it has no {INDEX}")
    values = read_json(path)
    if not isinstance(values, dict) or not isinstance(values.get("format"), int):
        raise RunError(f"{path} is no index of a sweep")
    if values["format"] > FORMAT:
        raise RunError(f"{path} has format {values['format']}; this papd reads format {FORMAT}: upgrade papd")
    return values


def stored_sweep(folder: Path) -> Sweep:
    """The sweep that a folder was begun with."""
    return from_spec(read_index(folder)["spec"], where=str(folder / INDEX))


def check_folder(folder: Path, *, resume: bool) -> None:
    """Refuse to write a sweep over something else."""
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder} is a file: --out names a directory")
    if RunFolder(folder).holds_run():
        raise RunError(f"{folder} holds a single run: choose another --out")
    if (folder / INDEX).exists() and not resume:
        raise RunError(
            f"{folder} holds a sweep: --resume finishes what is missing of it, or choose another --out"
        )


def missing(folder: Path, runs: Sequence[SweepRun]) -> list[SweepRun]:
    """The runs that are not finished; one that lies there under its name as another run is refused."""
    left = []
    for run in runs:
        where = RunFolder(folder / run.name)
        if not where.config.exists():
            left.append(run)
            continue
        check_stored(where, run.config, resume=True)
        if finished(where, run.config) is None:
            left.append(run)
    return left


def steps_done(folder: Path, run: SweepRun) -> int:
    """The steps of a run that its summary knows of."""
    steps = RunFolder(folder / run.name).read_summary().get("env_steps", 0)
    return steps if isinstance(steps, int) else 0


def write_index(folder: Path, sweep: Sweep, engine: str, command: Sequence[str]) -> None:
    """What is about to be run, before it is. A sweep that goes on keeps what it was begun by."""
    now = provenance(command)
    sessions: list[Any] = []
    if (folder / INDEX).exists():
        sessions = read_index(folder)["sessions"]
    values = {
        "format": FORMAT,
        "name": sweep.name,
        "spec": sweep.to_json(),
        "runs": [
            {"name": run.name, "identity": run.identity, "labels": dict(run.labels)} for run in sweep.runs
        ],
        "sessions": [*sessions, {**now, "engine": engine}],
    }
    write_json(folder / INDEX, values)


def close_index(folder: Path, outcome: Mapping[str, Any]) -> None:
    """How the session that is going on ended."""
    values = read_index(folder)
    values["sessions"][-1].update(outcome)
    write_json(folder / INDEX, values)
