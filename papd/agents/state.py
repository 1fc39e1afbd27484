"""The train state: one pytree with everything that a run needs to go on."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, UInt32

from papd.agents.ddpg_lag import DDPGState
from papd.agents.ppo_lag import PPOState
from papd.agents.rollout import Player
from papd.core.multiplier import Multiplier, MultiplierState
from papd.core.rates import Rate


class Controls(eqx.Module):
    """What a population varies beside the seed: traced, so that one compiled program serves all of it."""

    rate: Rate
    multiplier: Multiplier
    limits: Float[Array, " m"]


class Counters(eqx.Module):
    """How far a run has come. ``skipped`` counts updates that were left out because a loss was no number."""

    iteration: UInt32[Array, ""]
    env_steps: UInt32[Array, ""]
    episodes: UInt32[Array, ""]
    updates: UInt32[Array, ""]
    skipped: UInt32[Array, ""]


def zero_counters() -> Counters:
    """The counters of a run that has not begun."""
    return Counters(*jnp.zeros(5, jnp.uint32))


class TrainState(eqx.Module):
    """Networks, optimizers and replay (``learner``), multiplier, controls, environments, counters, random key."""

    learner: PPOState | DDPGState
    controls: Controls
    multiplier: MultiplierState
    player: Player | None
    counters: Counters
    key: PRNGKeyArray


def stack(states: list[TrainState]) -> TrainState:
    """A population: the same pytree with a leading axis, for ``jax.vmap`` over :func:`iterate`."""
    population: TrainState = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    return population


def unstack(population: TrainState) -> list[TrainState]:
    """The members of a population."""
    size = population.counters.iteration.shape[0]
    return [jax.tree.map(lambda leaf, i=i: leaf[i], population) for i in range(size)]
