"""Environments stepped outside JAX, a batch at a time. No JAX here: a worker process imports this and starts.

A :class:`Batch` is a set of arrays over one piece of memory, which the learner and its workers share. A
:class:`Runner` resets and steps those of its rows that the mask names. Every environment has its own generator
in the place of NumPy's global one, so that what one draws is no other's business: an episode is a function of
its seed and its actions, whoever shares the process.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from gymnasium import spaces
from numpy.random import mtrand

from papd.envs.playing import Actor, Layout, PlaySizes, Track, track_layout

RESET, STEP, PLAY = b"r", b"s", b"p"
"""What a worker is told: for one moment of its rows, or for a whole stretch (:mod:`papd.envs.playing`)."""
DONE, ERROR = b"d", b"e"
"""What it answers; the words of an error follow it."""

Transition = tuple[Sequence[float] | np.ndarray, float, tuple[float, ...], bool, bool]
"""Observation, reward, costs, terminated, truncated."""

Sent = np.ndarray | np.integer[Any]
"""One row of a batch's actions: a vector, or the number of a choice."""


def in_one_line(error: BaseException) -> str:
    """The kind of an error and the first line of what it says."""
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__


@runtime_checkable
class Stepper(Protocol):
    """One environment."""

    def reset(self, seed: int) -> Sequence[float] | np.ndarray:
        """Begin the episode of this seed; NumPy's and Python's global generators have been seeded with it."""

    def step(self, action: np.ndarray) -> Transition:
        """One step, in the units of the environment's action space."""

    def close(self) -> None:
        """Let go of what it holds."""


class GymnasiumStepper:
    """A Gymnasium environment (0.28 to 1.x), or one with Safety-Gymnasium's six values.

    The cost is ``info["cost"]``, the sixth value, or one entry of ``info`` for each of ``cost_keys``, which is
    0 in a step that does not report it.
    """

    def __init__(self, env: Any, cost_keys: Sequence[str] | None = None):
        self.env = env
        self._keys = tuple(cost_keys or ("cost",))
        self._own_cost = cost_keys is None
        self._shape = env.observation_space.shape
        self._action_space = env.action_space
        self._discrete = isinstance(env.action_space, spaces.Discrete)

    def reset(self, seed: int) -> np.ndarray:
        """``env.reset(seed=seed)``."""
        observation, _ = self.env.reset(seed=seed)
        return self._checked(observation)

    def step(self, action: Sent) -> Transition:
        """``env.step``."""
        space = self._action_space
        result = self.env.step(int(action + space.start) if self._discrete else action.astype(space.dtype))
        if len(result) == 6:
            observation, reward, cost, terminated, truncated, info = result
            info = {**info, "cost": cost} if self._own_cost else info
        else:
            observation, reward, terminated, truncated, info = result
        costs = tuple(float(info.get(key, 0.0)) for key in self._keys)
        return self._checked(observation), float(reward), costs, bool(terminated), bool(truncated)

    def _checked(self, observation: Any) -> np.ndarray:
        array = np.asarray(observation)
        if array.shape != self._shape:
            raise ValueError(
                f"the observation has the shape {array.shape}, its space says {self._shape}: mend one of them"
            )
        return array

    def close(self) -> None:
        """``env.close()``."""
        self.env.close()


@dataclass(frozen=True)
class Sizes:
    """What the memory of a batch must hold."""

    environments: int
    observation: int
    action: int | None
    """Numbers in an action; None for a discrete one."""
    constraints: int
    workers: int
    play: PlaySizes | None = None
    """Of the stretches that workers play by themselves, if they do."""


def sizes_from(description: dict[str, Any]) -> Sizes:
    """The inverse of ``dataclasses.asdict``, after a trip through JSON."""
    play: dict[str, Any] | None = description["play"]
    if play is not None:
        tuples = {name: tuple(value) for name, value in play.items() if isinstance(value, list)}
        description = {**description, "play": PlaySizes(**{**play, **tuples})}
    return Sizes(**description)


class Batch:
    """The arrays of a batch over one piece of memory, one row an environment."""

    actions: np.ndarray
    observations: np.ndarray
    rewards: np.ndarray
    costs: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    seeds: np.ndarray
    elapsed: np.ndarray
    """Steps done in the current episode."""
    mask: np.ndarray
    """The rows that the next command is for."""
    progress: np.ndarray
    """The row that each worker is busy with."""
    beats: np.ndarray
    """The steps and resets that each worker has begun."""
    track: Track | None
    """The stretch that workers play by themselves."""

    def __init__(self, sizes: Sizes, memory: Any):
        own, offset = _place(_layout(sizes), memory, 0)
        for name, array in own.items():
            setattr(self, name, array)
        track = _place(_track_layout(sizes), memory, offset)[0]
        self.track = None if sizes.play is None else Track(sizes.play, track)


def _layout(sizes: Sizes) -> Layout:
    rows = (sizes.environments,)
    return {
        "actions": (np.int64, rows) if sizes.action is None else (np.float32, (*rows, sizes.action)),
        "observations": (np.float32, (*rows, sizes.observation)),
        "rewards": (np.float32, rows),
        "costs": (np.float32, (*rows, sizes.constraints)),
        "terminated": (np.bool_, rows),
        "truncated": (np.bool_, rows),
        "seeds": (np.int64, rows),
        "elapsed": (np.int64, rows),
        "mask": (np.bool_, rows),
        "progress": (np.int64, (sizes.workers,)),
        "beats": (np.int64, (sizes.workers,)),
    }


