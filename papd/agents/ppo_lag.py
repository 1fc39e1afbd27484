"""PPO-Lagrangian (the paper's supplement, "Methodology").

    values and advantages of the reward and of each cost by GAE, old log-probabilities
    repeat at most ``repeats`` times over shuffled minibatches:
        l = (l_ppo - sum_i lambda_i A_i ratio) / (1 + sum_i lambda_i)     one Adam step at the rate eta(lambda)
        stop after a repeat whose mean KL passes 1.5 target_kl

One optimizer drives the actor and all critics, as in the paper's framework, so eta(lambda) is the rate of both.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, Int32, PRNGKeyArray

from papd.agents.hyper import PPOHyper
from papd.agents.losses import Losses, no_losses
from papd.agents.networks import MLP, StochasticPolicy, make_mlp, make_policy
from papd.agents.returns import gae
from papd.agents.rollout import Batch
from papd.envs.cmdp import Space

LARGEST_NUMBER_BITS = 15
"""Up to this many bits number the rows of a batch when it is shuffled; 16 or more are left to chance."""


class PPONetworks(eqx.Module):
    """The policy and one critic for the reward, then one for each cost."""

    policy: StochasticPolicy
    critics: tuple[MLP, ...]

    def values(self, observation: Float[Array, " observation"]) -> Float[Array, " k"]:
        """The value of one state for the reward and for each cost."""
        return jnp.concatenate([critic(observation) for critic in self.critics])


class PPOState(eqx.Module):
    """Networks and the state of their optimizer."""

    networks: PPONetworks
    optimizer: Any

    @property
    def policy(self) -> StochasticPolicy:
        """The policy that acts."""
        return self.networks.policy


class Rows(eqx.Module):
    """Transitions with everything that the loss needs; ``weight`` is 0 for padding."""

    observation: Float[Array, "n observation"]
    action: Float[Array, "n action"] | Int[Array, " n"]
    log_prob: Float[Array, " n"]
    advantages: Float[Array, "n k"]
    returns: Float[Array, "n k"]
    weight: Float[Array, " n"]


def init(hyper: PPOHyper, rng: np.random.Generator, inputs: int, space: Space, constraints: int) -> PPOState:
    """Fresh networks and optimizer."""
    policy = make_policy(rng, inputs, hyper.hidden_sizes, space, hyper.initial_log_std)
    critics = tuple(make_mlp(rng, inputs, hyper.hidden_sizes, 1) for _ in range(1 + constraints))
    networks = PPONetworks(policy, critics)
    return PPOState(networks, optimizer(hyper).init(networks))


def optimizer(hyper: PPOHyper) -> optax.GradientTransformation:
    """Clipping by the global norm, then Adam's direction; the rate eta(lambda) is multiplied in afterwards."""
    return optax.chain(optax.clip_by_global_norm(hyper.max_gradient_norm), optax.scale_by_adam())


