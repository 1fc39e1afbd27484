"""Experience: playing a policy in an environment, as a batch to learn from and the episodes that ended in it.

An iteration is either whole episodes (the paper's framework) or a fixed number of steps with automatic reset. In both
the mean return and cost are those of whole episodes; steps of an unfinished one are learned from, never counted.
"""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Int32, Key, PRNGKeyArray

from papd.agents.hyper import Hyper
from papd.agents.networks import Policy, to_environment
from papd.envs.cmdp import CMDP, State, Step


class Batch(eqx.Module):
    """Steps in time-major order; while they are taken, one of each environment.

    ``ended`` is terminated or truncated; rows that are not ``valid`` never happened.
    """

    observation: Float[Array, "*T N observation"]
    action: Float[Array, "*T N action"] | Int[Array, "*T N"]
    reward: Float[Array, "*T N"]
    cost: Float[Array, "*T N m"]
    next_observation: Float[Array, "*T N observation"]
    terminated: Bool[Array, "*T N"]
    ended: Bool[Array, "*T N"]
    valid: Bool[Array, "*T N"]
    episodes: int | None = eqx.field(static=True, default=None)
    """How many episodes it is, each whole, row after row in its column; None where it may be anything."""

    def signals(self) -> Float[Array, "T N k"]:
        """Reward and costs side by side."""
        return jnp.concatenate([self.reward[:, :, None], self.cost], axis=2)


class Episodes(eqx.Module):
    """The whole episodes of an iteration, and the steps taken in it. Means of no episode are NaN."""

    count: Int32[Array, ""]
    steps: Int32[Array, ""]
    return_mean: Float[Array, ""]
    cost_mean: Float[Array, " m"]


class Player(eqx.Module):
    """Environments in the middle of their episodes, with what each episode has collected so far."""

    state: State
    observation: Float[Array, "N observation"]
    alive: Bool[Array, " N"]
    total_return: Float[Array, " N"]
    total_cost: Float[Array, "N m"]


def start(env: CMDP, key: PRNGKeyArray, count: int) -> Player:
    """``count`` environments at the beginning of an episode."""
    state, observation = jax.vmap(env.reset)(jax.random.split(key, count))
    zeros = jnp.zeros(count)
    costs = jnp.zeros((count, len(env.cost_names)))
    return Player(state, observation, jnp.ones(count, bool), zeros, costs)


def initial_player(env: CMDP, hyper: Hyper, key: PRNGKeyArray) -> Player | None:
    """What the first iteration begins with: nothing, where iterations are whole episodes."""
    return None if hyper.rollout == "episodes" else start(env, key, hyper.num_envs)


def collect(
    env: CMDP, policy: Policy, hyper: Hyper, player: Player | None, key: PRNGKeyArray
) -> tuple[Player | None, Batch, Episodes]:
    """The experience of one iteration."""
    if player is None:
        batch, episodes = _whole_episodes(env, policy, hyper, key)
        return None, batch, episodes
    steps = hyper.steps_per_iteration // hyper.num_envs
    player, (batch, totals) = _play(env, policy, player, key, steps, auto_reset=True)
    return player, batch, summarise(batch, *totals)


def rounds_of(hyper: Hyper) -> tuple[int, int]:
    """How the episodes of an iteration are played: so many rounds of so many side by side."""
    count = min(hyper.num_envs, hyper.episodes_per_iteration)
    return math.ceil(hyper.episodes_per_iteration / count), count


def _whole_episodes(env: CMDP, policy: Policy, hyper: Hyper, key: PRNGKeyArray) -> tuple[Batch, Episodes]:
    rounds, count = rounds_of(hyper)

    def one_round(item: tuple[PRNGKeyArray, Int[Array, ""]]) -> tuple[Batch, tuple[Array, Array]]:
        round_key, number = item
        reset_key, play_key = jax.random.split(round_key)
        player = start(env, reset_key, count)
        wanted = number * count + jnp.arange(count) < hyper.episodes_per_iteration
        player = eqx.tree_at(lambda p: p.alive, player, wanted)
        return _play(env, policy, player, play_key, env.max_episode_steps, auto_reset=False)[1]

    if rounds == 1:
        batch, totals = one_round((key, jnp.int32(0)))
        return whole(batch, hyper.episodes_per_iteration), summarise(batch, *totals)
    played = jax.lax.map(one_round, (jax.random.split(key, rounds), jnp.arange(rounds)))
    merge = lambda x: jnp.moveaxis(x, 0, 1).reshape(x.shape[1], rounds * count, *x.shape[3:])  # noqa: E731
    batch, totals = jax.tree.map(merge, played)
    return whole(batch, hyper.episodes_per_iteration), summarise(batch, *totals)


def whole(batch: Batch, episodes: int) -> Batch:
    """The same batch, known to be so many whole episodes."""
    return dataclasses.replace(batch, episodes=episodes)