def _track_layout(sizes: Sizes) -> Layout:
    return {} if sizes.play is None else track_layout(sizes.play, sizes.environments, sizes.constraints)


def _place(layout: Layout, memory: Any, offset: int) -> tuple[dict[str, np.ndarray], int]:
    """The arrays of a layout from an offset on, and where they end; every array begins on its own cache line."""
    arrays = {}
    for name, (kind, shape) in layout.items():
        arrays[name] = np.frombuffer(memory, kind, int(np.prod(shape)), offset).reshape(shape)
        offset += _bytes(kind, shape)
    return arrays, offset


def _bytes(kind: Any, shape: tuple[int, ...]) -> int:
    size: int = int(np.prod(shape)) * np.dtype(kind).itemsize
    return -(-size // 64) * 64


def memory_needed(sizes: Sizes) -> int:
    """Bytes of a batch."""
    layouts = (*_layout(sizes).values(), *_track_layout(sizes).values())
    return sum(_bytes(kind, shape) for kind, shape in layouts)


class Runner:
    """Steps the environments of some rows of a batch, one after the other."""

    def __init__(
        self, steppers: Sequence[Stepper], batch: Batch, first_row: int, worker: int, max_episode_steps: int
    ):
        self._steppers = tuple(steppers)
        self._batch, self._worker, self._limit = batch, worker, max_episode_steps
        self._rows = range(first_row, first_row + len(self._steppers))
        self._generators = [np.random.MT19937(0) for _ in self._steppers]

    def run(self, command: bytes) -> None:
        """Carry out a command for the rows in the mask."""
        keep = mtrand.get_bit_generator()
        try:
            if command == PLAY:
                self._play()
            else:
                act = self._reset if command == RESET else self._step
                for row, stepper in self._wanted():
                    act(row, stepper)
        finally:
            mtrand.set_bit_generator(keep)

    def _wanted(self) -> Iterator[tuple[int, Stepper]]:
        """The rows in the mask, each with its own generator in the place of NumPy's."""
        batch, worker = self._batch, self._worker
        wanted = batch.mask[self._rows.start : self._rows.stop].tolist()
        for row, stepper, generator, is_wanted in zip(
            self._rows, self._steppers, self._generators, wanted, strict=True
        ):
            if is_wanted:
                batch.progress[worker] = row
                batch.beats[worker] += 1
                mtrand.set_bit_generator(generator)
                yield row, stepper

    def _play(self) -> None:
        """Step the rows by the track's policy, each to the track's end or, without automatic reset, its episode's.

        A row leaves the mask when it is done. A number that is none ends the stretch for all rows at once.
        """
        batch, track, rows = self._batch, self._batch.track, self._rows
        assert track is not None
        own = slice(rows.start, rows.stop)
        actor, wanted, seen = Actor(track, rows), batch.mask[own], batch.observations[own]
        while wanted.any():
            actions, sent = actor.act(batch.observations)
            live = np.flatnonzero(wanted)
            track.actions[track.lengths[own][live], live + rows.start] = actions[live]
            if not np.isfinite(sent[live]).all():
                track.lengths[live + rows.start] += 1  # Not sent, but to be seen.
                return
            numbers = [
                self._play_step(track, row, stepper, sent[row - rows.start])
                for row, stepper in self._wanted()
            ]
            if not (all(numbers) and np.isfinite(seen).all()):
                return

    def _play_step(self, track: Track, row: int, stepper: Stepper, sent: Any) -> bool:
        """One step of one row; whether its reward and costs are numbers."""
        batch, at = self._batch, int(track.lengths[row])
        track.observations[at, row] = batch.observations[row]
        observation, reward, costs, terminated, truncated = stepper.step(sent)
        elapsed = int(batch.elapsed[row]) + 1
        ended = terminated or truncated or elapsed >= self._limit
        batch.elapsed[row] = elapsed
        batch.observations[row] = track.next_observations[at, row] = observation
        track.rewards[at, row] = reward
        track.costs[at, row] = costs
        track.terminated[at, row] = terminated
        track.ended[at, row] = ended
        track.lengths[row] = at + 1
        if not math.isfinite(reward + sum(costs)):
            return False
        if ended and track.sizes.auto_reset:
            batch.seeds[row] = track.next_seeds[at, row]
            batch.elapsed[row] = -1  # A fault in the reset is one in step 0.
            self._reset(row, stepper)
        if (ended and not track.sizes.auto_reset) or at + 1 >= track.sizes.steps:
            batch.mask[row] = False
        return True

    def _reset(self, row: int, stepper: Stepper) -> None:
        batch = self._batch
        seed = int(batch.seeds[row])
        np.random.seed(seed)
        random.seed(seed)
        batch.observations[row] = stepper.reset(seed)
        batch.elapsed[row] = 0

    def _step(self, row: int, stepper: Stepper) -> None:
        batch = self._batch
        # A copy: an environment may keep the action, the memory will hold the next one.
        observation, reward, costs, terminated, truncated = stepper.step(batch.actions[row].copy())
        elapsed = batch.elapsed[row] + 1
        batch.observations[row] = observation
        batch.rewards[row] = reward
        batch.costs[row] = costs
        batch.terminated[row] = terminated
        batch.truncated[row] = truncated or elapsed >= self._limit
        batch.elapsed[row] = elapsed

    def close(self) -> None:
        """Close the environments."""
        for stepper in self._steppers:
            stepper.close()
