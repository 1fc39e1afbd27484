"""Environments of other people, well and badly behaved. Worker processes import them by their path."""

import os
import signal
import time
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium import spaces


class Walk(gymnasium.Env):
    """A point that is pushed about, with noise from NumPy's global generator in every step."""

    def __init__(self, length: int = 10, size: int = 2):
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (size,), np.float32)
        self._length, self._place, self.steps = length, np.zeros(size), 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        self._place = self.np_random.uniform(-1.0, 1.0, self._place.shape) + np.random.uniform(-0.1, 0.1)
        return self._place.copy(), {}

    def step(self, action):
        self.steps += 1
        self._place = self._place + 0.1 * action + np.random.normal(0.0, 0.01, self._place.shape)
        info = {"cost": float(abs(self._place[0]) > 1.0), "cost_speed": 0.25}
        if self.steps % 2 == 0:
            info["cost_even"] = 1.0
        return self._place.copy(), float(self._place.sum()), False, self.steps >= self._length, info


def walk(length: int = 10) -> gymnasium.Env:
    """Without a registered episode length."""
    return Walk(length)


def only_in(process: int) -> gymnasium.Env:
    """Needs something that only one process has."""
    if os.getpid() != process:
        raise PermissionError("the device is busy")
    return Walk()


class SixValues(Walk):
    """Safety-Gymnasium's way to tell the cost."""

    def step(self, action):
        observation, reward, terminated, truncated, _ = super().step(action)
        return observation, reward, 0.5, terminated, truncated, {}


class Chain(gymnasium.Env):
    """Five states in a row, whose actions are called 3 (back) and 4 (on)."""

    observation_space = spaces.Box(0.0, 1.0, (5,), np.float32)
    action_space = spaces.Discrete(2, start=3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._state = 0
        return np.eye(5, dtype=np.float32)[0], {}

    def step(self, action):
        assert action in (3, 4)
        self._state = max(0, self._state + (1 if action == 4 else -1))
        end = self._state == 4
        return np.eye(5, dtype=np.float32)[self._state], float(end), end, False, {"cost": 0.1 * self._state}


class Misbehaves(Walk):
    """Does something bad in one step (0 is the reset) until ``marker``, a file, exists; it makes the file first."""

    def __init__(self, deed: str, at: int, marker: str, seed: int = 3):
        super().__init__()
        self._deed, self._at, self._marker, self._victim, self._seed = deed, at, Path(marker), seed, None

    def reset(self, *, seed=None, options=None):
        observation = super().reset(seed=seed)
        self._seed = seed
        self._perhaps()
        return observation

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        if self._is_time() and self._deed in ("observation", "reward", "cost"):
            observation = observation * np.nan if self._deed == "observation" else observation
            reward = np.inf if self._deed == "reward" else reward
            info = {**info, "cost": np.nan} if self._deed == "cost" else info
        else:
            self._perhaps()
        return observation, reward, terminated, truncated, info

    def _is_time(self) -> bool:
        return self.steps == self._at and self._seed == self._victim and not self._marker.exists()

    def _perhaps(self) -> None:
        if not self._is_time():
            return
        if self._marker.name != "always":
            self._marker.touch()
        if self._deed == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if self._deed == "exit":
            os._exit(3)
        if self._deed == "doze":
            time.sleep(0.5)
        if self._deed == "hang":
            time.sleep(1000.0)
        if self._deed == "spin":
            (1 << 400_000_000) ** 3  # C code that never lets another Python thread run.
        if self._deed == "raise":
            raise RuntimeError("the wheel came off")


class NoCost(Walk):
    """Calls its cost by another name."""

    def step(self, action):
        observation, reward, terminated, truncated, _ = super().step(action)
        return observation, reward, terminated, truncated, {"penalty": 1.0, "note": "words"}


class Pixels(Walk):
    """Observations that are no vector."""

    def __init__(self):
        super().__init__()
        self.observation_space = spaces.Box(0.0, 1.0, (4, 4), np.float32)


class Unbounded(Walk):
    """Actions without bounds."""

    def __init__(self):
        super().__init__()
        self.action_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)


class ManySwitches(Walk):
    """Actions of a kind that no agent here has."""

    def __init__(self):
        super().__init__()
        self.action_space = spaces.MultiDiscrete([2, 2])


class WrongShape(Walk):
    """An observation that its space does not know."""

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        return observation[:1], info


class Unseeded(Walk):
    """A first observation that no seed determines."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.random.default_rng().uniform(-1.0, 1.0, 2), {}


class Breaks(Walk):
    """Raises in its third step."""

    def step(self, action):
        if self.steps == 2:
            raise ZeroDivisionError("no such thing")
        return super().step(action)


class NoSpaces(gymnasium.Env):
    """Says neither what it shows nor what it takes."""


class NoInfo(Walk):
    """Leaves its info out."""

    def step(self, action):
        return *super().step(action)[:4], None


class WordsForNumbers(Walk):
    """Observations that are words."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.array(["left", "right"]), {}


class ManyEnds(Walk):
    """A flag for each limb."""

    def step(self, action):
        observation, reward, _, truncated, info = super().step(action)
        return observation, reward, np.zeros(2, bool), truncated, info
