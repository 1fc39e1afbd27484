"""A vmapped population is the same agents one by one."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papd.agents.hyper import DDPGHyper, PPOHyper
from papd.agents.iteration import init_state, iterate
from papd.agents.state import Controls, stack, unstack
from papd.core.multiplier import PID
from papd.core.rates import Constant, InvLin, InvQua
from papd.errors import ConfigError
from tests.agents.counting_env import Counting

SMALL = {"hidden_sizes": (8,), "num_envs": 3, "episodes_per_iteration": 4}


HYPERS = {
    "ppol-episodes": PPOHyper(**SMALL, minibatch_size=8),
    "ppol-steps": PPOHyper(**{**SMALL, "rollout": "steps", "steps_per_iteration": 30}, minibatch_size=8),
    "ddpgl": DDPGHyper(**SMALL, buffer_size=100, batch_size=8),
}
ENV = Counting(3, 9, cost=3.0)
ONE = {name: jax.jit(lambda s, h=hyper: iterate(ENV, h, s)) for name, hyper in HYPERS.items()}
MANY = {name: jax.jit(jax.vmap(lambda s, h=hyper: iterate(ENV, h, s))) for name, hyper in HYPERS.items()}

members = st.tuples(
    st.integers(0, 2**32 - 1),  # seed
    st.sampled_from([Constant(0.003), InvLin(0.01, 3.0), InvQua(0.05, 6.0), InvQua(0.1, 2.0, weights=0.5)]),
    st.sampled_from([PID(), PID(0.3, 0.01, 0.0, cap=1.5)]),
    st.floats(0.0, 20.0, width=32),  # cost limit
)


@pytest.mark.parametrize("kind", HYPERS)
@settings(max_examples=8, deadline=None)
@given(st.lists(members, min_size=3, max_size=3))
def test_population_of_seeds_rules_and_limits_is_single_runs(kind: str, drawn: list) -> None:
    singles = [
        init_state(ENV, HYPERS[kind], Controls(rate, rule, jnp.array([limit])), seed)
        for seed, rate, rule, limit in drawn
    ]
    for _ in range(3):
        # From the same states each time: Adam makes much of a rounding where a gradient is nearly nothing.
        population = MANY[kind](stack(singles))[0]
        singles = [ONE[kind](s)[0] for s in singles]
        for alone, together in zip(singles, unstack(population), strict=True):
            for a, b in zip(jax.tree.leaves(alone), jax.tree.leaves(together), strict=True):
                if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
                    a, b = jax.random.key_data(a), jax.random.key_data(b)
                np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-5)


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
    wrong = (
        {"gamma": 1.5},
        {"hidden_sizes": ()},
        {"minibatch_size": 0},
        {"minibatch_size": True},
        {"target_kl": 0.0},
    )
    for change in wrong:
        with pytest.raises(ConfigError, match=f"^{next(iter(change))}="):
            dataclasses.replace(PPOHyper(), **change)
