"""The theorems on 1,000 random problems: any rule, any start, any dual step, one to four constraints."""

import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papd.core import bounds
from papd.core.apd import Optimum, apd, inv_lin, inv_qua
from papd.core.bounds import Sides
from papd.core.problems import Quadratic, random_quadratics

BATCH, STEPS = 50, 60
SHAPES = ((1, 1, 0), (3, 1, 1), (6, 2, 2))  # dimension, quadratic and linear constraints


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@functools.cache
def program(adaptive: int) -> object:
    def of_run(
        problem: Quadratic, optimum: Optimum, theta: jax.Array, multiplier: jax.Array, dual_step: jax.Array
    ) -> dict[str, Sides]:
        rate = inv_lin(problem) if adaptive == 1 else inv_qua(problem)
        trace = apd(problem, rate, dual_step, theta, multiplier, STEPS)
        constants = bounds.visited(problem, trace)
        bound = bounds.constraint_bound(problem, constants.cost)
        printed = bounds.rate_linear if adaptive == 1 else bounds.rate_quadratic
        linear, quadratic, distance = bounds.radicands(problem, trace)
        return {
            "gap": bounds.dual_gap(problem, trace, optimum),
            "dual": bounds.dual_convergence(problem, trace, dual_step, optimum, bound),
            "return": bounds.return_optimality(problem, trace, dual_step, optimum, bound),
            "violation": bounds.feasibility_by_multiplier(problem, trace, dual_step),
            "feasible": bounds.feasibility(problem, trace, dual_step, optimum, bound),
            "lemma linear": bounds.lemma_linear(problem, trace, constants.lipschitz),
            "lemma quadratic": bounds.lemma_quadratic(problem, trace, constants.lipschitz),
            "first root": Sides(distance, linear),
            "second root": Sides(distance, quadratic),
            "rate": printed(problem, trace, constants.lipschitz),
            "sharp": bounds.sharp_error(problem, trace),
        }

    return jax.jit(jax.vmap(of_run))


@settings(max_examples=20, deadline=None)
@given(
    shape=st.sampled_from(SHAPES),
    adaptive=st.sampled_from((1, 2)),
    seed=st.integers(0, 2**31 - 1),
    condition=st.floats(1.0, 100.0),
    size=st.floats(0.0, 20.0),
    dual_step=st.floats(1e-3, 1.0),
    far=st.floats(0.0, 10.0),
)
def test_every_statement_on_every_problem(
    shape: tuple[int, int, int],
    adaptive: int,
    seed: int,
    condition: float,
    size: float,
    dual_step: float,
    far: float,
) -> None:
    dimension, quadratics, linears = shape
    problems, optima = random_quadratics(
        seed,
        BATCH,
        dimension=dimension,
        quadratic_constraints=quadratics,
        linear_constraints=linears,
        condition=condition,
        multiplier_size=size,
    )
    rng = np.random.default_rng(seed)
    start = jnp.asarray(far * rng.normal(size=(BATCH, dimension)))
    multiplier = jnp.asarray(rng.uniform(0.0, 1.0 + size, size=(BATCH, quadratics + linears)))
    run = program(adaptive)
    both = run(problems, optima, start, multiplier, jnp.full(BATCH, dual_step))  # type: ignore[operator]
    for name, (left, right) in both.items():
        assert bool(jnp.all(right - left >= -1e-9 * (1.0 + jnp.abs(left) + jnp.abs(right)))), name
