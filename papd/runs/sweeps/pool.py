"""The local engine: worker processes, one a core, that take jobs from one queue until it is empty.

A worker that dies is replaced; its run goes on from its checkpoint, once. Ctrl-C and SIGTERM are passed on, so that
every run saves its state; a second one ends the workers at once.
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from papd.envs.crews import worker_environment
from papd.errors import RunError

Job = dict[str, Any]
Event = dict[str, Any]
Watch = Callable[[Event], None]

ATTEMPTS = 2
"""How often a run is begun that takes its worker with it."""

LOOK_EVERY_SECONDS = 0.2


@runtime_checkable
class Workforce(Protocol):
    """Somebody who does jobs, ``size`` at a time."""

    @property
    def size(self) -> int:
        """How many jobs are done at a time, at most."""

    def run(self, jobs: Sequence[Job], watch: Watch, stopped: Callable[[], int | None]) -> None:
        """Do all jobs; ``watch`` is told what happens, and an idle event now and then.

        When ``stopped`` answers a signal, the running jobs are stopped and no new one is begun.
        """


ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"
"""What XLA is told beside the pinning."""


class Places:
    """Where workers run: the name of a core, or ``-`` for anywhere, and the variables that they get."""

    def __init__(self, cores: Sequence[str], variables: Mapping[str, str]):
        self.cores, self.variables = tuple(cores), dict(variables)


def one_a_core(count: int | None = None) -> Places:
    """Single-threaded workers on the CPU, one for each core that this process may use, or ``count``."""
    cores = [str(core) for core in _cores()]
    number = count or len(cores)
    flags = f"{os.environ.get('XLA_FLAGS', '')} {ONE_THREAD}".strip()
    return Places(
        [cores[i % len(cores)] for i in range(number)], {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    )


def anywhere() -> Places:
    """One worker that has the whole machine, its accelerator too."""
    return Places(["-"], {})


def _cores() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else list(range(os.cpu_count() or 1))


class Worker:
    """One process of :mod:`papd.runs.sweeps.worker`, and the job that it is at."""

    def __init__(self, number: int, core: str, variables: Mapping[str, str], logs: Path):
        self.job: Job | None = None
        self.open_runs: set[str] = set()
        self.is_ready = False
        self._log = logs / f"worker-{number}.log"
        self._buffer = b""
        logs.mkdir(parents=True, exist_ok=True)
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "papd.runs.sweeps.worker", core],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**worker_environment(), **variables},
                start_new_session=True,  # The terminal's Ctrl-C is the parent's to pass on.
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout

    def fileno(self) -> int:
        """What a selector waits for."""
        return self._output.fileno()

    def give(self, job: Job) -> None:
        """Let it begin a job."""
        self.job, self.open_runs = job, set(job["runs"])
        with contextlib.suppress(BrokenPipeError):  # Its end will be seen on the other pipe.
            self._input.write(json.dumps(job).encode() + b"\n")
            self._input.flush()

    def read(self) -> list[Event] | None:
        """What it has told since; None when it has ended."""
        data = os.read(self._output.fileno(), 1 << 16)
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        return [json.loads(line) for line in lines] if data else None

    def dismiss(self) -> None:
        """No more jobs: it ends by itself."""
        with contextlib.suppress(BrokenPipeError):
            self._input.close()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def last_words(self) -> str:
        """Why it ended, in one line."""
        status = self._process.wait()
        if status < 0:
            return f"its worker was ended by {signal.Signals(-status).name}"
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return f"its worker ended with status {status}" + (f": {lines[-1].strip()[:300]}" if lines else "")

    def end(self) -> None:
        """Gone, with its pipes and an empty log."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self.dismiss()
        self._output.close()
        if self._log.exists() and not self._log.stat().st_size:
            self._log.unlink()


class Pool:
    """Workers over a queue of jobs."""

    def __init__(self, places: Places, logs: Path):
        self._places, self._logs = places, logs
        self._workers: dict[int, Worker] = {}
        self._selector = selectors.DefaultSelector()

    @property
    def size(self) -> int:
        """How many workers there are at most."""
        return len(self._places.cores)

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        for number in list(self._workers):
            self._end(number)
        self._selector.close()
        with contextlib.suppress(OSError):  # What workers printed stays.
            self._logs.rmdir()

    def run(self, jobs: Sequence[Job], watch: Watch, stopped: Callable[[], int | None]) -> None:
        """Do all jobs, as :class:`Workforce` says."""
        queue = deque({**job, "attempt": 1} for job in jobs)
        asked = False
        while queue or self._busy():
            if stopped() is not None:
                queue.clear()
                asked = asked or self._stop_all()
            self._hand_out(queue)
            for worker_number, event in self._listen():
                self._take(worker_number, event, queue, watch, stopping=asked)
            watch({"event": "tick"})

    def _busy(self) -> list[Worker]:
        return [worker for worker in self._workers.values() if worker.job is not None]

    def _stop_all(self) -> bool:
        for worker in self._busy():
            worker.signal(signal.SIGTERM)
        return True

    def _hand_out(self, queue: deque[Job]) -> None:
        for number, core in enumerate(self._places.cores):
            if not queue:
                return
            if number not in self._workers:
                worker = Worker(number, core, self._places.variables, self._logs)
                self._workers[number] = worker
                self._selector.register(worker, selectors.EVENT_READ, number)
            if self._workers[number].job is None:
                self._workers[number].give(queue.popleft())

    def _listen(self) -> Iterator[tuple[int, Event]]:
        for key, _ in self._selector.select(LOOK_EVERY_SECONDS):
            told = self._workers[key.data].read()
            for event in [{"event": "gone"}] if told is None else told:
                yield key.data, event

    def _take(self, number: int, event: Event, queue: deque[Job], watch: Watch, *, stopping: bool) -> None:
        worker = self._workers[number]
        if event["event"] == "ready":
            worker.is_ready = True
        elif event["event"] == "idle":
            worker.job = None
        elif event["event"] == "gone":
            self._bury(number, queue, watch, stopping=stopping)
        else:
            if event["event"] == "ended":
                worker.open_runs.discard(event["run"])
            watch({**event, "worker": number})

    def _bury(self, number: int, queue: deque[Job], watch: Watch, *, stopping: bool) -> None:
        """A worker has ended. Was it in the middle of something?"""
        worker = self._workers[number]
        job, reason = worker.job, worker.last_words()
        self._end(number)
        if not worker.is_ready and not stopping:
            raise RunError(
                f"no worker can be started: {reason.removeprefix('its worker ')}; see {self._logs}"
            )
        if job is None:
            return
        if not stopping and job["attempt"] < ATTEMPTS:
            watch(
                {"event": "note", "text": f"{', '.join(job['runs'])}: {reason}; going on from the checkpoint"}
            )
            queue.appendleft({**job, "attempt": job["attempt"] + 1})
            return
        ended = {"status": "interrupted"} if stopping else {"status": "failed", "reason": f"{reason}, twice"}
        for run in sorted(worker.open_runs):
            watch({"event": "ended", "run": run, **ended, "worker": number})

    def _end(self, number: int) -> None:
        worker = self._workers.pop(number)
        self._selector.unregister(worker)
        worker.end()


def ask(force: Workforce, jobs: Sequence[Job]) -> dict[str, Event]:
    """The answers of short jobs by their runs' names."""
    answers: dict[str, Event] = {}

    def watch(event: Event) -> None:
        if event["event"] == "ended":
            answers[event["run"]] = event

    force.run(jobs, watch, lambda: None)
    return answers
