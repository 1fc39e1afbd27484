"""Advantages and n-step sums against loops that read like their definitions."""

import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papd.agents.returns import gae, n_step

GAMMA, LAMBDA = 0.9, 0.7


def random_batch(seed: int, steps: int, count: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    terminated = rng.random((steps, count)) < 0.15
    truncated = (rng.random((steps, count)) < 0.15) & ~terminated

    def draw(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    return {
        "signals": draw(steps, count, 2),
        "values": draw(steps, count, 2),
        "next_values": draw(steps, count, 2),
        "next_observation": draw(steps, count, 3),
        "terminated": terminated,
        "ended": terminated | truncated,
    }


def slow_gae(b: dict[str, np.ndarray]) -> np.ndarray:
    steps, count, signals = b["signals"].shape
    advantages = np.zeros((steps, count, signals))
    for n in range(count):
        for t in reversed(range(steps)):
            bootstrap = 0.0 if b["terminated"][t, n] else GAMMA * b["next_values"][t, n]
            delta = b["signals"][t, n] + bootstrap - b["values"][t, n]
            later = 0.0 if b["ended"][t, n] or t + 1 == steps else advantages[t + 1, n]
            advantages[t, n] = delta + GAMMA * LAMBDA * later
    return advantages


def slow_n_step(
    b: dict[str, np.ndarray], t: int, n: int, horizon: int
) -> tuple[np.ndarray, np.ndarray, float]:
    steps = b["signals"].shape[0]
    total, discount = np.zeros(2), 1.0
    for at in range(t, min(t + horizon, steps)):
        total = total + discount * b["signals"][at, n]
        discount *= GAMMA
        if b["ended"][at, n]:
            return total, b["next_observation"][at, n], 0.0 if b["terminated"][at, n] else discount
    return total, b["next_observation"][at, n], discount


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_gae_is_its_definition(seed: int) -> None:
    b = random_batch(seed, 9, 3)
    arrays = [jnp.asarray(b[k]) for k in ("signals", "values", "next_values", "terminated", "ended")]
    advantages, returns = gae(*arrays, GAMMA, LAMBDA)
    np.testing.assert_allclose(advantages, slow_gae(b), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(returns, np.asarray(advantages) + b["values"], rtol=1e-5, atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), horizon=st.sampled_from([1, 2, 5]))
def test_n_step_is_its_definition(seed: int, horizon: int) -> None:
    b = random_batch(seed, 9, 3)
    arrays = [jnp.asarray(b[k]) for k in ("signals", "next_observation", "terminated", "ended")]
    sums, bootstrap, discounts = (np.asarray(x) for x in n_step(*arrays, GAMMA, horizon))
    for t in range(9):
        for n in range(3):
            total, where, discount = slow_n_step(b, t, n, horizon)
            np.testing.assert_allclose(sums[t, n], total, rtol=1e-4, atol=1e-5)
            np.testing.assert_array_equal(bootstrap[t, n], where)
            np.testing.assert_allclose(discounts[t, n], discount, rtol=1e-5)


def test_a_time_limit_is_bootstrapped_and_a_terminal_state_is_not() -> None:
    one = jnp.ones((1, 1, 1))
    yes, no = jnp.ones((1, 1), bool), jnp.zeros((1, 1), bool)
    truncated, _ = gae(one, 0 * one, 10 * one, no, yes, GAMMA, LAMBDA)
    terminated, _ = gae(one, 0 * one, 10 * one, yes, yes, GAMMA, LAMBDA)
    assert float(truncated[0, 0, 0]) == 10.0
    assert float(terminated[0, 0, 0]) == 1.0


def test_shapes_and_broadcasting_are_checked_while_the_tests_run() -> None:
    """tests/conftest.py: jaxtyping with beartype on every function of papd, and strict rank promotion."""
    signals, flags = jnp.zeros((4, 2, 1)), jnp.zeros((4, 2), bool)
    with pytest.raises(jaxtyping.TypeCheckError):
        gae(signals, signals, signals[:3], flags, flags, GAMMA, LAMBDA)
    with pytest.raises(jaxtyping.TypeCheckError):
        gae(signals, signals, signals, flags.astype(jnp.float32), flags, GAMMA, LAMBDA)
    with pytest.raises(ValueError, match="rank_promotion"):
        _ = jnp.zeros((4, 2)) + jnp.zeros(2)
