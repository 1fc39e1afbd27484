"""A vmapped population is the same agents one by one."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from papd.agents.hyper import DDPGHyper, Hyper, PPOHyper
from papd.agents.iteration import init_state, iterate
from papd.agents.state import Controls, stack, unstack
from papd.core.multiplier import PID
from papd.core.rates import Constant, InvLin, InvQua
from tests.agents.counting_env import Counting

SMALL = {"hidden_sizes": (8,), "num_envs": 3, "episodes_per_iteration": 4}


@pytest.mark.parametrize(
    "hyper",
    [
        PPOHyper(**SMALL, minibatch_size=8),
        PPOHyper(**{**SMALL, "rollout": "steps", "steps_per_iteration": 30}, minibatch_size=8),
        DDPGHyper(**SMALL, buffer_size=100, batch_size=8),
    ],
    ids=["ppol-episodes", "ppol-steps", "ddpgl"],
)
def test_population_of_seeds_rules_and_limits_is_single_runs(hyper: Hyper) -> None:
    env = Counting(3, 9, cost=3.0)
    rules = [Constant(0.003), InvLin(0.01, 3.0), InvQua(0.05, 6.0)]
    controls = [
        Controls(rule, PID(), jnp.array([limit])) for rule, limit in zip(rules, (2.0, 5.0, 9.0), strict=True)
    ]
    singles = [init_state(env, hyper, c, seed) for seed, c in enumerate(controls)]
    one = eqx.filter_jit(iterate)
    many = jax.jit(jax.vmap(lambda s: iterate(env, hyper, s)))
    population = stack(singles)
    for _ in range(3):
        singles = [one(env, hyper, s)[0] for s in singles]
        population = many(population)[0]
    for alone, together in zip(singles, unstack(population), strict=True):
        for a, b in zip(jax.tree.leaves(alone), jax.tree.leaves(together), strict=True):
            if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
                a, b = jax.random.key_data(a), jax.random.key_data(b)
            np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-5)
    assert len({float(s.multiplier.value[0]) for s in singles}) == 3


def test_the_rate_moves_without_a_new_compilation() -> None:
    env = Counting(3, 9, cost=3.0)
    hyper = PPOHyper(**SMALL, minibatch_size=8)
    compiled = jax.jit(lambda s: iterate(env, hyper, s))
    state = init_state(env, hyper, Controls(InvQua(0.05, 6.0), PID(), jnp.array([2.0])), 0)
    rates = set()
    for _ in range(4):
        state, metrics = compiled(state)
        rates.add(float(metrics.learning_rate))
    assert len(rates) == 4
    assert compiled._cache_size() == 1


def test_the_multiplier_stands_still_where_no_episode_ends() -> None:
    env = Counting(9, 9, cost=3.0)
    hyper = PPOHyper(**{**SMALL, "rollout": "steps", "steps_per_iteration": 12}, minibatch_size=8)
    state = init_state(env, hyper, Controls(InvQua(0.05, 6.0), PID(), jnp.array([2.0])), 0)
    values, counts = [], []
    for _ in range(6):
        state, metrics = eqx.filter_jit(iterate)(env, hyper, state)
        values.append(float(metrics.multiplier[0]))
        counts.append(int(metrics.episodes.count))
    assert counts == [0, 0, 3, 0, 3, 0]
    assert values[0] == values[1] == 0.0
    assert values[2] > 0
    assert values[3] == values[2] != values[4]


def test_a_gradient_that_is_no_number_is_left_out_and_counted() -> None:
    env = Counting(3, 9, cost=3.0)
    hyper = PPOHyper(**SMALL, minibatch_size=8)
    state = init_state(env, hyper, Controls(InvQua(0.05, 6.0), PID(), jnp.array([2.0])), 0)
    broken = eqx.tree_at(lambda s: s.controls.rate.h1, state, jnp.float32(jnp.inf))
    after, metrics = eqx.filter_jit(iterate)(env, hyper, broken)
    assert int(metrics.losses.updates) == 0
    assert int(after.counters.skipped) == int(metrics.losses.skipped) > 0
    for old, new in zip(jax.tree.leaves(state.learner), jax.tree.leaves(after.learner), strict=True):
        np.testing.assert_array_equal(old, new)


def test_hyper_parameters_are_checked() -> None:
    from papd.errors import ConfigError

    for change in ({"gamma": 1.5}, {"hidden_sizes": ()}, {"minibatch_size": 0}, {"target_kl": 0.0}):
        with pytest.raises(ConfigError, match=next(iter(change))):
            dataclasses.replace(PPOHyper(), **change)
