"""``metrics.csv``: one row an iteration. What a killed writer left is cut back before a run goes on."""

import csv
import hashlib
import io
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from papd.errors import RunError
from papd.runs.files import WriteError, read_bytes, reason, write_atomic

Row = Mapping[str, float | int]

TIMINGS = ("steps_per_second", "wall_seconds")
"""The columns that differ between two runs of the same configuration."""


class MetricsFile:
    """Appends rows. A row reaches the operating system at once, the disk with :meth:`sync`."""

    def __init__(self, path: Path, keep_iterations: int = 0, digest: str = ""):
        """Open ``path`` for the row after iteration ``keep_iterations``; later rows are cut.

        What is kept must be what :attr:`digest` was then.
        """
        self._path = path
        kept = cut(path, keep_iterations, digest)
        self._columns = tuple(next(csv.reader(io.StringIO(kept.decode(), newline="")), ()))
        self._hash = hashlib.sha256(kept)
        try:
            self._file = open(path, "ab")  # noqa: SIM115 - closed by close()
        except OSError as error:
            raise WriteError(f"cannot write {path}: {reason(error)}") from error

    @property
    def digest(self) -> str:
        """The checksum of everything written so far."""
        return self._hash.hexdigest()

    def append(self, row: Row) -> None:
        """Write one row; the first brings the header."""
        if not self._columns:
            self._columns = tuple(row)
            self._write(_line(self._columns))
        if tuple(row) != self._columns:
            raise RunError(f"{self._path} has the columns of another configuration")
        self._write(_line([_text(value) for value in row.values()]))

    def sync(self) -> None:
        """Rows survive a power cut from here on."""
        self._guarded(lambda: os.fsync(self._file.fileno()))

    def close(self) -> None:
        """Close the file; rows already written stay."""
        self._file.close()

    def _write(self, line: bytes) -> None:
        def write() -> None:
            self._file.write(line)
            self._file.flush()

        self._guarded(write)
        self._hash.update(line)

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except OSError as error:
            raise RunError(f"cannot write {self._path}: {reason(error)}") from error


def read_metrics(path: Path) -> list[dict[str, float]]:
    """The whole rows of a ``metrics.csv``, numbers as floats; a torn last line is left out."""
    header, rows = _whole_rows(path)
    try:
        return [{name: float(value) for name, value in zip(header, row, strict=True)} for row in rows]
    except ValueError as error:
        raise RunError(f"{path} holds something that is no number: {error}") from error


def cut(path: Path, iterations: int, digest: str) -> bytes:
    """Keep the header and the rows of the first ``iterations``, and return them.

    A file that has fewer rows, or other bytes than ``digest`` is of, is a :class:`RunError` and stays as it is.
    """
    lines = read_bytes(path).splitlines(keepends=True) if iterations or path.exists() else []
    kept = b"".join(lines[: iterations + 1]) if iterations else b""
    if iterations and len(lines) <= iterations:
        raise RunError(
            f"{path} holds {max(0, len(lines) - 1)} of the {iterations} iterations before the checkpoint"
        )
    if iterations and hashlib.sha256(kept).hexdigest() != digest:
        raise RunError(
            f"{path} was changed: its first {iterations} iterations are not those of the checkpoint"
        )
    if kept != b"".join(lines):
        write_atomic(path, kept)
    return kept


def _whole_rows(path: Path) -> tuple[list[str], list[list[str]]]:
    """Header and rows; the bytes after the last line's end are what a killed process began."""
    data = read_bytes(path)
    data = data[: data.rfind(b"\n") + 1]
    try:
        header, *rows = list(csv.reader(io.StringIO(data.decode(), newline=""))) or [[]]
    except (UnicodeDecodeError, csv.Error) as error:
        raise RunError(f"{path} is damaged: it is no CSV text") from error
    if any(len(row) != len(header) for row in rows):
        raise RunError(f"{path} is damaged: its rows are not of one length")
    return header, rows


def _line(cells: Sequence[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue().encode()


def _text(value: float | int) -> str:
    """Nine digits hold a float32 exactly."""
    return str(value) if isinstance(value, int) else f"{value:.9g}"


def last_tenth(rows: Sequence[Row]) -> dict[str, float | None]:
    """Means over the last tenth of training (at least one row), as the paper's tables have them.

    A value that is no number (no episode ended in that iteration) is left out; where none is one, the mean is None.
    """
    last = rows[-max(1, math.ceil(len(rows) / 10)) :]
    counters = ("iteration", "env_steps", "episodes", "updates", "skipped_updates", "faults", "wall_seconds")
    names = [name for name in rows[0] if name not in counters] if rows else []
    return {name: _mean([row[name] for row in last if math.isfinite(row[name])]) for name in names}


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
