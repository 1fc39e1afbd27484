"""The bridge to practice: what it differentiates is the loss of training, whatever the number of transitions."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import papd
from papd.agents import ppo_lag
from papd.agents.hyper import PPOHyper
from papd.agents.ppo_lag import PPONetworks, Rows
from papd.envs.cmdp import Box
from papd.results.bridge import adam_scale, measure, surrogate

PLAIN = PPOHyper(hidden_sizes=(8,), normalize_advantages=False, rescale_loss=False)


def make_rows(count: int = 32) -> tuple[PPONetworks, Rows]:
    """Networks, and transitions that an older policy made; the last quarter is padding."""
    learner = ppo_lag.init(PLAIN, np.random.default_rng(0), 3, Box((-1.0, -1.0), (1.0, 1.0)), 1)
    keys = jax.random.split(jax.random.key(1), 4)
    observation, action = jax.random.normal(keys[0], (count, 3)), jax.random.normal(keys[1], (count, 2))
    advantages = jax.random.normal(keys[2], (count, 2))
    log_prob = jax.vmap(learner.networks.policy.log_prob)(observation, action)
    moved = log_prob + 0.3 * jax.random.normal(keys[3], (count,))
    weight = (jnp.arange(count) < 3 * count // 4).astype(jnp.float32)
    return learner.networks, Rows(observation, action, moved, advantages, advantages, weight)


def test_it_is_the_loss_of_training():
    networks, rows = make_rows()
    multiplier = jnp.array([2.0])
    _, losses = ppo_lag.loss(PLAIN, networks, rows, multiplier)
    np.testing.assert_allclose(
        surrogate(PLAIN, networks.policy, rows, 1.0, multiplier), losses.policy_loss, rtol=1e-5
    )


@pytest.mark.parametrize("normalize", [False, True])
def test_the_lagrangian_is_its_parts_and_a_mean_over_transitions(normalize):
    networks, rows = make_rows()
    hyper = dataclasses.replace(PLAIN, normalize_advantages=normalize)

    def value(reward, cost, rows=rows):
        return float(surrogate(hyper, networks.policy, rows, reward, jnp.array([cost])))

    assert value(1.0, 3.0) == pytest.approx(value(1.0, 0.0) + 3.0 * value(0.0, 1.0), rel=1e-4)
    twice = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf]), rows)
    assert value(1.0, 3.0, twice) == pytest.approx(value(1.0, 3.0), rel=1e-5)
    nonsense = eqx.tree_at(lambda r: r.advantages, rows, rows.advantages.at[-1].set(1e3))
    assert value(1.0, 3.0, nonsense) == pytest.approx(value(1.0, 3.0), rel=1e-5)


def test_a_trained_agent_is_measured_in_both_metrics():
    agent = papd.PPOLag(
        "SafetyBallRun-v0",
        backend="twin",
        hidden_sizes=(4,),
        num_envs=2,
        episodes_per_iteration=2,
        minibatch_size=200,
    )
    agent.learn(500)
    scale = adam_scale(agent.state.learner)
    assert bool(jnp.all(jnp.isfinite(scale) & (scale > 0)))
    plain, adam = measure(agent, jax.random.key(0))
    for found in (plain, adam):
        assert found.objective > 0
        assert found.cost >= 0
        assert abs(found.lowest) < np.inf
        assert found.residual < 0.05
