"""The runs of `papd theory`: families of problems, where each run starts, and the rules they run under.

A thousand random quadratic programs with several constraints and a thousand with one, an LQR with a cost limit, a
tabular CMDP. JAX must be in float64.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from papd.core.apd import Optimum, Problem, Scalar, constant, inv_lin, inv_qua
from papd.core.mdps import lqr, tabular
from papd.core.problems import random_quadratics
from papd.core.rates import Rate

RULES = {"InvLin": 1, "InvQua": 2, "constant": 0}
"""Each rule and its power of L(lambda)."""


class Family(NamedTuple):
    """Problems (a batch of one kind), where each run starts, and how long it is."""

    name: str
    problems: Problem
    optima: Optimum
    theta: Float[Array, "count n"]
    multiplier: Float[Array, "count m"]
    dual_step: Float[Array, " count"]
    learning_rate: Float[Array, " count"]
    steps: int
    cost_bound: float | None
    """B/(1-gamma) where it is known beforehand."""
    convex: bool


def rate_of(problem: Problem, power: Int[Array, ""], learning_rate: Scalar) -> Rate:
    """The rule whose power is given, traced."""
    rates = (constant(problem, learning_rate), inv_lin(problem), inv_qua(problem))
    chosen: Rate = jax.tree.map(lambda *leaves: jnp.stack(leaves)[power], *rates)
    return chosen


def families(count: int, seed: int) -> tuple[Family, ...]:
    """The problems of the table."""
    rng = np.random.default_rng(seed)
    return (
        _random_family(f"{count} QPs, m = 3", rng, count, quadratic=2, linear=1),
        _random_family(f"{count} QPs, m = 1", rng, count, quadratic=1, linear=0),
        _single("LQR", *lqr(), dual_step=0.05, steps=500, cost_bound=None, convex=True),
        _single(
            "tabular CMDP", *tabular(), dual_step=0.05, steps=1000, cost_bound=1.0 / (1.0 - 0.6), convex=False
        ),
    )


def _random_family(name: str, rng: np.random.Generator, count: int, *, quadratic: int, linear: int) -> Family:
    problems, optima = random_quadratics(
        int(rng.integers(2**31)),
        count,
        quadratic_constraints=quadratic,
        linear_constraints=linear,
        multiplier_size=2.0,
    )
    near = problems.smoothness_objective + jnp.sum(
        problems.smoothness_costs * (optima.multiplier + 1.0), axis=-1
    )
    return Family(
        name=name,
        problems=problems,
        optima=optima,
        theta=jnp.asarray(rng.normal(size=optima.theta.shape)),
        multiplier=jnp.asarray(rng.uniform(0.0, 2.0, size=optima.multiplier.shape)),
        dual_step=jnp.asarray(np.geomspace(0.01, 0.5, count)),
        learning_rate=jnp.asarray(rng.uniform(0.1, 1.0, size=count)) / near,
        steps=200,
        cost_bound=None,
        convex=True,
    )


def _single(
    name: str,
    problem: Problem,
    optimum: Optimum,
    *,
    dual_step: float,
    steps: int,
    cost_bound: float | None,
    convex: bool,
) -> Family:
    problems, optima = jax.tree.map(lambda leaf: leaf[None], (problem, optimum))
    start = jnp.zeros_like(optimum.theta)
    return Family(
        name=name,
        problems=problems,
        optima=optima,
        theta=start[None],
        multiplier=jnp.zeros_like(optimum.multiplier)[None],
        dual_step=jnp.asarray([dual_step]),
        learning_rate=0.5 / (problem.smoothness_objective + 5.0 * jnp.sum(problem.smoothness_costs))[None],
        steps=steps,
        cost_bound=cost_bound,
        convex=convex,
    )
