"""DDPG-Lagrangian.

    each update draws a minibatch from the replay and does, in this order:
        critics   one step on (Q_i - target_i)^2 for the reward and each cost, n-step targets from the target networks
        actor     one step on (-Q_R + sum_i lambda_i Q_i) / (1 + sum_i lambda_i) at the rate eta(lambda)
        targets   mixed towards the networks by tau

The critics keep their own constant rate, unless ``scale_critic_rate`` lets it follow the multiplier too.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from papd.agents.hyper import DDPGHyper
from papd.agents.losses import Losses, no_losses
from papd.agents.networks import MLP, DeterministicPolicy, make_mlp
from papd.agents.replay import Replay, Transition, add, draw, empty_replay
from papd.agents.returns import n_step
from papd.agents.rollout import Batch
from papd.envs.cmdp import Box, Space
from papd.errors import ConfigError


class DDPGNetworks(eqx.Module):
    """The policy and one action-value critic for the reward, then one for each cost."""

    policy: DeterministicPolicy
    critics: tuple[MLP, ...]


class DDPGState(eqx.Module):
    """Networks, their targets, the optimizers' states and the replay."""

    networks: DDPGNetworks
    targets: DDPGNetworks
    policy_optimizer: Any
    critic_optimizer: Any
    replay: Replay

    @property
    def policy(self) -> DeterministicPolicy:
        """The policy that acts."""
        return self.networks.policy


def init(
    hyper: DDPGHyper, rng: np.random.Generator, inputs: int, space: Space, constraints: int
) -> DDPGState:
    """Fresh networks, equal targets, an empty replay."""
    if not isinstance(space, Box):
        raise ConfigError(
            "DDPG-Lagrangian needs continuous actions (Box); for discrete ones use PPOLag (--algo ppol)"
        )
    actions = space.shape[0]
    policy = DeterministicPolicy(make_mlp(rng, inputs, hyper.hidden_sizes, actions), hyper.exploration_noise)
    critics = tuple(make_mlp(rng, inputs + actions, hyper.hidden_sizes, 1) for _ in range(1 + constraints))
    networks = DDPGNetworks(policy, critics)
    adam = optax.scale_by_adam()
    return DDPGState(
        networks=networks,
        targets=networks,
        policy_optimizer=adam.init(policy),
        critic_optimizer=adam.init(critics),
        replay=empty_replay(hyper.buffer_size, inputs, actions, 1 + constraints),
    )


def improve(
    hyper: DDPGHyper,
    state: DDPGState,
    batch: Batch,
    multiplier: Float[Array, " m"],
    policy_rate: Float[Array, ""],
    critic_rate: Float[Array, ""],
    key: PRNGKeyArray,
) -> tuple[DDPGState, Losses]:
    """Store the batch, then ``updates_per_step`` updates for each of its steps."""
    state = eqx.tree_at(lambda s: s.replay, state, store(hyper, state.replay, batch))
    steps = jnp.sum(batch.valid).astype(jnp.float32)
    updates = jnp.round(hyper.updates_per_step * steps).astype(jnp.int32)

    def one_update(number: Int[Array, ""], carry: tuple[DDPGState, Losses]) -> tuple[DDPGState, Losses]:
        state, total = carry
        rows = draw(state.replay, jax.random.fold_in(key, number), hyper.batch_size)
        state, losses = update(hyper, state, rows, multiplier, policy_rate, critic_rate)
        return state, jax.tree.map(jnp.add, total, losses)

    state, losses = jax.lax.fori_loop(0, updates, one_update, (state, no_losses()))
    return state, losses.means()


def store(hyper: DDPGHyper, replay: Replay, batch: Batch) -> Replay:
    """Add the batch, environment by environment, as n-step transitions."""
    sums, bootstrap, discount = n_step(
        batch.signals(), batch.next_observation, batch.terminated, batch.ended, hyper.gamma, hyper.n_step
    )
    rows = Transition(batch.observation, batch.action, sums, bootstrap, discount)

    def flat(x: Array) -> Array:
        return jnp.moveaxis(x, 1, 0).reshape(-1, *x.shape[2:])

    return add(replay, jax.tree.map(flat, rows), flat(batch.valid))


