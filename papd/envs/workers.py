"""A worker process: ``python -m papd.envs.workers`` builds some environments and steps them when it is told to.

It imports neither JAX nor what needs it. It reads one byte for each command (see ``papd.envs.stepping``) and answers
with one byte when its rows of the shared batch are done, or with the error that an environment raised. It never
outlives the process that started it: a pipe's other end closes with that process, whichever way it dies.
"""

import contextlib
import fcntl
import json
import mmap
import os
import select
import signal
import struct
import sys
import warnings
from typing import Any

from papd.envs.sources import from_description
from papd.envs.stepping import DONE, ERROR, Batch, Runner, in_one_line, sizes_from


def main() -> None:
    """Build, then serve until the command pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle.
    commands, replies, lifeline, memory = map(int, sys.argv[1:])
    _die_with(lifeline)
    os.dup2(2, 1)  # Standard output belongs to the command that the user ran.
    order = json.loads(_read_exactly(commands, struct.unpack("<q", _read_exactly(commands, 8))[0]))
    runner: Runner | None = None
    try:
        runner = _build(order, memory)
        os.write(replies, DONE)
        while command := os.read(commands, 1):
            runner.run(command)
            os.write(replies, DONE)
    except BrokenPipeError:
        return
    except BaseException as error:  # A stranger's environment: whatever it raises is told to the parent.
        _tell(replies, error)
    finally:
        if runner is not None:
            runner.close()


def _build(order: dict[str, Any], memory: int) -> Runner:
    warnings.simplefilter("ignore")  # The parent has shown them; a copy from each worker is noise.
    batch = Batch(sizes_from(order["sizes"]), mmap.mmap(memory, 0))
    source, first, worker = from_description(order["source"]), order["first"], order["worker"]
    steppers = []
    for row in range(first, first + order["count"]):
        batch.progress[worker] = row
        steppers.append(source.build())
    return Runner(steppers, batch, first, worker, order["max_episode_steps"])


def _die_with(lifeline: int) -> None:
    """Let the kernel end this process (SIGIO's default) when the other end of the pipe is gone, even amid C code."""
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    gone = select.poll()
    gone.register(lifeline, select.POLLIN)
    if gone.poll(0):  # It went before we listened.
        os._exit(1)


def _read_exactly(descriptor: int, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = os.read(descriptor, count - len(data))
        if not part:
            os._exit(0)
        data += part
    return data


def _tell(replies: int, error: BaseException) -> None:
    message = in_one_line(error).encode()[:4000]
    with contextlib.suppress(BrokenPipeError):
        os.write(replies, ERROR + message)


if __name__ == "__main__":
    main()