def _play(
    env: CMDP, policy: Policy, player: Player, key: PRNGKeyArray, steps: int, *, auto_reset: bool
) -> tuple[Player, tuple[Batch, tuple[Array, Array]]]:
    """Step every environment ``steps`` times; an ended one starts again, or stands still, invalid."""
    count = player.alive.shape[0]

    def step(
        player: Player, random: tuple[Array, Key[Array, " N"], PRNGKeyArray]
    ) -> tuple[Player, tuple[Batch, tuple[Array, Array]]]:
        noise, step_keys, reset_key = random
        action = jax.vmap(policy.explore)(player.observation, noise)
        sent = jax.vmap(lambda a: to_environment(env.action_space, a))(action)
        outcome = _step_all(env, player, step_keys, sent)
        valid = player.alive
        ended = (outcome.terminated | outcome.truncated) & valid
        total_return = player.total_return + jnp.where(valid, outcome.reward, 0.0)
        total_cost = player.total_cost + jnp.where(valid[:, None], outcome.cost, 0.0)
        row = Batch(
            observation=player.observation,
            action=action,
            reward=jnp.where(valid, outcome.reward, 0.0),
            cost=jnp.where(valid[:, None], outcome.cost, 0.0),
            next_observation=_where(valid, outcome.observation, player.observation),
            terminated=outcome.terminated & valid,
            ended=ended,
            valid=valid,
        )
        reached = Player(outcome.state, outcome.observation, valid, total_return, total_cost)
        if auto_reset:
            following = _begin_again(env, reached, ended, reset_key)
        else:
            stays = eqx.tree_at(lambda p: p.alive, player, player.alive & ~ended)
            moved = eqx.tree_at(lambda p: p.alive, reached, reached.alive & ~ended)
            following = jax.tree.map(lambda new, old: _where(valid, new, old), moved, stays)
        return following, (row, (total_return, total_cost))

    # All at once: in each step, keys and noise would take XLA's CPU runtime longer than the policy does.
    keys = jax.vmap(lambda each: _three(each, count))(jax.random.split(key, steps))
    noise = jax.vmap(jax.vmap(policy.noise))(keys[0])
    return jax.lax.scan(step, player, (noise, *keys[1:]))


def _step_all(env: CMDP, player: Player, keys: Key[Array, " N"], action: Array) -> Step:
    """Step every environment, unless no episode goes on any more.

    The condition also ends XLA's fusion here: without it, all that an environment computes is computed again for each
    number that is selected from it below, which made the Car's Circle 16 times as slow.
    """

    def moved() -> Step:
        return jax.vmap(env.step)(keys, player.state, action)

    def stays() -> Step:
        shapes = jax.eval_shape(moved)._replace(state=None)
        nothing: Step = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        return nothing._replace(state=player.state)

    outcome: Step = jax.lax.cond(jnp.any(player.alive), moved, stays)
    return outcome


def _begin_again(env: CMDP, player: Player, ended: Bool[Array, " N"], key: PRNGKeyArray) -> Player:
    """New episodes where the mask holds."""

    def some() -> Player:
        fresh = start(env, key, ended.shape[0])
        begun: Player = jax.tree.map(lambda new, old: _where(ended, new, old), fresh, player)
        return begun

    following: Player = jax.lax.cond(jnp.any(ended), some, lambda: player)
    return following


def summarise(batch: Batch, total_return: Float[Array, "T N"], total_cost: Float[Array, "T N m"]) -> Episodes:
    """Means over the episodes that ended in the batch; the totals run from each episode's beginning."""
    count = jnp.sum(batch.ended, dtype=jnp.int32)
    weight = batch.ended.astype(total_return.dtype)
    return Episodes(
        count=count,
        steps=jnp.sum(batch.valid, dtype=jnp.int32),
        return_mean=jnp.sum(total_return * weight) / count,
        cost_mean=jnp.sum(total_cost * weight[:, :, None], axis=(0, 1)) / count,
    )


def is_finite(batch: Batch) -> Bool[Array, ""]:
    """Whether the environment gave nothing but numbers."""
    parts = (batch.observation, batch.next_observation, batch.reward, batch.cost)
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(part)) for part in parts]))


def _three(key: PRNGKeyArray, count: int) -> tuple[Key[Array, " N"], Key[Array, " N"], PRNGKeyArray]:
    """For each action, for each environment, and for new episodes."""
    keys = jax.random.split(key, 2 * count + 1)
    return keys[:count], keys[count:-1], keys[-1]


def _where(mask: Bool[Array, " N"], new: Array, old: Array) -> Array:
    """Rows of ``new`` where the mask holds, of ``old`` elsewhere."""
    return jnp.where(mask.reshape(mask.shape + (1,) * (new.ndim - 1)), new, old)
