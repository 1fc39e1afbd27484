"""Files that are either the old or the new version, whatever happens while they are written."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from papd.errors import RunError

TEMPORARY = ".tmp"
"""How the name of a file ends that is still being written; a dot begins it."""


class WriteError(RunError):
    """A file that cannot be written, whatever its contents: another checkpoint would fare no better."""


def write_atomic(path: Path, data: bytes) -> None:
    """Write ``data``: temporary file, fsync, rename, fsync of the folder. A failure leaves the old file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise WriteError(f"cannot write {path}: {reason(error)}") from error


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, atomically."""
    write_atomic(path, (json.dumps(value, indent=2, allow_nan=True) + "\n").encode())


def read_bytes(path: Path) -> bytes:
    """The contents of a file, or a :class:`RunError`."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise RunError(f"cannot read {path}: {reason(error)}") from error


def read_json(path: Path) -> Any:
    """Read a JSON file; a missing, foreign or damaged one is a :class:`RunError`."""
    try:
        return json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path} is no valid JSON: {error}") from error


def sync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(folder: Path) -> None:
    """Delete what a killed writer left half written. The caller holds the lock of the folder."""
    for leftover in folder.glob(f".*{TEMPORARY}"):
        with contextlib.suppress(OSError):
            leftover.unlink()


def reason(error: OSError) -> str:
    """The operating system's words, without the error number."""
    return error.strerror or str(error) or type(error).__name__
