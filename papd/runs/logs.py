"""Where metrics go besides ``metrics.csv``: TensorBoard's event files, and Weights & Biases on request."""

import abc
import json
import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, final

from papd.errors import ConfigError, RunError
from papd.runs.files import reason
from papd.runs.metrics import Row

WandbMode = Literal["off", "offline", "online"]


class Log(abc.ABC):
    """Something that takes each iteration's metrics. Its x axis is the number of environment steps."""

    @abc.abstractmethod
    def write(self, row: Row) -> None:
        """Take one row."""

    @abc.abstractmethod
    def close(self) -> None:
        """Let go of files and connections."""


@final
class TensorBoard(Log):
    """An event file, written record by record: no thread and no queue that a killed process would lose."""

    def __init__(self, folder: Path, *, after_steps: int | None = None):
        """Begin a file; with ``after_steps``, readers drop what older files hold beyond that step."""
        from tensorboardX.proto import event_pb2
        from tensorboardX.record_writer import RecordWriter

        self._event = event_pb2.Event
        self._path = _unused(folder)
        try:
            self._writer = RecordWriter(str(self._path))
        except OSError as error:
            raise RunError(f"cannot write {self._path}: {reason(error)}") from error
        self._put(file_version="brain.Event:2")
        if after_steps is not None:
            self._put(step=after_steps + 1, session_log={"status": 1})

    def write(self, row: Row) -> None:
        """One event with a scalar for every column."""
        values = [{"tag": name, "simple_value": value} for name, value in row.items() if name != "env_steps"]
        self._put(step=int(row["env_steps"]), summary={"value": values})

    def close(self) -> None:
        """Close the file."""
        self._writer.close()

    def _put(self, **fields: Any) -> None:
        event = self._event(wall_time=time.time(), **fields)
        try:
            self._writer.write(event.SerializeToString())
            self._writer.flush()
        except OSError as error:
            raise RunError(f"cannot write {self._path}: {reason(error)}") from error


def _unused(folder: Path) -> Path:
    """TensorBoard reads the files of a folder in the order of their names."""
    stem = f"events.out.tfevents.{int(time.time()):010d}.{platform.node() or 'here'}"
    names = (folder / f"{stem}.{number}" for number in range(1_000_000))
    return next(path for path in names if not path.exists())


@final
class WeightsAndBiases(Log):
    """A run of Weights & Biases; continued under the same id when the run is resumed."""

    def __init__(self, folder: Path, mode: Literal["offline", "online"], config: Mapping[str, Any]):
        try:
            import wandb
        except ImportError as error:
            raise ConfigError(
                "--wandb needs Weights & Biases: install it with pip install 'papd[wandb]'"
            ) from error
        os.environ.setdefault("WANDB_SILENT", "true")
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "papd"),
                name=folder.name,
                id=_wandb_id(folder),
                dir=str(folder),
                mode=mode,
                config=json.loads(json.dumps(config)),
                resume="allow" if mode == "online" else None,
            )
        except (wandb.errors.Error, OSError) as error:
            raise RunError(f"Weights & Biases did not start: {' '.join(str(error).split())}") from error

    def write(self, row: Row) -> None:
        """One step of its history."""
        self._run.log(dict(row), step=int(row["iteration"]))

    def close(self) -> None:
        """Finish and flush."""
        self._run.finish()


def _wandb_id(folder: Path) -> str:
    """One id a run, kept beside it."""
    path = folder / "wandb-id.txt"
    try:
        if not path.exists():
            path.write_text(os.urandom(6).hex())
        return path.read_text().strip()
    except OSError as error:
        raise RunError(f"cannot write {path}: {reason(error)}") from error
