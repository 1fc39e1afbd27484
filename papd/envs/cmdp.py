"""The functional protocol of a constrained MDP written in JAX.

A third party subclasses :class:`CMDP` (see docs/environments.md). ``reset`` and ``step`` are pure functions of one
environment; batching is ``jax.vmap``, and starting the next episode is the caller's work (``papd.agents.rollout``).
"""

import abc
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

State = Any
"""The environment's own state: any pytree of arrays."""


@dataclass(frozen=True)
class Box:
    """A box of real vectors, bounded by ``low`` and ``high`` (tuples, so that a space is hashable)."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one element."""
        return (len(self.low),)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """``low`` and ``high`` as float32 arrays."""
        return np.asarray(self.low, np.float32), np.asarray(self.high, np.float32)


@dataclass(frozen=True)
class Discrete:
    """The numbers 0 to n-1."""

    n: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one element."""
        return ()


Space = Box | Discrete
Action = Float[Array, " action"] | Int[Array, ""]


class Step(NamedTuple):
    """What one step of a CMDP returns.

    ``terminated`` ends the episode in a state of no value; ``truncated`` (a time limit) ends it in a state whose value
    is bootstrapped. The observation is that of the state reached, never of a next episode.
    """

    state: State
    observation: Float[Array, " observation"]
    reward: Float[Array, ""]
    cost: Float[Array, " constraints"]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]


class CMDP(eqx.Module):
    """A constrained MDP: S, A, R, C_1..C_m, P and the distribution of the first state.

    Observations are float32 vectors. Actions are in the units of ``action_space`` (the agents scale to it).
    """

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """What results are filed under."""

    @property
    @abc.abstractmethod
    def observation_space(self) -> Box:
        """The space of observations (bounds may be infinite)."""

    @property
    @abc.abstractmethod
    def action_space(self) -> Space:
        """The space of actions."""

    @property
    @abc.abstractmethod
    def cost_names(self) -> tuple[str, ...]:
        """One name per constraint, in the order of ``Step.cost``."""

    @property
    @abc.abstractmethod
    def max_episode_steps(self) -> int:
        """No episode is longer; ``step`` sets ``truncated`` at this length at the latest."""

    @abc.abstractmethod
    def reset(self, key: PRNGKeyArray) -> tuple[State, Float[Array, " observation"]]:
        """Draw a first state and its observation."""

    @abc.abstractmethod
    def step(self, key: PRNGKeyArray, state: State, action: Action) -> Step:
        """Draw the next state, with the reward and the costs of getting there."""
