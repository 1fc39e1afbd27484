"""A JAX CMDP as an ordinary Gymnasium environment, for code that knows no JAX."""

import re
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from papd.envs.cmdp import CMDP, Box, Space


class GymnasiumCMDP(gymnasium.Env[np.ndarray, Any]):
    """One environment of a CMDP. ``info`` has each cost by name, and ``cost``: their sum if none is called so.

    An episode is a function of the seed given to ``reset`` and of the actions; without a seed the random key goes on.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  (gymnasium's own annotation)

    def __init__(self, cmdp: CMDP):
        self.cmdp = cmdp
        self.observation_space = to_gymnasium_space(cmdp.observation_space)
        self.action_space = to_gymnasium_space(cmdp.action_space)
        self.spec = EnvSpec(
            re.sub(r"[^\w./-]", "-", cmdp.name), type(self).__name__, max_episode_steps=cmdp.max_episode_steps
        )
        self._reset, self._step = jax.jit(cmdp.reset), jax.jit(cmdp.step)
        self._key = jax.random.key(0)
        self._state: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode; there are no options."""
        super().reset(seed=seed)
        if seed is not None:
            self._key = jax.random.key(seed)
        self._key, key = jax.random.split(self._key)
        self._state, observation = self._reset(key)
        return np.asarray(observation), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """``CMDP.step``."""
        self._key, key = jax.random.split(self._key)
        result = self._step(key, self._state, jnp.asarray(action))
        self._state = result.state
        costs = np.asarray(result.cost).tolist()
        info = {"cost": sum(costs), **dict(zip(self.cmdp.cost_names, costs, strict=True))}
        return (
            np.asarray(result.observation),
            float(result.reward),
            bool(result.terminated),
            bool(result.truncated),
            info,
        )


def to_gymnasium_space(space: Space) -> Any:
    """The same space in Gymnasium's classes."""
    if isinstance(space, Box):
        low, high = space.bounds()
        return spaces.Box(low, high, dtype=np.float32)
    return spaces.Discrete(space.n)