def update(
    hyper: DDPGHyper,
    state: DDPGState,
    rows: Transition,
    multiplier: Float[Array, " m"],
    policy_rate: Float[Array, ""],
    critic_rate: Float[Array, ""],
) -> tuple[DDPGState, Losses]:
    """Critics, actor, targets; left out, and counted, if a gradient or a rate is no number."""
    goal = targets(state.targets, rows)
    critic_loss, critic_gradient = jax.value_and_grad(critics_loss)(state.networks.critics, rows, goal)
    critics, critic_optimizer = _adam(
        state.networks.critics, critic_gradient, state.critic_optimizer, critic_rate
    )
    policy_loss, policy_gradient = jax.value_and_grad(actor_loss, argnums=1)(
        hyper, state.networks.policy, critics, rows.observation, multiplier
    )
    policy, policy_optimizer = _adam(
        state.networks.policy, policy_gradient, state.policy_optimizer, policy_rate
    )
    networks = DDPGNetworks(policy, critics)
    mixed = jax.tree.map(lambda new, old: hyper.tau * new + (1 - hyper.tau) * old, networks, state.targets)
    finite = jnp.isfinite(policy_rate * critic_rate * optax.global_norm((critic_gradient, policy_gradient)))
    moved = (networks, mixed, policy_optimizer, critic_optimizer)
    held = (state.networks, state.targets, state.policy_optimizer, state.critic_optimizer)
    kept = jax.tree.map(lambda new, old: jnp.where(finite, new, old), moved, held)
    counted = (finite.astype(jnp.int32), 1 - finite.astype(jnp.int32))
    nothing = jnp.float32(jnp.nan)
    losses = Losses(policy_loss, critic_loss, nothing, nothing, *counted)
    return DDPGState(kept[0], kept[1], kept[2], kept[3], state.replay), losses


def targets(networks: DDPGNetworks, rows: Transition) -> Float[Array, "n k"]:
    """n-step sums plus the discounted value of the target networks where they lead."""
    action = networks.policy.modes(rows.bootstrap)
    return rows.sums + rows.discount[:, None] * _action_values(networks.critics, rows.bootstrap, action)


def critics_loss(critics: tuple[MLP, ...], rows: Transition, goal: Float[Array, "n k"]) -> Float[Array, ""]:
    """Mean squared errors of the reward's and each cost's critic, summed."""
    values = _action_values(critics, rows.observation, rows.action)
    return jnp.sum(jnp.mean((values - goal) ** 2, axis=0))


def actor_loss(
    hyper: DDPGHyper,
    policy: DeterministicPolicy,
    critics: tuple[MLP, ...],
    observation: Float[Array, "n observation"],
    multiplier: Float[Array, " m"],
) -> Float[Array, ""]:
    """(-Q_R + sum_i lambda_i Q_i) / (1 + sum_i lambda_i) at the policy's actions."""
    values = jnp.mean(_action_values(critics, observation, policy.modes(observation)), axis=0)
    scale = 1 + jnp.sum(multiplier) if hyper.rescale_loss else 1.0
    return (jnp.sum(multiplier * values[1:]) - values[0]) / scale


def _action_values(
    critics: tuple[MLP, ...], observation: Float[Array, "n o"], action: Float[Array, "n a"]
) -> Float[Array, "n k"]:
    pair = jnp.concatenate([observation, action], axis=1)
    return jnp.concatenate([critic.rows(pair) for critic in critics], axis=1)


def _adam(parameters: Any, gradient: Any, state: Any, rate: Float[Array, ""]) -> tuple[Any, Any]:
    direction, state = optax.scale_by_adam().update(gradient, state)
    return jax.tree.map(lambda w, d: w - rate * d, parameters, direction), state
