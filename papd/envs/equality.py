"""Our steppers of Bullet-Safety-Gym against the package's own: whole random episodes, compared bit for bit."""

import contextlib
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np

from papd.envs import bullet
from papd.envs.bullet_ids import BULLET_IDS
from papd.envs.sources import Source, own_generators
from papd.envs.stepping import Transition

Row = tuple[tuple[float, ...], float, tuple[float, ...], bool]
"""Observation, reward, costs, terminated."""


@dataclass(frozen=True)
class Equality:
    """How many episodes were compared, and the seeds of those that differed in any bit."""

    env: str
    episodes: int
    steps: int
    differing: tuple[int, ...]


def compare_episodes(env_id: str, episodes: int) -> Equality:
    """Episodes of seeds 0, 1, ... with random held actions, in float32 and float64 by turns.

    One environment of each kind is used for all of them. The package's motors are released before its resets, or
    its used Car would not repeat its own fresh one. Time stands still but for 0.05 s a step, for the obstacles that
    the package moves by the wall clock.
    """
    keys = ("cost", *BULLET_IDS[env_id].cost_keys)
    with bullet.quiet(), own_generators(0):
        package: Any = gymnasium.make(env_id, disable_env_checker=True).unwrapped
    stepper = Source("bullet", env_id, keys).build()

    def package_reset(seed: int) -> Any:
        bullet.release_motors(package)
        return package.reset(seed)[0]

    def package_step(action: np.ndarray) -> Transition:
        observation, reward, terminated, truncated, info = package.step(action)
        return observation, reward, tuple(float(info.get(key, 0.0)) for key in keys), terminated, truncated

    differing, steps = [], 0
    for seed in range(episodes):
        actions = _held_actions(env_id, seed)
        expected = _play(seed, actions, package_reset, package_step)
        steps += len(expected) - 1
        if _play(seed, actions, stepper.reset, stepper.step) != expected:
            differing.append(seed)
    package.close()
    stepper.close()
    return Equality(env_id, episodes, steps, tuple(differing))


def _held_actions(env_id: str, seed: int) -> np.ndarray:
    """Random actions, some out of bounds, each held for a while so that the agent gets somewhere."""
    known, rng = BULLET_IDS[env_id], np.random.default_rng(seed)
    drawn = rng.uniform(-1.3, 1.3, (known.max_episode_steps, len(known.action_space.low)))
    held = np.repeat(drawn, rng.integers(1, 30), axis=0)[: known.max_episode_steps]
    return held.astype(np.float32 if seed % 2 else np.float64)


def _play(
    seed: int, actions: np.ndarray, reset: Callable[[int], Any], step: Callable[[np.ndarray], Transition]
) -> list[Row]:
    with own_generators(seed), _clock() as clock:
        rows: list[Row] = [(_bits(reset(seed)), 0.0, (), False)]
        for action in actions:
            clock.now += 0.05
            observation, reward, costs, terminated, _ = step(action)
            rows.append((_bits(observation), float(reward), tuple(map(float, costs)), bool(terminated)))
            if terminated:
                break
    return rows


def _bits(observation: Any) -> tuple[float, ...]:
    return tuple(np.asarray(observation, np.float64).tolist())


@contextlib.contextmanager
def _clock() -> Iterator[SimpleNamespace]:
    """The wall clock as the package's obstacles see it."""
    clock = SimpleNamespace(now=0.0)
    clock.time = lambda: clock.now
    bases: Any = importlib.import_module("bullet_safety_gym.envs.bases")
    real, bases.time = bases.time, clock
    try:
        yield clock
    finally:
        bases.time = real
