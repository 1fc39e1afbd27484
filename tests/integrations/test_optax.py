"""The adaptive rate in Optax: the right size of a step, no recompilation, and a constrained problem solved."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from papd.core.multiplier import PID
from papd.core.rates import InvLin, InvQua
from papd.errors import ConfigError
from papd.integrations.optax import adaptive, adaptive_rate, set_multiplier

PARAMS = {"w": jnp.arange(3.0), "b": jnp.float32(1.0)}
GRADIENTS = {"w": jnp.array([1.0, -2.0, 3.0]), "b": jnp.float32(0.5)}


def close(found: Any, expected: Any) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), found, expected)


@pytest.mark.parametrize("multiplier", [0.0, 0.7, 12.0])
def test_adaptive_rate_scales_by_minus_eta(multiplier: float) -> None:
    optimizer = adaptive_rate(InvQua(0.015, 6.0))
    updates, state = optimizer.update(GRADIENTS, optimizer.init(PARAMS), PARAMS, multiplier=multiplier)
    eta = 0.015 / (multiplier + 6.0) ** 2
    close(updates, jax.tree.map(lambda leaf: -eta * leaf, GRADIENTS))
    assert float(state.rate) == pytest.approx(eta)


def test_adaptive_adam_is_adam_at_the_rates_of_its_multipliers() -> None:
    optimizer, state = adaptive(optax.adam, InvLin(0.001, 3.0), eps=1e-5), None
    state = optimizer.init(PARAMS)
    reference = optax.adam(1.0, eps=1e-5)
    memory = reference.init(PARAMS)
    for multiplier in (0.0, 1.0, 0.2, 4.0):
        updates, state = optimizer.update(GRADIENTS, state, PARAMS, multiplier=multiplier)
        unit, memory = reference.update(GRADIENTS, memory, PARAMS)
        close(updates, jax.tree.map(lambda leaf, m=multiplier: 0.001 / (m + 3.0) * leaf, unit))


def test_weight_decay_follows_the_rate_too() -> None:
    optimizer = adaptive(optax.adamw, InvLin(0.001, 3.0), weight_decay=0.1)
    updates, _ = optimizer.update(GRADIENTS, optimizer.init(PARAMS), PARAMS, multiplier=2.0)
    expected, _ = optax.adamw(0.001 / 5.0, weight_decay=0.1).update(
        GRADIENTS, optax.adamw(0.0002, weight_decay=0.1).init(PARAMS), PARAMS
    )
    close(updates, expected)


@pytest.mark.parametrize("make", [adaptive_rate, lambda rate: adaptive(optax.adam, rate)])
def test_compiled_once_however_the_multiplier_moves(make: Any) -> None:
    optimizer = make(InvQua(0.015, 6.0))
    traces = []

    @jax.jit
    def step(state: Any, multiplier: jax.Array) -> Any:
        traces.append(1)
        return optimizer.update(GRADIENTS, state, PARAMS, multiplier=multiplier)

    state = optimizer.init(PARAMS)
    sizes = []
    for multiplier in (0.0, 1.0, 5.0):
        updates, state = step(state, jnp.asarray([multiplier]))
        sizes.append(abs(float(updates["w"][0])))
    assert len(traces) == 1
    assert sizes[0] > sizes[1] > sizes[2] > 0.0


def test_multiplier_set_in_a_chains_state_for_loops_that_pass_no_argument() -> None:
    optimizer = optax.chain(optax.clip_by_global_norm(1e6), adaptive(optax.sgd, InvLin(0.3, 3.0)))
    state = optimizer.init(PARAMS)
    first, state = optimizer.update(GRADIENTS, state, PARAMS)
    close(first, jax.tree.map(lambda leaf: -0.1 * leaf, GRADIENTS))
    second, state = optimizer.update(GRADIENTS, set_multiplier(state, 3.0), PARAMS)
    close(second, jax.tree.map(lambda leaf: -0.05 * leaf, GRADIENTS))
    third, _ = optimizer.update(GRADIENTS, state, PARAMS)
    close(third, second)


def test_extra_arguments_reach_a_chain() -> None:
    optimizer = optax.chain(optax.scale_by_adam(), adaptive_rate(InvLin(0.3, 3.0)))
    updates, _ = optimizer.update(GRADIENTS, optimizer.init(PARAMS), PARAMS, multiplier=jnp.asarray(3.0))
    assert float(jnp.abs(updates["w"]).max()) == pytest.approx(0.05, rel=1e-3)


def test_several_constraints_and_their_weights() -> None:
    optimizer = adaptive_rate(InvLin(1.0, 1.0, weights=(1.0, 0.5)), constraints=2)
    updates, _ = optimizer.update(
        {"x": jnp.ones(1)}, optimizer.init(None), None, multiplier=jnp.array([1.0, 4.0])
    )
    assert float(updates["x"][0]) == pytest.approx(-1.0 / (1.0 + 2.0 + 1.0))


def test_state_is_a_plain_pytree() -> None:
    optimizer = adaptive(optax.adam, InvLin(0.001, 3.0))
    state = optimizer.init(PARAMS)
    leaves, structure = jax.tree.flatten(state)
    again = jax.tree.unflatten(structure, leaves)
    close(optimizer.update(GRADIENTS, again, PARAMS)[0], optimizer.update(GRADIENTS, state, PARAMS)[0])


def test_constrained_problem_ends_at_its_limit() -> None:
    """max x with x^2 <= 4: the multiplier finds its 1/4, x its 2."""
    rule, optimizer = PID(0.05, 0.01, 0.1), adaptive(optax.sgd, InvLin(0.5, 2.0))
    x, limit = jnp.float32(0.0), jnp.array([4.0])
    multiplier, state = rule.init(1), optimizer.init(x)

    @jax.jit
    def iteration(x: Any, multiplier: Any, state: Any) -> Any:
        multiplier = rule.update(multiplier, jnp.atleast_1d(x**2), limit)
        lagrangian = lambda x: (-x + multiplier.value[0] * x**2) / (1.0 + multiplier.value[0])  # noqa: E731
        updates, state = optimizer.update(jax.grad(lagrangian)(x), state, x, multiplier=multiplier.value)
        return optax.apply_updates(x, updates), multiplier, state

    for _ in range(800):
        x, multiplier, state = iteration(x, multiplier, state)
    assert float(x) == pytest.approx(2.0, abs=0.02)
    assert float(multiplier.value[0]) == pytest.approx(0.25, abs=0.01)


def test_mistakes_are_told() -> None:
    with pytest.raises(ConfigError, match="leave it out"):
        adaptive(optax.adam, InvLin(0.001, 3.0), learning_rate=0.1)
    with pytest.raises(ConfigError, match="no learning_rate"):
        adaptive(optax.scale_by_adam, InvLin(0.001, 3.0))
    optimizer = adaptive_rate(InvLin(0.001, 3.0))
    with pytest.raises(ConfigError, match="constraints=2"):
        optimizer.update(GRADIENTS, optimizer.init(PARAMS), PARAMS, multiplier=jnp.zeros(2))
    with pytest.raises(ConfigError, match="holds 0 multipliers"):
        set_multiplier(optax.adam(0.1).init(PARAMS), 1.0)
