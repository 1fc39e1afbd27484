"""A worker process: ``python -m papd.runs.sweeps.worker CORE`` does the jobs on its standard input, a line each.

It is pinned to its core before JAX looks at the machine, so that all it runs is single-threaded; ``-`` is no core.
What it has to tell goes to standard output as lines of JSON; what anything else prints goes to its log. It ends with
the process that started it, after a checkpoint.
"""

import contextlib
import ctypes
import json
import os
import signal
import sys
from typing import Any

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serve until standard input ends."""
    _end_with(os.getppid())
    pin(sys.argv[1])
    channel = os.dup(1)
    os.dup2(2, 1)

    def tell(event: dict[str, Any]) -> None:
        line = json.dumps(event).encode() + b"\n"
        with contextlib.suppress(
            BrokenPipeError
        ):  # Nobody listens any more: the signal to stop is on its way.
            while line:
                line = line[os.write(channel, line) :]

    from papd.runs.sweeps import jobs
    from papd.runs.train import Stop

    tell({"event": "ready"})
    program = None
    for line in sys.stdin:
        job = json.loads(line)
        if program not in (None, job["program"]):
            jobs.forget_programs()
        program = job["program"]
        jobs.do(job, tell, Stop())
        tell({"event": "idle"})


def pin(core: str) -> None:
    """Keep this process and all of its threads on one core."""
    if core != "-" and sys.platform == "linux":
        os.sched_setaffinity(0, {int(core)})


def _end_with(parent: int) -> None:
    """Get SIGTERM when the parent dies, whichever way: a run then saves its state."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    main()
