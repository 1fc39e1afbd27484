"""The children of a process, by Linux' own list."""

from pathlib import Path


def children_of(pid: int) -> list[int]:
    """Process ids, of the children of all its threads."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return sorted(int(child) for listed in lists for child in listed.read_text().split())


def workers_of(pid: int) -> list[int]:
    """Those that are papd's workers."""
    return [
        child
        for child in children_of(pid)
        if b"papd.envs.workers" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