def improve(
    hyper: PPOHyper,
    state: PPOState,
    batch: Batch,
    multiplier: Float[Array, " m"],
    learning_rate: Float[Array, ""],
    key: PRNGKeyArray,
) -> tuple[PPOState, Losses]:
    """The updates of one iteration."""
    rows = prepare(hyper, state.networks, batch)
    capacity = rows.log_prob.shape[0]
    slot = -(-capacity // max(1, capacity // hyper.minibatch_size))
    valid = jnp.sum(rows.weight).astype(jnp.int32)
    minibatches = -(-valid // slot)

    def one_minibatch(number: Int[Array, ""], carry: _Carry) -> _Carry:
        first, last = number * valid // minibatches, (number + 1) * valid // minibatches
        index = jax.lax.dynamic_slice(carry.order, (first,), (slot,))
        taken = jax.tree.map(lambda x: x[index], rows)
        inside = jnp.arange(slot) < last - first
        taken = eqx.tree_at(lambda r: r.weight, taken, inside.astype(taken.weight.dtype))
        new, losses = update(hyper, carry.state, taken, multiplier, learning_rate)
        total = jax.tree.map(jnp.add, carry.losses, losses)
        return _Carry(new, total, carry.order, carry.repeat, carry.stop)

    def one_repeat(carry: _Carry) -> _Carry:
        order = jnp.pad(_shuffle(jax.random.fold_in(key, carry.repeat), rows.weight > 0), (0, slot))
        begun = _Carry(carry.state, carry.losses, order, carry.repeat + 1, carry.stop)
        done = jax.lax.fori_loop(0, minibatches, one_minibatch, begun)
        kl = (done.losses.kl - carry.losses.kl) / minibatches
        return _Carry(done.state, done.losses, order, done.repeat, kl > 1.5 * hyper.target_kl)

    order = jnp.zeros(capacity + slot, jnp.int32)
    carry = _Carry(state, no_losses(), order, jnp.int32(0), jnp.bool_(False))
    go_on = lambda c: (c.repeat < hyper.repeats) & ~c.stop  # noqa: E731
    done = jax.lax.while_loop(go_on, one_repeat, carry)
    return done.state, done.losses.means()


class _Carry(eqx.Module):
    state: PPOState
    losses: Losses
    order: Int32[Array, " slots"]
    repeat: Int32[Array, ""]
    stop: Bool[Array, ""]


def prepare(hyper: PPOHyper, networks: PPONetworks, batch: Batch) -> Rows:
    """Values, advantages, returns and log-probabilities under the networks before the update, flattened."""
    values = jax.vmap(jax.vmap(networks.values))(batch.observation)
    next_values = _next_values(networks, batch, values)
    advantages, returns = gae(
        batch.signals(), values, next_values, batch.terminated, batch.ended, hyper.gamma, hyper.gae_lambda
    )
    log_prob = jax.vmap(jax.vmap(networks.policy.log_prob))(batch.observation, batch.action)
    rows = (batch.observation, batch.action, log_prob, advantages, returns, batch.valid.astype(jnp.float32))
    return Rows(*(x.reshape(-1, *x.shape[2:]) for x in rows))


def _next_values(networks: PPONetworks, batch: Batch, values: Float[Array, "T N k"]) -> Float[Array, "T N k"]:
    """The value of where each step led; within whole episodes that is the next row's."""
    if batch.episodes is None:
        return jax.vmap(jax.vmap(networks.values))(batch.next_observation)
    (ends,) = jnp.nonzero(batch.ended.reshape(-1), size=batch.episodes, fill_value=values[..., 0].size)
    last = (
        batch.next_observation.reshape(-1, batch.next_observation.shape[2])
        .at[ends]
        .get(mode="fill", fill_value=0)
    )
    following = jnp.roll(values, -1, axis=0).reshape(-1, values.shape[2])
    return following.at[ends].set(jax.vmap(networks.values)(last), mode="drop").reshape(values.shape)


def update(
    hyper: PPOHyper,
    state: PPOState,
    rows: Rows,
    multiplier: Float[Array, " m"],
    learning_rate: Float[Array, ""],
) -> tuple[PPOState, Losses]:
    """One Adam step on one minibatch; left out, and counted, if the gradient or the rate is no number."""
    gradient, losses = jax.grad(loss, argnums=1, has_aux=True)(hyper, state.networks, rows, multiplier)
    direction, moved = optimizer(hyper).update(gradient, state.optimizer)
    networks = jax.tree.map(lambda w, d: w - learning_rate * d, state.networks, direction)
    finite = jnp.isfinite(learning_rate * optax.global_norm(gradient))
    new = jax.tree.map(lambda a, b: jnp.where(finite, a, b), PPOState(networks, moved), state)
    counted = (finite.astype(jnp.int32), 1 - finite.astype(jnp.int32))
    return new, eqx.tree_at(lambda m: (m.updates, m.skipped), losses, counted)


def loss(
    hyper: PPOHyper, networks: PPONetworks, rows: Rows, multiplier: Float[Array, " m"]
) -> tuple[Float[Array, ""], Losses]:
    """The policy's loss plus ``value_coefficient`` times the critics'."""
    policy, weight = networks.policy, rows.weight / jnp.sum(rows.weight)
    advantages = _normalise(rows.advantages, rows.weight) if hyper.normalize_advantages else rows.advantages
    output = policy.network.rows(rows.observation)
    log_prob = jax.vmap(policy.log_prob_of)(output, rows.action)
    entropy = jax.vmap(policy.entropy_of)(output)
    values = jnp.concatenate([critic.rows(rows.observation) for critic in networks.critics], axis=1)
    losses = Losses(
        policy_loss=ppol_loss(hyper, log_prob - rows.log_prob, advantages, multiplier, weight),
        critic_loss=jnp.sum(jnp.sum((rows.returns - values) ** 2, axis=1) * weight),
        kl=jnp.sum((rows.log_prob - log_prob) * weight),
        entropy=jnp.sum(entropy * weight),
        updates=jnp.int32(0),
        skipped=jnp.int32(0),
    )
    return losses.policy_loss + hyper.value_coefficient * losses.critic_loss, losses


def ppol_loss(
    hyper: PPOHyper,
    log_ratio: Float[Array, " n"],
    advantages: Float[Array, "n k"],
    multiplier: Float[Array, " m"],
    weight: Float[Array, " n"],
) -> Float[Array, ""]:
    """-(clipped surrogate of the reward) + sum_i lambda_i (surrogate of cost i), over 1 + sum_i lambda_i."""
    ratio = jnp.exp(log_ratio)
    clipped = jnp.clip(ratio, 1 - hyper.clip_ratio, 1 + hyper.clip_ratio)
    reward = jnp.minimum(ratio * advantages[:, 0], clipped * advantages[:, 0])
    costs = ratio * (advantages[:, 1:] @ multiplier)
    scale = 1 + jnp.sum(multiplier) if hyper.rescale_loss else 1.0
    return jnp.sum((costs - reward) * weight) / scale


def _normalise(advantages: Float[Array, "n k"], weight: Float[Array, " n"]) -> Float[Array, "n k"]:
    """Mean 0 and (unbiased) standard deviation 1 over the rows that count."""
    count = jnp.sum(weight)
    centred = advantages - (jnp.sum(advantages * weight[:, None], axis=0) / count)[None, :]
    variance = jnp.sum(centred**2 * weight[:, None], axis=0) / jnp.maximum(count - 1, 1)
    return centred / (jnp.sqrt(variance) + 1e-8)[None, :]


def _shuffle(key: PRNGKeyArray, valid: Bool[Array, " n"]) -> Int32[Array, " n"]:
    """The valid rows in random order, then the others.

    A row's number stands in the low bits of its random rank: XLA sorts one array five times as fast as a pair. Where
    that would leave too few bits to chance, the pair is sorted.
    """
    low = max(valid.shape[0] - 1, 1).bit_length()
    random = jax.random.bits(key, valid.shape, jnp.uint32) >> 1
    ranks = jnp.where(valid, random, jnp.uint32(2**32 - 1))
    if low > LARGEST_NUMBER_BITS:
        return jnp.argsort(ranks).astype(jnp.int32)
    numbered = ranks >> low << low | jnp.arange(valid.shape[0], dtype=jnp.uint32)
    order: Array = jnp.sort(numbered) & jnp.uint32(2**low - 1)
    return order.astype(jnp.int32)
