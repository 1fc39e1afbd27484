"""Who steps the rows of a batch: a worker process, or this process. A crew can be replaced when it fails."""

import contextlib
import dataclasses
import json
import mmap
import os
import select
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Literal, Protocol, runtime_checkable

from papd.envs.sources import Source
from papd.envs.stepping import DONE, Batch, Runner, Sizes, Stepper, in_one_line

FaultKind = Literal["died", "hung", "raised"]

BUILD_SECONDS = 120.0
"""How long one environment may take to be built, at least: it may import a simulator first."""

SLICES = 10
"""Parts in which a time limit is waited for."""

CLOSE_SECONDS = 2.0
"""How long a worker may take to close its environments."""


class CrewError(Exception):
    """A crew failed; it must be replaced before it is used again."""

    def __init__(self, kind: FaultKind, message: str):
        super().__init__(message)
        self.kind: FaultKind = kind
        self.message = message


@runtime_checkable
class Crew(Protocol):
    """Steps ``rows`` of a batch. A command is begun, then finished; both raise :class:`CrewError`."""

    rows: range
    worker: int

    def start(self) -> None:
        """Begin to build the environments."""

    def ready(self) -> None:
        """Wait until they are built."""

    def begin(self, command: bytes) -> None:
        """Send a command for the rows in the batch's mask."""

    def finish(self) -> None:
        """Wait until it is carried out."""

    def hang_up(self) -> None:
        """Begin to close."""

    def close(self) -> None:
        """Close the environments."""

    def stop(self) -> None:
        """End at once, whatever it does."""


class SharedMemory:
    """A piece of memory that processes share by its descriptor: it has no name, so nothing is left behind."""

    def __init__(self, size: int):
        if sys.platform == "linux":
            self.descriptor = os.memfd_create("papd")
        else:
            with tempfile.TemporaryFile() as file:
                self.descriptor = os.dup(file.fileno())
        os.ftruncate(self.descriptor, size)
        self.map = mmap.mmap(self.descriptor, size)

    def close(self) -> None:
        """Close the descriptor; the mapping lives as long as its arrays."""
        os.close(self.descriptor)


class WorkerCrew:
    """A process of ``papd.envs.workers``: pipes for commands and answers, everything else in shared memory."""

    def __init__(
        self,
        source: Source,
        sizes: Sizes,
        memory: SharedMemory,
        rows: range,
        worker: int,
        max_episode_steps: int,
        time_limit: int | float,
    ):
        self.rows, self.worker = rows, worker
        self._memory, self._time_limit = memory, time_limit
        self._beats = Batch(sizes, memory.map).beats
        self._order = {
            "source": source.describe(),
            "sizes": dataclasses.asdict(sizes),
            "first": rows.start,
            "count": len(rows),
            "worker": worker,
            "max_episode_steps": max_episode_steps,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._commands = self._replies = self._lifeline = -1
        self._awaited = False

    def start(self) -> None:
        """Start the interpreter; ``sys.path`` goes along, so that it finds what this process finds."""
        theirs_in, self._commands = os.pipe()
        self._replies, theirs_out = os.pipe()
        theirs_life, self._lifeline = os.pipe()
        given = (theirs_in, theirs_out, theirs_life, self._memory.descriptor)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "papd.envs.workers", *map(str, given)],
                pass_fds=given,
                stdin=subprocess.DEVNULL,
                env=worker_environment(),
            )
        finally:
            for descriptor in given[:3]:
                os.close(descriptor)
        self._poll = select.poll()
        self._poll.register(self._replies, select.POLLIN)
        order = json.dumps(self._order).encode()
        self._write(struct.pack("<q", len(order)) + order)

    def ready(self) -> None:
        """Wait until the environments are built."""
        self._answer(max(self._time_limit, BUILD_SECONDS))

    def begin(self, command: bytes) -> None:
        """One byte on the pipe."""
        if self._awaited:  # The last command was interrupted here, by Ctrl-C say; its answer is of no use.
            self.finish()
        self._write(command)

    def finish(self) -> None:
        """Wait for one byte on the other pipe."""
        self._answer(self._time_limit)

    def _write(self, data: bytes) -> None:
        self._awaited = True
        with contextlib.suppress(BrokenPipeError):  # The answer will tell that it died.
            os.write(self._commands, data)

    def _answer(self, limit: float) -> None:
        self._wait(limit)
        answer = os.read(self._replies, select.PIPE_BUF)
        if answer == DONE:
            self._awaited = False
        elif answer:
            raise CrewError("raised", answer[1:].decode(errors="replace"))
        else:
            raise CrewError("died", self._last_words())

    def _wait(self, limit: float) -> None:
        """The limit is for one environment: as long as the worker gets on to the next one, it has not hung.

        It is waited for in slices: one that passed while this process was stopped (Ctrl-Z) is one slice, not the limit.
        """
        beats, slices = None, 0
        while slices < SLICES:
            if beats != self._beats[self.worker]:
                beats, slices = int(self._beats[self.worker]), 0
            if self._poll.poll(limit * 1000 / SLICES):
                return
            slices += 1
        raise CrewError("hung", f"no answer within {limit:g} s")

    def _last_words(self) -> str:
        assert self._process is not None
        try:
            code = self._process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            return "its worker closed its pipe"
        if code < 0:
            return f"its worker was ended by {signal.Signals(-code).name}"
        return f"its worker exited with {code}"

    def hang_up(self) -> None:
        """The end of the commands: the worker closes its environments and exits."""
        if self._commands >= 0:
            os.close(self._commands)
        self._commands = -1

    def close(self) -> None:
        """Hang up and wait; kill a worker that takes its time."""
        self.hang_up()
        if self._process is None:
            return
        try:
            self._process.wait(timeout=CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process, self._awaited = None, False
        os.close(self._replies)
        os.close(self._lifeline)

    def stop(self) -> None:
        """Kill the process."""
        if self._process is not None:
            self._process.kill()
        self.close()


class LocalCrew:
    """Steps its rows in this process, for environments that no other process can build, or a single one."""

    def __init__(self, build: Callable[[], Stepper], batch: Batch, rows: range, max_episode_steps: int):
        self.rows, self.worker = rows, 0
        self._build, self._batch, self._limit = build, batch, max_episode_steps
        self._runner: Runner | None = None
        self._command = b""

    def start(self) -> None:
        """Nothing runs beside us."""

    def ready(self) -> None:
        """Build the environments."""
        try:
            steppers = [self._build() for _ in self.rows]
        except Exception as error:  # A stranger's environment may raise anything.
            raise CrewError("raised", in_one_line(error)) from error
        self._runner = Runner(steppers, self._batch, self.rows.start, self.worker, self._limit)

    def begin(self, command: bytes) -> None:
        """Keep the command for :meth:`finish`."""
        self._command = command

    def finish(self) -> None:
        """Carry it out."""
        assert self._runner is not None
        try:
            self._runner.run(self._command)
        except Exception as error:  # A stranger's environment may raise anything.
            raise CrewError("raised", in_one_line(error)) from error

    def hang_up(self) -> None:
        """No one listens."""

    def close(self) -> None:
        """Close the environments."""
        if self._runner is not None:
            self._runner.close()
        self._runner = None

    def stop(self) -> None:
        """The same."""
        self.close()


def worker_environment() -> dict[str, str]:
    """Modules are found where this process finds them; one thread each, for every core has its worker."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return {**threads, **os.environ, "PYTHONPATH": path}
