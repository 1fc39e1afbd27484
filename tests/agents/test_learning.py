"""Trained agents reach known optima within the cost limit."""

import jax.numpy as jnp
import numpy as np
import pytest

from papd.agents.hyper import PPOHyper
from papd.agents.state import Controls
from papd.core.multiplier import PID
from papd.core.rates import InvQua
from papd.envs.probes import bandit, gridworld
from tests.agents.populations import tail, train

SEEDS = range(5)
GAINS = PID(1.0, 0.02, 1.0)


def probe_hyper(**changes: object) -> PPOHyper:
    episodes = {"episodes_per_iteration": 256, "num_envs": 256, "minibatch_size": 256}
    return PPOHyper(**{"hidden_sizes": (32,), **episodes, **changes})


def test_bandit_reaches_its_closed_form_and_multiplier() -> None:
    env, limit = bandit(rewards=(1.0, 0.2), costs=(1.0, 0.0)), 0.4
    hyper = probe_hyper(normalize_advantages=False, gamma=1.0)
    controls = Controls(InvQua(0.1, 3.0), PID(2.0, 0.05, 2.0), jnp.array([limit]))
    _, metrics = train(env, hyper, controls, SEEDS, 300)
    known = env.solve((limit,))
    assert known.multipliers[0] == pytest.approx(0.8, rel=1e-5)
    assert tail(metrics.multiplier).mean() == pytest.approx(0.8, rel=0.1)
    assert tail(metrics.episodes.return_mean).mean() == pytest.approx(0.4 * 1.0 + 0.6 * 0.2, rel=0.03)
    assert tail(metrics.episodes.cost_mean).mean() == pytest.approx(limit, rel=0.05)


def test_normalised_advantages_scale_the_multiplier() -> None:
    """Each signal is divided by its own spread, so lambda settles at lambda* times spread(cost) / spread(reward)."""
    env, limit = bandit(rewards=(1.0, 0.2), costs=(1.0, 0.0)), 0.4
    controls = Controls(InvQua(0.1, 3.0), PID(2.0, 0.05, 2.0), jnp.array([limit]))
    _, metrics = train(env, probe_hyper(gamma=1.0), controls, SEEDS, 300)
    assert tail(metrics.multiplier).mean() == pytest.approx(0.8 * 1.0 / 0.8, rel=0.1)


def test_gridworld_reaches_the_linear_programs_optimum() -> None:
    env, limit = gridworld(("S#G", "..."), survival=0.8), 0.3
    known = env.solve((limit,))
    free = env.solve((100.0,))
    assert free.episode_return > 1.2 * known.episode_return
    assert free.costs[0] > 2 * limit
    controls = Controls(InvQua(0.1, 6.0), GAINS, jnp.array([limit]))
    _, metrics = train(env, probe_hyper(), controls, SEEDS, 200)
    assert tail(metrics.episodes.return_mean).mean() == pytest.approx(known.episode_return, rel=0.03)
    assert tail(metrics.episodes.cost_mean).mean() == pytest.approx(limit, rel=0.05)


def test_two_constraints_are_both_kept_each_by_its_own_multiplier() -> None:
    env, limits = gridworld(("S#%G", "...."), survival=0.8), (0.5, 0.15)
    known = env.solve(limits)
    assert known.costs == pytest.approx(limits, rel=1e-6)
    controls = Controls(InvQua(0.1, 6.0), GAINS, jnp.array(limits))
    _, metrics = train(env, probe_hyper(), controls, SEEDS, 200)
    costs = tail(metrics.episodes.cost_mean).mean(axis=0)
    assert (costs <= 1.08 * np.array(limits)).all()
    multipliers = np.asarray(metrics.multiplier)
    assert abs(np.corrcoef(multipliers[0, :, 0], multipliers[0, :, 1])[0, 1]) < 0.99
    assert tail(metrics.episodes.return_mean).mean() > 0.9 * known.episode_return
