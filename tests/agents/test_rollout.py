"""Whole episodes and fixed steps, with episodes that end early: nothing counted twice, nothing invented."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from papd.agents.hyper import PPOHyper
from papd.agents.networks import make_policy, to_environment
from papd.agents.rollout import collect, initial_player
from papd.envs.cmdp import Box, Discrete
from tests.agents.counting_env import Counting

KEY = jax.random.key(3)


def play(env: Counting, hyper: PPOHyper, times: int = 1):
    policy = make_policy(np.random.default_rng(0), 2, (4,), env.action_space, -0.5)
    step = jax.jit(lambda player, key: collect(env, policy, hyper, player, key))
    player, history = initial_player(env, hyper, KEY), []
    for number in range(times):
        player, batch, episodes = step(player, jax.random.fold_in(KEY, number))
        history.append((batch, episodes))
    return history


@pytest.mark.parametrize(("count", "side_by_side"), [(4, 4), (7, 3), (2, 5)])
def test_whole_episodes(count: int, side_by_side: int) -> None:
    hyper = PPOHyper(episodes_per_iteration=count, num_envs=side_by_side)
    batch, episodes = play(Counting(3, 9), hyper)[0]
    valid, ended = np.asarray(batch.valid), np.asarray(batch.ended)
    lengths = valid.sum(axis=0)
    assert int(episodes.count) == count == ended.sum() == (lengths > 0).sum()
    assert int(episodes.steps) == valid.sum()
    assert float(episodes.return_mean) == pytest.approx(lengths.sum() / count)
    assert float(episodes.cost_mean[0]) == pytest.approx(0.5 * lengths.sum() / count)
    for n in np.flatnonzero(lengths):
        steps = lengths[n]
        assert valid[:steps, n].all()
        assert ended[steps - 1, n]
        np.testing.assert_array_equal(batch.observation[:steps, n, 0], np.arange(steps))
        np.testing.assert_array_equal(batch.next_observation[:steps, n, 0], np.arange(1, steps + 1))
        assert bool(batch.terminated[steps - 1, n]) == (steps % 2 == 0)
    np.testing.assert_array_equal(np.asarray(batch.reward), valid)


def test_fixed_steps_count_only_whole_episodes() -> None:
    hyper = PPOHyper(rollout="steps", steps_per_iteration=12, num_envs=3)
    history = play(Counting(3, 9), hyper, times=6)
    observed = np.concatenate([np.asarray(batch.observation) for batch, _ in history])
    ended = np.concatenate([np.asarray(batch.ended) for batch, _ in history])
    begins = observed[:, :, 0] == 0
    np.testing.assert_array_equal(begins[1:], ended[:-1])
    assert ended.sum() == sum(int(episodes.count) for _, episodes in history) > 6
    returns = sum(float(e.return_mean) * int(e.count) for _, e in history if int(e.count))
    assert returns == pytest.approx(observed[:, :, 1][ended].sum())
    assert all(int(episodes.steps) == 12 for _, episodes in history)


def test_no_whole_episode_has_no_mean() -> None:
    hyper = PPOHyper(rollout="steps", steps_per_iteration=6, num_envs=3)
    _, episodes = play(Counting(9, 9), hyper)[0]
    assert int(episodes.count) == 0
    assert np.isnan(episodes.return_mean)
    assert np.isnan(episodes.cost_mean).all()


def test_actions_fill_the_box_of_the_environment() -> None:
    space = Box((-2.0, 0.0), (6.0, 1.0))
    np.testing.assert_allclose(to_environment(space, jnp.array([0.0, 1.0])), [2.0, 1.0])
    np.testing.assert_allclose(to_environment(space, jnp.array([-9.0, 9.0])), [-2.0, 1.0])
    assert int(to_environment(Discrete(3), jnp.int32(2))) == 2


def test_discrete_actions_are_numbers_of_choices() -> None:
    batch, _ = play(Counting(3, 5, discrete=True), PPOHyper(episodes_per_iteration=8, num_envs=8))[0]
    assert batch.action.dtype == jnp.int32
    assert set(np.unique(batch.action)) <= {0, 1, 2}
