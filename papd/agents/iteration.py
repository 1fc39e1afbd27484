"""One iteration of the practical adaptive primal-dual method (the paper's Algorithm 2), a pure function.

    experience -> mean episode cost -> multiplier -> learning rate eta(lambda) -> policy update

On a JAX environment all of it is one compiled program, :func:`iterate`; a population is its ``jax.vmap``. For an
environment outside JAX the experience comes from :mod:`papd.agents.host_rollout` and :func:`learn_from` does the rest.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from papd.agents import ddpg_lag, ppo_lag
from papd.agents.hyper import DDPGHyper, Hyper, PPOHyper
from papd.agents.losses import Losses
from papd.agents.rollout import Batch, Episodes, collect, initial_player, is_finite, rounds_of
from papd.agents.state import Controls, Counters, TrainState, zero_counters
from papd.core.multiplier import MultiplierState
from papd.envs.cmdp import CMDP, Space
from papd.envs.host import HostEnv
from papd.errors import ConfigError


class Metrics(eqx.Module):
    """What one iteration tells. ``finite`` is whether the environment gave nothing but numbers."""

    episodes: Episodes
    multiplier: Float[Array, " m"]
    learning_rate: Float[Array, ""]
    losses: Losses
    finite: Bool[Array, ""]


def init_learner(
    hyper: Hyper, seed: int, inputs: int, space: Space, constraints: int
) -> ppo_lag.PPOState | ddpg_lag.DDPGState:
    """Fresh networks and optimizers of the algorithm that the hyper-parameters belong to."""
    rng = np.random.default_rng(seed)
    if isinstance(hyper, PPOHyper):
        return ppo_lag.init(hyper, rng, inputs, space, constraints)
    return ddpg_lag.init(hyper, rng, inputs, space, constraints)


def init_state(env: CMDP | HostEnv, hyper: Hyper, controls: Controls, seed: int) -> TrainState:
    """The train state of a run that has not begun. Not inside ``jax.jit`` or ``jax.vmap``: stack the results."""
    _check_replay(env, hyper)
    key, player_key = jax.random.split(jax.random.key(seed))
    player = initial_player(env, hyper, player_key) if isinstance(env, CMDP) else None
    learner = init_learner(hyper, seed, env.observation_space.shape[0], env.action_space, len(env.cost_names))
    multiplier = controls.multiplier.init(len(env.cost_names))
    return TrainState(learner, controls, multiplier, player, zero_counters(), key)


def _check_replay(env: CMDP | HostEnv, hyper: Hyper) -> None:
    if isinstance(hyper, PPOHyper):
        return
    rounds, count = rounds_of(hyper)
    rows = (
        rounds * count * env.max_episode_steps if hyper.rollout == "episodes" else hyper.steps_per_iteration
    )
    if hyper.buffer_size < rows:
        raise ConfigError(
            f"buffer_size={hyper.buffer_size}: buffer_size must hold an iteration, up to {rows} steps"
        )


def iterate(env: CMDP, hyper: Hyper, state: TrainState) -> tuple[TrainState, Metrics]:
    """One iteration on a JAX environment."""
    key, collect_key = jax.random.split(state.key)
    player, batch, episodes = collect(env, state.learner.policy, hyper, state.player, collect_key)
    state = eqx.tree_at(lambda s: (s.key, s.player), state, (key, player), is_leaf=lambda x: x is None)
    return learn_from(hyper, state, batch, episodes)


def learn_from(
    hyper: Hyper, state: TrainState, batch: Batch, episodes: Episodes
) -> tuple[TrainState, Metrics]:
    """The primal-dual part: multiplier from the costs, rate from the multiplier, networks from the batch."""
    key, update_key = jax.random.split(state.key)
    controls = state.controls
    multiplier = next_multiplier(controls, state.multiplier, episodes)
    learning_rate = controls.rate(multiplier.value)
    learner, losses = _improve(hyper, state, batch, multiplier.value, learning_rate, update_key)
    counters = _count(state.counters, episodes, losses)
    new = TrainState(learner, controls, multiplier, state.player, counters, key)
    return new, Metrics(episodes, multiplier.value, learning_rate, losses, is_finite(batch))


def _improve(
    hyper: Hyper,
    state: TrainState,
    batch: Batch,
    multiplier: Float[Array, " m"],
    learning_rate: Float[Array, ""],
    key: PRNGKeyArray,
) -> tuple[ppo_lag.PPOState | ddpg_lag.DDPGState, Losses]:
    match hyper, state.learner:
        case PPOHyper(), ppo_lag.PPOState() as learner:
            return ppo_lag.improve(hyper, learner, batch, multiplier, learning_rate, key)
        case DDPGHyper(), ddpg_lag.DDPGState() as learner:
            share = learning_rate / state.controls.rate(jnp.zeros_like(multiplier))
            critic_rate = hyper.critic_learning_rate * (share if hyper.scale_critic_rate else jnp.float32(1))
            return ddpg_lag.improve(hyper, learner, batch, multiplier, learning_rate, critic_rate, key)
    raise TypeError(f"{type(hyper).__name__} does not go with {type(state.learner).__name__}")


def next_multiplier(controls: Controls, state: MultiplierState, episodes: Episodes) -> MultiplierState:
    """The rule's step on the mean episode costs; no step where no episode ended."""
    stepped = controls.multiplier.update(state, episodes.cost_mean, controls.limits)
    kept: MultiplierState = jax.tree.map(
        lambda new, old: jnp.where(episodes.count > 0, new, old), stepped, state
    )
    return kept


def _count(counters: Counters, episodes: Episodes, losses: Losses) -> Counters:
    more = (jnp.uint32(1), episodes.steps, episodes.count, losses.updates, losses.skipped)
    total = (counters.iteration, counters.env_steps, counters.episodes, counters.updates, counters.skipped)
    return Counters(*(old + new.astype(old.dtype) for old, new in zip(total, more, strict=True)))
