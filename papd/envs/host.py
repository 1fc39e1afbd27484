"""Environments stepped outside JAX: several in each worker process, one synchronisation a step of its batch.

:class:`HostEnv` describes an environment, :class:`HostVector` steps ``num_envs`` of it. A worker that dies, hangs or
raises is replaced, and the episodes it was in begin again from their seeds; the log (standard error, where nobody set
it up otherwise) shows it at once and ``drain_faults`` tells what happened.
"""

import itertools
import logging
import os
import select
import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Integer

from papd.envs.cmdp import Box, Discrete, Space
from papd.envs.crews import Crew, CrewError, FaultKind, LocalCrew, SharedMemory, WorkerCrew
from papd.envs.sources import Source
from papd.envs.stepping import RESET, STEP, Batch, Sizes, Stepper, memory_needed
from papd.errors import ConfigError, EnvironmentFault

LOG = logging.getLogger(__name__)

PATIENCE = 1.0
"""Seconds without any answer after which one worker is waited for, so that its time limit counts."""

LONGEST_STEP = 1_000_000
"""Seconds; a step that may take longer has no limit to speak of."""


@dataclass(frozen=True)
class Fault:
    """What went wrong: environment ``index``, in ``worker``, in step ``step`` of its episode (0 is its reset)."""

    env: str
    index: int
    worker: int
    kind: FaultKind
    message: str
    step: int

    def __str__(self) -> str:
        where = f"in step {self.step} of its episode" if self.step else "while it was reset"
        return f"{self.env}: environment {self.index} {self.kind} {where} ({self.message})"


class HostStep(NamedTuple):
    """One step of every environment in the mask. The rows of the others hold what they held.

    ``restarted`` marks environments whose episode has begun again from its seed after a fault: their observation is
    the first of that episode, their reward and cost are 0, and what was collected of the episode is void.
    """

    observation: Float32[np.ndarray, "envs observation"]
    reward: Float32[np.ndarray, " envs"]
    cost: Float32[np.ndarray, "envs constraints"]
    terminated: Bool[np.ndarray, " envs"]
    truncated: Bool[np.ndarray, " envs"]
    restarted: Bool[np.ndarray, " envs"]


@dataclass(frozen=True)
class HostEnv:
    """Any Gymnasium environment, described: cheap to hold, started by :meth:`start`. ``papd.make`` makes it."""

    name: str
    observation_space: Box
    action_space: Space
    cost_names: tuple[str, ...]
    max_episode_steps: int
    source: Source | Callable[[], Stepper] = field(repr=False)
    """How one is built: by any process, or only here (a function)."""
    only_one: bool = False
    """It is one object, of which there is no second."""
    time_limit: int | float = 60.0
    """Seconds that one environment may take for a step or a reset, before its worker counts as hung."""
    max_faults: int = 5
    """Faults in a row, of one environment, after which an :class:`EnvironmentFault` is raised."""
    recipe: dict[str, Any] | None = field(default=None, repr=False)
    """The arguments of ``papd.make`` that give this environment again (JSON values); None where there are none."""

    def __post_init__(self) -> None:
        if not 0 < self.time_limit <= LONGEST_STEP:
            raise ConfigError(
                f"time_limit={self.time_limit}: the seconds for a step must be > 0 and at most {LONGEST_STEP:,}"
            )
        if self.max_faults < 0:
            raise ConfigError(f"max_faults={self.max_faults}: must be >= 0 (0: the first fault is the last)")

    def start(self, num_envs: int, *, workers: int | None = None) -> "HostVector":
        """Build ``num_envs`` environments in ``workers`` processes.

        By default there is one worker a core, and a single environment is stepped in this process. ``workers=0``
        steps them all here; more workers than environments are as many as environments.
        """
        if num_envs < 1:
            raise ConfigError(f"num_envs={num_envs}: at least one environment is needed")
        if self.only_one and num_envs > 1:
            raise ConfigError(
                f"{self.name} is one environment object, num_envs={num_envs}: write num_envs=1, or give its id or a "
                "function that makes it"
            )
        return HostVector(self, num_envs, self._count_workers(num_envs, workers))

    def _count_workers(self, num_envs: int, workers: int | None) -> int:
        if workers is None:
            alone = num_envs == 1 or not isinstance(self.source, Source)
            return 0 if alone else min(num_envs, available_cores())
        if workers < 0:
            raise ConfigError(f"workers={workers}: must be >= 0 (0: step in this process)")
        if workers > 0 and not isinstance(self.source, Source):
            raise ConfigError(
                f"{self.name} cannot be built in another process: write workers=0, or give an id or "
                '"package.module:factory" instead of an object'
            )
        return min(num_envs, workers)


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _stop_all(crews: list[Crew]) -> None:
    for crew in crews:
        crew.stop()


