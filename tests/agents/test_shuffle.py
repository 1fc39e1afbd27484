"""Minibatches are drawn from a random order of the valid rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from papd.agents.ppo_lag import LARGEST_NUMBER_BITS, _shuffle


@pytest.mark.parametrize("count", [1, 2, 7, 4000, 2**LARGEST_NUMBER_BITS, 2**LARGEST_NUMBER_BITS + 1])
def test_every_row_once_and_the_valid_ones_first(count: int) -> None:
    valid = np.random.default_rng(count).random(count) < 0.7
    order = np.asarray(_shuffle(jax.random.key(count), jnp.asarray(valid)))
    np.testing.assert_array_equal(np.sort(order), np.arange(count))
    np.testing.assert_array_equal(valid[order], np.sort(valid)[::-1])


def test_every_order_is_as_likely() -> None:
    keys = jax.random.split(jax.random.key(0), 6000)
    orders = np.asarray(jax.vmap(lambda key: _shuffle(key, jnp.array([True, True, False, True])))(keys))
    kinds, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(kinds) == 6
    assert counts.min() > 900  # 1000 expected, standard deviation 29.
    assert (orders[:, 3] == 2).all()
