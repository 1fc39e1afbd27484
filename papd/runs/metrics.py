"""``metrics.csv``: one row an iteration. What a killed writer left is cut back before a run goes on."""

import csv
import io
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from papd.errors import RunError
from papd.runs.files import read_bytes, reason, write_atomic

Row = Mapping[str, float | int]

TIMINGS = ("steps_per_second", "wall_seconds")
"""The columns that differ between two runs of the same configuration."""


class MetricsFile:
    """Appends rows. A row reaches the operating system at once, the disk with :meth:`sync`."""

    def __init__(self, path: Path, keep_iterations: int = 0):
        """Open ``path`` for the row after iteration ``keep_iterations``; later rows are cut."""
        self._path = path
        self._columns = cut(path, keep_iterations)
        try:
            self._file = open(path, "ab")  # noqa: SIM115 - closed by close()
        except OSError as error:
            raise RunError(f"cannot write {path}: {reason(error)}") from error

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


def cut(path: Path, iterations: int) -> tuple[str, ...]:
    """Keep the header and the rows of the first ``iterations``; what they were is returned as the columns.

    A file that has fewer rows than that is a :class:`RunError`.
    """
    if iterations == 0:
        if path.exists():
            write_atomic(path, b"")
        return ()
    header, rows = _whole_rows(path)
    kept = rows[:iterations]
    if "iteration" not in header or len(kept) < iterations:
        raise RunError(f"{path} holds {len(kept)} of the {iterations} iterations before the checkpoint")
    column = header.index("iteration")
    if [row[column] for row in kept] != [str(n) for n in range(1, iterations + 1)]:
        raise RunError(f"{path} does not hold the iterations 1 to {iterations} in order")
    write_atomic(path, _line(header) + b"".join(_line(row) for row in kept))
    return tuple(header)


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
