"""Networks on many rows: the same numbers and gradients as one row at a time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papd.agents.networks import MLP, NARROW, make_mlp

SIZES = st.integers(1, 2 * NARROW)


def squares(network: MLP, x: jax.Array, *, by_rows: bool) -> jax.Array:
    out = network.rows(x) if by_rows else jax.vmap(network)(x)
    return jnp.sum(jnp.sin(out))


@settings(max_examples=25, deadline=None)
@given(
    inputs=SIZES,
    hidden=st.lists(SIZES, max_size=3),
    outputs=SIZES,
    rows=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_rows_and_their_gradients_are_those_of_vmap(
    inputs: int, hidden: list[int], outputs: int, rows: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    network = make_mlp(rng, inputs, tuple(hidden), outputs)
    x = jnp.asarray(rng.standard_normal((rows, inputs)), jnp.float32)
    found, expected = (
        jax.value_and_grad(squares, argnums=(0, 1))(network, x, by_rows=by_rows) for by_rows in (True, False)
    )
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("inputs", [NARROW, NARROW + 1])
def test_a_population_of_networks_is_differentiated_as_each_alone(inputs: int) -> None:
    rng = np.random.default_rng(0)
    networks = [make_mlp(rng, inputs, (7, 5), 2) for _ in range(3)]
    x = jnp.asarray(rng.standard_normal((6, inputs)), jnp.float32)
    gradient = jax.grad(lambda network: squares(network, x, by_rows=True))
    together = jax.vmap(gradient)(jax.tree.map(lambda *leaves: jnp.stack(leaves), *networks))
    for number, network in enumerate(networks):
        alone = gradient(network)
        for ours, theirs in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(ours[number], theirs, rtol=1e-4, atol=1e-5)
