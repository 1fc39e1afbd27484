"""One process a run directory. The lock falls with the process that holds it, however that ends."""

import contextlib
import fcntl
import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path

from papd.errors import PapdError, RunError
from papd.runs.files import reason

LOCK = ".lock"
LOOK_EVERY_SECONDS = 0.1


@contextlib.contextmanager
def locked(folder: Path, *, patience: float = 0.0) -> Iterator[None]:
    """Hold ``folder`` (made where it is missing) alone, or say who does after so many seconds of ``patience``."""
    path = folder / LOCK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise RunError(f"cannot write {folder}: {reason(error)}") from error
    try:
        _claim(descriptor, folder, time.monotonic() + patience)
        yield
    except PapdError:
        _leave_nothing(folder)
        raise
    finally:
        os.close(descriptor)


def _leave_nothing(folder: Path) -> None:
    """A folder in which nothing was begun goes, with the lock still held."""
    if [entry.name for entry in folder.iterdir()] == [LOCK]:
        with contextlib.suppress(OSError):
            (folder / LOCK).unlink()
            folder.rmdir()


def _claim(descriptor: int, folder: Path, deadline: float) -> None:
    try:
        while not _take(descriptor) and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY_SECONDS)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "another process"
        raise RunError(f"{folder} is in use by {holder}: wait for it, or choose another --out") from error
    except OSError as error:
        raise RunError(f"cannot lock {folder} ({reason(error)}): choose an --out on another disk") from error
    if not (folder / LOCK).exists() or os.stat(folder / LOCK).st_ino != os.fstat(descriptor).st_ino:
        raise RunError(f"{folder} was removed by another process that held it: try again")
    with contextlib.suppress(
        OSError
    ):  # A full disk: the lock holds all the same, it only cannot say whose it is.
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {platform.node()}\n".encode(), 0)


def _take(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
