"""The counting environment for Gymnasium, so that the same tests hold experience from both backends to account."""

import gymnasium
import numpy as np
from gymnasium import spaces

SHORTEST, LONGEST = 3, 9


class CountingGym(gymnasium.Env):
    """What :class:`tests.agents.counting_env.Counting` is in JAX, with the length drawn from the episode's seed."""

    observation_space = spaces.Box(0.0, 100.0, (2,), np.float32)

    def __init__(self, shortest: int, longest: int, discrete: bool):
        self.action_space = spaces.Discrete(3) if discrete else spaces.Box(-2.0, 6.0, (1,), np.float32)
        self._shortest, self._longest = shortest, longest

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps, self._length = 0, int(self.np_random.integers(self._shortest, self._longest + 1))
        return np.array([0, self._length], np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self._steps += 1
        over, even = self._steps >= self._length, self._length % 2 == 0
        observation = np.array([self._steps, self._length], np.float32)
        return observation, 1.0, over and even, over and not even, {"cost": 0.5}


def early() -> gymnasium.Env:
    """Episodes of 3 to 9 steps."""
    return CountingGym(SHORTEST, LONGEST, discrete=False)


def nine() -> gymnasium.Env:
    """Episodes of 9 steps."""
    return CountingGym(LONGEST, LONGEST, discrete=False)


def choices() -> gymnasium.Env:
    """Episodes of 3 to 9 steps, with three choices in each."""
    return CountingGym(SHORTEST, LONGEST, discrete=True)


class Broken(CountingGym):
    """The third observation is no number."""

    def step(self, action):
        observation, *rest = super().step(action)
        return (observation * np.nan if self._steps == 3 else observation), *rest


def broken() -> gymnasium.Env:
    """Episodes of 9 steps with a hole in them."""
    return Broken(LONGEST, LONGEST, discrete=False)
