"""Environments stepped outside JAX: several in each worker process, one synchronisation a step, or a whole stretch.

:class:`HostEnv` describes an environment, :class:`HostVector` steps ``num_envs`` of it. A worker that dies, hangs or
raises is replaced, and the episodes it was in begin again from their seeds; the log (standard error, where nobody set
it up otherwise) shows it at once and ``drain_faults`` tells what happened.
"""

import itertools
import logging
import os
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Integer

from papd.envs.cmdp import Box, Discrete, Space
from papd.envs.crews import Crew, CrewError, FaultKind, LocalCrew, SharedMemory, WorkerCrew
from papd.envs.playing import PlaySizes, Track
from papd.envs.sources import Source
from papd.envs.stepping import PLAY, RESET, STEP, Batch, Sizes, Stepper, memory_needed
from papd.errors import ConfigError, EnvironmentFault

LOG = logging.getLogger(__name__)

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

    def start(
        self, num_envs: int, *, workers: int | None = None, play: PlaySizes | None = None
    ) -> "HostVector":
        """Build ``num_envs`` environments in ``workers`` processes; with ``play`` these can play by themselves.

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
        return HostVector(self, num_envs, self._count_workers(num_envs, workers), play)

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


class HostVector:
    """``num_envs`` environments, stepped together. Use it from one thread, and close it (or use ``with``)."""

    def __init__(self, env: HostEnv, num_envs: int, workers: int, play: PlaySizes | None = None):
        action = env.action_space
        width = None if isinstance(action, Discrete) else len(action.low)
        observation, constraints = len(env.observation_space.low), len(env.cost_names)
        sizes = Sizes(num_envs, observation, width, constraints, max(1, workers), play)
        self.env, self.num_envs = env, num_envs
        self._crews: list[Crew] = []
        self._stop = weakref.finalize(self, _stop_all, self._crews)
        self._batch = self._hire(sizes, workers)
        self._active = np.zeros(num_envs, bool)
        self._restarted = np.zeros(num_envs, bool)
        self._in_a_row = np.zeros(num_envs, int)
        self._faults: list[Fault] = []

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
        batch = self._batch
        wanted = self._check_mask(mask)
        if (wanted & ~self._active).any():
            index = int(np.argmax(wanted & ~self._active))
            raise ConfigError(f"the episode of environment {index} is over: reset it before it is stepped")
        self._write_actions(actions, wanted)
        restarted = self._restarted.copy()
        self._restarted[:] = False
        wanted = wanted & ~restarted
        restarted |= self._exchange(STEP, wanted)
        stepped = wanted & ~restarted
        self._check_finite(stepped)
        ended = stepped & (batch.terminated | batch.truncated)
        self._active &= ~ended
        self._in_a_row[ended] = 0
        return HostStep(
            batch.observations.copy(),
            batch.rewards.copy(),
            batch.costs.copy(),
            batch.terminated.copy(),
            batch.truncated.copy(),
            restarted,
        )

    @property
    def track(self) -> Track:
        """The stretch that :meth:`play` fills, and what it is played with: to be filled in before."""
        if self._batch.track is None:
            raise ConfigError(f"{self.env.name}: these environments were started without play=")
        return self._batch.track

    def play(self, mask: Bool[np.ndarray, " envs"]) -> Bool[np.ndarray, " envs"]:
        """Play the track from each environment's row ``track.lengths`` on, where ``mask`` is true.

        An environment stops in the track's last row or, without automatic reset, when its episode ends. After a fault
        the episodes it broke off are played again, in the same rows and with the same noise. The answer marks those of
        which a part lay in an earlier track: that part is void.
        """
        wanted = self._check_mask(mask)
        track = self.track
        first = track.lengths.copy()
        void, ends_seen = np.zeros(self.num_envs, bool), np.zeros(self.num_envs, int)
        for crew, failed in self._begin_all(PLAY, wanted):
            fault = failed or self._finish(crew)
            while fault is not None:
                void |= self._go_back(crew, fault, wanted, first, ends_seen)
                fault = self._begin(crew, PLAY) or self._finish(crew)
        self._check_track(wanted, first)
        if not track.sizes.auto_reset:
            self._active &= ~wanted
        for row in np.flatnonzero(wanted):
            if track.ended[first[row] : track.lengths[row], row].any():
                self._in_a_row[row] = 0
        return void

    def _go_back(
        self, crew: Crew, fault: CrewError, wanted: np.ndarray, first: np.ndarray, ends_seen: np.ndarray
    ) -> np.ndarray:
        """A new crew; its rows go back to where their episodes begin. Which of them began before this track."""
        track, own = self.track, slice(crew.rows.start, crew.rows.stop)
        begins = first.copy()
        for row in crew.rows:
            ends = np.flatnonzero(track.ended[first[row] : track.lengths[row], row])
            if ends.size:
                begins[row] += ends[-1] + 1
                self._active[row] = track.sizes.auto_reset
            if ends.size > ends_seen[row]:
                self._in_a_row[row] = 0
            ends_seen[row] = ends.size
        again = self._replace(crew, fault, STEP) & wanted
        track.lengths[again] = begins[again]
        self._batch.mask[own] = again[own]
        void: np.ndarray = again & (begins == first) & track.sizes.auto_reset
        return void

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

    def _write_actions(self, actions: np.ndarray, wanted: np.ndarray) -> None:
        space, given = self.env.action_space, self._batch.actions
        if actions.shape != given.shape:
            raise ConfigError(f"actions have the shape {actions.shape}; {self.env.name} needs {given.shape}")
        if isinstance(space, Discrete):
            wrong = (actions < 0) | (actions >= space.n)
            rule = f"is none of 0 to {space.n - 1}"
        else:
            wrong = ~np.isfinite(actions).all(axis=1)
            rule = "is not finite: the policy has diverged"
        if (wrong & wanted).any():
            index = int(np.argmax(wrong & wanted))
            raise EnvironmentFault(
                f"{self.env.name}: the action {actions[index].tolist()} for environment {index} {rule}"
            )
        given[:] = actions

    def _check_finite(self, rows: np.ndarray) -> None:
        batch = self._batch
        parts = {"observation": batch.observations, "reward": batch.rewards, "cost": batch.costs}
        for name, array in parts.items():
            if np.isfinite(array).all():
                continue
            wrong = rows & ~np.isfinite(array.reshape(self.num_envs, -1)).all(axis=1)
            if wrong.any():
                index = int(np.argmax(wrong))
                raise self._not_finite(name, index, array[index])

    def _check_track(self, wanted: np.ndarray, first: np.ndarray) -> None:
        track, at = self.track, np.arange(self.track.sizes.steps)[:, None]
        played = (at >= first[None, :]) & (at < track.lengths[None, :]) & wanted[None, :]
        parts = {
            "action": track.actions,
            "observation": track.next_observations,
            "reward": track.rewards,
            "cost": track.costs,
        }
        for name, array in parts.items():
            wrong = played & ~np.isfinite(array.reshape(*played.shape, -1)).all(axis=2)
            if wrong.any():
                row, index = np.argwhere(wrong)[0]
                raise self._not_finite(name, int(index), array[row, index])

    def _not_finite(self, name: str, index: int, value: Any) -> EnvironmentFault:
        if name == "action":
            return EnvironmentFault(
                f"{self.env.name}: the action {value.tolist()} for environment {index} is not finite: the policy has "
                "diverged"
            )
        return EnvironmentFault(
            f"{self.env.name}: environment {index} returned a non-finite {name} ({value.tolist()}) in step "
            f"{self._batch.elapsed[index]} of its episode, seed {self._batch.seeds[index]}"
        )

    def _exchange(self, command: bytes, wanted: np.ndarray) -> np.ndarray:
        """Have a command carried out for the rows wanted; the rows whose episode began again after a fault."""
        ended = [(crew, failed or self._finish(crew)) for crew, failed in self._begin_all(command, wanted)]
        begun_again = np.zeros(self.num_envs, bool)
        for crew, fault in ended:
            if fault is not None:
                begun_again |= self._replace(crew, fault, command)
        return begun_again

    def _begin_all(self, command: bytes, wanted: np.ndarray) -> list[tuple[Crew, CrewError | None]]:
        """Every crew that has rows wanted, and what went wrong with it at once."""
        self._batch.mask[:] = wanted
        busy = [crew for crew in self._crews if wanted[crew.rows.start : crew.rows.stop].any()]
        return [(crew, self._begin(crew, command)) for crew in busy]

    def _begin(self, crew: Crew, command: bytes) -> CrewError | None:
        """What went wrong, if anything did."""
        try:
            crew.begin(command)
        except CrewError as fault:
            return fault
        return None

    def _finish(self, crew: Crew) -> CrewError | None:
        """The same for the end of a command."""
        try:
            crew.finish()
        except CrewError as fault:
            return fault
        return None

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
