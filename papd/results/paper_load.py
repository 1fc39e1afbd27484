"""What the machine does besides us, from /proc: a time that is measured beside other work says so."""

import math
import os
import sys
import time
from pathlib import Path

PROC = Path("/proc")


class Others:
    """How many cores processes that are neither this one nor its descendants keep busy from now on."""

    def __init__(self) -> None:
        self._known = sys.platform == "linux"
        self._begun, self._before = time.monotonic(), _other_seconds() if self._known else 0.0

    def cores(self) -> float:
        """Since the beginning, cores that others kept busy; NaN where the system does not tell."""
        if not self._known:
            return math.nan
        return max(0.0, (_other_seconds() - self._before) / (time.monotonic() - self._begun))


def _other_seconds() -> float:
    """Processor seconds of everything but us, since the machine was started; a host's stolen ones count too."""
    hertz = os.sysconf("SC_CLK_TCK")
    user, nice, system, _, _, _, _, stolen, *_ = map(
        int, (PROC / "stat").read_text().split("\n", 1)[0].split()[1:]
    )
    return (user + nice + system + stolen - sum(_ticks(pid) for pid in _ours())) / hertz


def _ours() -> set[int]:
    """This process and its descendants."""
    parents = {
        int(entry.name): _field(int(entry.name), 1) for entry in PROC.iterdir() if entry.name.isdecimal()
    }
    ours = {os.getpid()}
    while grown := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= grown
    return ours


def _ticks(pid: int) -> int:
    """User and system time, its own and that of children it has waited for."""
    return sum(_field(pid, place) for place in (11, 12, 13, 14))


def _field(pid: int, place: int) -> int:
    """A field of /proc/PID/stat, counted from behind the name; 0 for a process that has gone."""
    try:
        return int((PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[place])
    except (OSError, IndexError):
        return 0
