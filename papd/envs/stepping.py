"""Environments stepped outside JAX, a batch at a time. No JAX here: a worker process imports this and starts.

A :class:`Batch` is a set of arrays over one piece of memory, which the learner and its workers share. A
:class:`Runner` resets and steps those of its rows that the mask names. Every environment has its own generator
in the place of NumPy's global one, so that what one draws is no other's business: an episode is a function of
its seed and its actions, whoever shares the process.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from gymnasium import spaces
from numpy.random import mtrand

RESET, STEP = b"r", b"s"
"""What a worker is told."""
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

    def __init__(self, sizes: Sizes, memory: Any):
        offset = 0
        for name, (kind, shape) in _layout(sizes).items():
            count = int(np.prod(shape))
            array = np.frombuffer(memory, kind, count, offset).reshape(shape)
            setattr(self, name, array)
            offset += -(-array.nbytes // 64) * 64


def _layout(sizes: Sizes) -> dict[str, tuple[Any, tuple[int, ...]]]:
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
    }


def memory_needed(sizes: Sizes) -> int:
    """Bytes of a batch; every array begins on its own cache line."""
    parts = (int(np.prod(shape)) * np.dtype(kind).itemsize for kind, shape in _layout(sizes).values())
    return sum(-(-part // 64) * 64 for part in parts)


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
        """Carry out ``RESET`` or ``STEP`` for the rows in the mask."""
        act = self._reset if command == RESET else self._step
        batch, worker = self._batch, self._worker
        wanted = batch.mask.tolist()
        keep = mtrand.get_bit_generator()
        try:
            for row, stepper, generator in zip(self._rows, self._steppers, self._generators, strict=True):
                if wanted[row]:
                    batch.progress[worker] = row
                    mtrand.set_bit_generator(generator)
                    act(row, stepper)
        finally:
            mtrand.set_bit_generator(keep)

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