class _Sent(NamedTuple):
    """A step that a share's rows are in."""

    stepped: np.ndarray
    told: np.ndarray
    """The rows that began again since their last step."""
    failed: CrewError | None
    """What went wrong at once."""
    answer: int | None
    """The descriptor to wait for; None where there is nothing to wait for."""


class HostVector:
    """``num_envs`` environments, stepped together. Use it from one thread, and close it (or use ``with``)."""

    def __init__(self, env: HostEnv, num_envs: int, workers: int):
        action = env.action_space
        width = None if isinstance(action, Discrete) else len(action.low)
        sizes = Sizes(num_envs, len(env.observation_space.low), width, len(env.cost_names), max(1, workers))
        self.env, self.num_envs = env, num_envs
        self._crews: list[Crew] = []
        self._stop = weakref.finalize(self, _stop_all, self._crews)
        self._batch = self._hire(sizes, workers)
        self.shares = [slice(crew.rows.start, crew.rows.stop) for crew in self._crews]
        """The rows of each worker (or of this process), which :meth:`send` and :meth:`receive` number."""
        self._active = np.zeros(num_envs, bool)
        self._restarted = np.zeros(num_envs, bool)
        self._in_a_row = np.zeros(num_envs, int)
        self._faults: list[Fault] = []
        self._sent: dict[int, _Sent] = {}

    def _hire(self, sizes: Sizes, workers: int) -> Batch:
        env = self.env
        if workers == 0:
            batch = Batch(sizes, bytearray(memory_needed(sizes)))
            build = env.source.build if isinstance(env.source, Source) else env.source
            self._crews.append(LocalCrew(build, batch, range(self.num_envs), env.max_episode_steps))
        else:
            assert isinstance(env.source, Source)
            memory = SharedMemory(memory_needed(sizes))
            weakref.finalize(self, memory.close)
            batch = Batch(sizes, memory.map)
            cuts = [self.num_envs * worker // workers for worker in range(workers + 1)]
            for worker, (first, end) in enumerate(itertools.pairwise(cuts)):
                rows = range(first, end)
                self._crews.append(
                    WorkerCrew(env.source, sizes, memory, rows, worker, env.max_episode_steps, env.time_limit)
                )
        for crew in self._crews:
            crew.start()
        for crew in self._crews:
            self._await_first(crew, batch)
        return batch

    def _await_first(self, crew: Crew, batch: Batch) -> None:
        try:
            crew.ready()
        except CrewError as fault:
            raise EnvironmentFault(
                f"{self.env.name} cannot be built in a worker: {fault.kind} ({fault.message})"
            ) from fault

    def reset(
        self, seeds: Integer[np.ndarray, " envs"], mask: Bool[np.ndarray, " envs"] | None = None
    ) -> Float32[np.ndarray, "envs observation"]:
        """Begin the episodes of these seeds (0 to 2**32 - 1) where ``mask`` is true; the observations of all."""
        wanted = self._check_mask(mask)
        if not ((seeds[wanted] >= 0) & (seeds[wanted] < 2**32)).all():
            raise ConfigError("seeds must be whole numbers from 0 to 2**32 - 1")
        self._batch.seeds[wanted] = seeds[wanted]
        self._active |= wanted
        self._restarted &= ~wanted
        begun_again = self._exchange(RESET, wanted)
        self._restarted |= begun_again & ~wanted
        self._check_finite(wanted)
        return self._batch.observations.copy()

    def step(
        self,
        actions: Float32[np.ndarray, "envs action"] | Integer[np.ndarray, " envs"],
        mask: Bool[np.ndarray, " envs"] | None = None,
    ) -> HostStep:
        """Step the environments where ``mask`` is true (all by default). An ended episode waits for its reset."""
        wanted = self._check_mask(mask)
        self._check_actions(actions, slice(0, self.num_envs), wanted)
        busy = [share for share, rows in enumerate(self.shares) if wanted[rows].any()]
        for share in busy:
            rows = self.shares[share]
            self._send(share, actions[rows], wanted[rows])
        restarted = np.zeros(self.num_envs, bool)
        for share in busy:
            restarted[self.shares[share]] = self._finish(share)
        return self._seen(slice(0, self.num_envs), restarted)

    def send(
        self,
        share: int,
        actions: Float32[np.ndarray, "rows action"] | Integer[np.ndarray, " rows"],
        mask: Bool[np.ndarray, " rows"],
    ) -> None:
        """Begin a step of one share's rows, where ``mask`` is true; :meth:`receive` ends it. Others go on meanwhile."""
        self._check_actions(actions, self.shares[share], mask)
        self._send(share, actions, mask)

    def first_done(self, shares: Sequence[int]) -> int:
        """Of these shares, which have been sent a step, one that has done it (or must be waited for)."""
        poll, waiting = select.poll(), {}
        for share in shares:
            answer = self._sent[share].answer
            if answer is None:
                return share
            poll.register(answer, select.POLLIN)
            waiting[answer] = share
        done = poll.poll(PATIENCE * 1000)
        return waiting[done[0][0]] if done else shares[0]

    def receive(self, share: int) -> HostStep:
        """What the step that was sent to a share has brought: the share's rows."""
        return self._seen(self.shares[share], self._finish(share))

    def _check_actions(self, actions: np.ndarray, rows: slice, wanted: np.ndarray) -> None:
        over = wanted & ~self._active[rows]
        if over.any():
            index = rows.start + int(np.argmax(over))
            raise ConfigError(f"the episode of environment {index} is over: reset it before it is stepped")
        space, needed = self.env.action_space, self._batch.actions[rows].shape
        if actions.shape != needed:
            raise ConfigError(f"actions have the shape {actions.shape}; {self.env.name} needs {needed}")
        if isinstance(space, Discrete):
            wrong = (actions < 0) | (actions >= space.n)
            rule = f"is none of 0 to {space.n - 1}"
        else:
            wrong = ~np.isfinite(actions).all(axis=1)
            rule = "is not finite: the policy has diverged"
        if (wrong & wanted).any():
            index = int(np.argmax(wrong & wanted))
            raise EnvironmentFault(
                f"{self.env.name}: the action {actions[index].tolist()} for environment {rows.start + index} {rule}"
            )

    def _send(self, share: int, actions: np.ndarray, wanted: np.ndarray) -> None:
        """Rows whose episode has begun again since their last step are told so instead of stepped."""
        crew, rows = self._crews[share], self.shares[share]
        told = self._restarted[rows] & wanted
        self._restarted[rows] &= ~wanted
        self._batch.actions[rows] = actions
        self._batch.mask[rows] = stepped = wanted & ~told
        failed = self._begin(crew, STEP) if stepped.any() else None
        answer = crew.answers_on() if stepped.any() and failed is None else None
        self._sent[share] = _Sent(stepped, told, failed, answer)

    def _finish(self, share: int) -> np.ndarray:
        """The rows of a share whose episode began again instead of a step."""
        rows, sent, batch = self.shares[share], self._sent.pop(share), self._batch
        restarted = sent.told
        if sent.stepped.any():
            restarted = restarted | self._end(self._crews[share], STEP, sent.failed)[rows]
        stepped = np.zeros(self.num_envs, bool)
        stepped[rows] = sent.stepped & ~restarted
        self._check_finite(stepped)
        ended = stepped & (batch.terminated | batch.truncated)
        self._active &= ~ended
        self._in_a_row[ended] = 0
        return restarted

    def _seen(self, rows: slice, restarted: np.ndarray) -> HostStep:
        batch = self._batch
        return HostStep(
            batch.observations[rows].copy(),
            batch.rewards[rows].copy(),
            batch.costs[rows].copy(),
            batch.terminated[rows].copy(),
            batch.truncated[rows].copy(),
            restarted,
        )

    def drain_faults(self) -> list[Fault]:
        """The faults since the last call."""
        faults, self._faults = self._faults, []
        return faults

    def close(self) -> None:
        """Close the environments and end the workers."""
        self._stop.detach()
        for crew in self._crews:
            crew.hang_up()
        while self._crews:
            self._crews.pop().close()

    def __enter__(self) -> "HostVector":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_mask(self, mask: np.ndarray | None) -> np.ndarray:
        if not self._crews:
            raise ConfigError(f"{self.env.name}: these environments are closed; start others")
        return np.ones(self.num_envs, bool) if mask is None else mask

    def _check_finite(self, rows: np.ndarray) -> None:
        batch = self._batch
        parts = {"observation": batch.observations, "reward": batch.rewards, "cost": batch.costs}
        for name, array in parts.items():
            if np.isfinite(array).all():
                continue
            wrong = rows & ~np.isfinite(array.reshape(self.num_envs, -1)).all(axis=1)
            if wrong.any():
                index = int(np.argmax(wrong))
                raise EnvironmentFault(
                    f"{self.env.name}: environment {index} returned a non-finite {name} "
                    f"({array[index].tolist()}) in step {batch.elapsed[index]} of its episode, "
                    f"seed {batch.seeds[index]}"
                )

    def _exchange(self, command: bytes, wanted: np.ndarray) -> np.ndarray:
        """Have a command carried out for the rows wanted; the rows whose episode began again after a fault."""
        begun = []
        for crew, rows in zip(self._crews, self.shares, strict=True):
            if wanted[rows].any():
                self._batch.mask[rows] = wanted[rows]
                begun.append((crew, self._begin(crew, command)))
        begun_again = np.zeros(self.num_envs, bool)
        for crew, failed in begun:
            begun_again |= self._end(crew, command, failed)
        return begun_again

    def _begin(self, crew: Crew, command: bytes) -> CrewError | None:
        """What went wrong already, if anything did."""
        try:
            crew.begin(command)
        except CrewError as fault:
            return fault
        return None

    def _end(self, crew: Crew, command: bytes, failed: CrewError | None) -> np.ndarray:
        """Wait until a command is carried out, if it could be begun; the rows that began again after a fault."""
        try:
            if failed is not None:
                raise failed
            crew.finish()
        except CrewError as fault:
            return self._replace(crew, fault, command)
        return np.zeros(self.num_envs, bool)

    def _replace(self, crew: Crew, fault: CrewError, command: bytes) -> np.ndarray:
        """A new crew for the same rows; their episodes begin again."""
        batch = self._batch
        rows = np.zeros(self.num_envs, bool)
        rows[crew.rows.start : crew.rows.stop] = True
        rows &= self._active
        replaced = False
        while not replaced:
            self._record(crew, fault, command)
            command = RESET
            try:
                crew.stop()
                crew.start()
                crew.ready()
                own = slice(crew.rows.start, crew.rows.stop)
                batch.mask[own] = rows[own]
                crew.begin(RESET)
                crew.finish()
                replaced = True
            except CrewError as next_fault:
                fault = next_fault
        for array in (batch.rewards, batch.costs, batch.terminated, batch.truncated):
            array[rows] = 0
        return rows

    def _record(self, crew: Crew, fault: CrewError, command: bytes) -> None:
        batch = self._batch
        busy_with = int(batch.progress[crew.worker])
        index = busy_with if busy_with in crew.rows else crew.rows.start
        step = int(batch.elapsed[index]) + 1 if command == STEP else 0
        told = Fault(self.env.name, index, crew.worker, fault.kind, fault.message, step)
        self._faults.append(told)
        self._in_a_row[index] += 1
        if self.env.only_one:
            raise EnvironmentFault(f"{told}: one object cannot be replaced, an id or a function could")
        if self._in_a_row[index] > self.env.max_faults:
            times = f"{self._in_a_row[index]} times in a row"
            raise EnvironmentFault(f"{told}, {times}: mend it, or allow more with max_faults")
        LOG.warning("%s: replaced, its episode begins again", told)
