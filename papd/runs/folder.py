"""A run directory: where each file lies, which checkpoints are kept and which one is used."""

import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from papd.errors import RunError
from papd.runs.files import WriteError, read_json, reason, write_json

FORMAT = 1
"""The number of this layout. A reader refuses a larger one."""

_CHECKPOINT = re.compile(r"\d{8}\.safetensors")


class RunStoppedError(RunError):
    """A run that began and could not go on; its last good checkpoint is on disk."""


class RunFolder(NamedTuple):
    """The files of one run."""

    path: Path

    @property
    def config(self) -> Path:
        """What was run, and by what."""
        return self.path / "config.json"

    @property
    def metrics(self) -> Path:
        """One row an iteration."""
        return self.path / "metrics.csv"

    @property
    def summary(self) -> Path:
        """How it ended."""
        return self.path / "summary.json"

    @property
    def checkpoints(self) -> Path:
        """The last whole train states."""
        return self.path / "checkpoints"

    @property
    def policy(self) -> Path:
        """The last policy."""
        return self.path / "policy.safetensors"

    @property
    def best(self) -> Path:
        """The best policy, feasible first."""
        return self.path / "best.safetensors"

    def holds_run(self) -> bool:
        """Whether anything of a run lies here."""
        files = (self.config, self.metrics, self.summary, self.checkpoints, self.policy)
        return any(file.exists() for file in files)

    def checkpoint(self, iteration: int) -> Path:
        """The checkpoint after an iteration."""
        return self.checkpoints / f"{iteration:08}.safetensors"

    def iterations(self) -> list[int]:
        """The iterations that have a checkpoint, newest first."""
        if not self.checkpoints.is_dir():
            return []
        names = [file.name for file in self.checkpoints.iterdir() if _CHECKPOINT.fullmatch(file.name)]
        return sorted((int(name.split(".")[0]) for name in names), reverse=True)

    def prune(self, keep: int) -> None:
        """Remove all but the newest ``keep`` checkpoints."""
        self._remove(self.iterations()[keep:])

    def forget_after(self, iteration: int) -> None:
        """Remove checkpoints newer than ``iteration``: a run that goes on from there makes them again."""
        self._remove([number for number in self.iterations() if number > iteration])

    def _remove(self, iterations: list[int]) -> None:
        for iteration in iterations:
            with contextlib.suppress(FileNotFoundError):
                try:
                    self.checkpoint(iteration).unlink()
                except PermissionError as error:
                    raise RunError(f"cannot write {self.checkpoints}: {reason(error)}") from error

    def newest(self, load: Callable[[int], Any]) -> tuple[Any, list[str]]:
        """What ``load`` makes of the newest checkpoint it does not refuse, and why it refused newer ones.

        None where there is no checkpoint; when each is refused, the newest's reason is raised.
        """
        refused: list[RunError] = []
        for iteration in self.iterations():
            try:
                return load(iteration), [str(error) for error in refused]
            except WriteError:
                raise
            except RunError as error:
                refused.append(error)
        if refused:
            raise RunError(f"no checkpoint of {self.path} can be used: {refused[0]}") from refused[0]
        return None, []

    def write_config(self, config: dict[str, Any], provenance: dict[str, Any]) -> None:
        """Write ``config.json``."""
        write_json(self.config, {**config, "provenance": {"format": FORMAT, **provenance}})

    def read_config(self) -> dict[str, Any]:
        """The values of ``config.json``, refused when a newer papd wrote them."""
        if not self.config.is_file():
            raise RunError(f"{self.path} holds no run: it has no config.json")
        values: Any = read_json(self.config)
        provenance = values.get("provenance") if isinstance(values, dict) else None
        if not isinstance(provenance, dict) or not isinstance(provenance.get("format"), int):
            raise RunError(f"{self.config} is no configuration of a run")
        if provenance["format"] > FORMAT:
            raise RunError(
                f"{self.path} was written by papd {provenance.get('papd', '?')} "
                f"(format {provenance['format']}); this papd reads format {FORMAT}: upgrade papd"
            )
        return dict(values)

    def read_summary(self) -> dict[str, Any]:
        """The values of ``summary.json``, none before it is written."""
        values: Any = read_json(self.summary) if self.summary.exists() else {}
        if not isinstance(values, dict):
            raise RunError(f"{self.summary} is no summary of a run")
        return values

    def add_to_summary(self, values: dict[str, Any]) -> dict[str, Any]:
        """Put ``values`` over what ``summary.json`` holds, and return all of it."""
        summary = {**self.read_summary(), **values}
        write_json(self.summary, summary)
        return summary


def next_free(path: Path) -> Path:
    """``path``, or with the first number that no run has taken."""
    candidate, number = path, 2
    while RunFolder(candidate).holds_run():
        candidate, number = path.with_name(f"{path.name}-{number}"), number + 1
    return candidate


def latest(path: Path) -> Path:
    """The last of ``path``, ``path-2``, ... that holds a run; ``path`` where none does."""
    found, number = path, 2
    while RunFolder(path.with_name(f"{path.name}-{number}")).holds_run():
        found, number = path.with_name(f"{path.name}-{number}"), number + 1
    return found
