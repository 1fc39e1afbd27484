"""What the rates are for: iterations to the solution for InvLin, InvQua and constants, as the problem gets
harder.

Each rule and each constant gets the best of the same dual steps, so that no rule pays for another's. The
distance to the solution must fall to the tolerance and stay there; a run that does not within the limit
counts as infinite.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from papd.core.apd import Optimum, Problem, Scalar, constant, inv_lin, inv_qua, step
from papd.core.problems import Quadratic, random_quadratics
from papd.core.rates import Rate

Sweep = Literal["condition number", "size of lambda", "constraints"]
SWEEPS: dict[Sweep, tuple[float, ...]] = {
    "condition number": (2.0, 5.0, 10.0, 20.0, 50.0),
    "size of lambda": (0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
    "constraints": (1.0, 2.0, 4.0, 8.0),
}
CONDITION, MULTIPLIER, CONSTRAINTS, DIMENSION = 10.0, 1.0, 2, 10
"""What stays put while something else grows; fewer constraints than dimensions, so that lambda* is unique."""
CONSTANTS = np.geomspace(5e-3, 1.0, 40)
"""The grid of constant rates, common to all problems (mu is 1 in all of them)."""
DUAL_STEPS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 1.8)
"""Dual steps, in units of the inverse of the dual function's curvature at the solution: from 2 on exact dual ascent
would not settle, and below 0.001 no rule does within the limit.
"""
LARGEST = 4
"""Constants try the dual steps from this one on: the best of them never needs a smaller one."""
TOLERANCE = 1e-3
"""Of the first distance to the solution."""
CHOSEN = 3
"""The adaptive rules, which stand before the constants: 1/(2L), mu/(2L^2) and 1/L."""

Point = tuple[Float[Array, " n"], Float[Array, " m"], Int[Array, ""]]


@dataclass(frozen=True)
class Iterations:
    """One setting of one sweep: medians over the seeds of the iterations that each rule needs (inf: too
    many).
    """

    sweep: Sweep
    value: float
    inv_lin: float
    inv_qua: float
    whole_inverse: float
    """eta = 1/L(lambda): InvLin without the slack of its derivation."""
    best_constant: float
    """The best constant of the grid, chosen for each problem by itself."""
    one_constant: float
    """The one constant of the grid that is best over the whole sweep (least worst median)."""
    one_learning_rate: float
    """That constant."""


def iterations(seeds: int = 5, limit: int = 20_000) -> tuple[Iterations, ...]:
    """Run every sweep. Constants get a tenth of ``limit``: the best ones need far less. JAX must be in
    float64.
    """
    rows: list[Iterations] = []
    for sweep, values in SWEEPS.items():
        counts = [_settle(*_setting(sweep, value, seeds), limit=limit) for value in values]
        rows += _rows(sweep, np.stack([np.asarray(count) for count in counts]))
    return tuple(rows)


def _setting(
    sweep: Sweep, value: float, seeds: int
) -> tuple[Quadratic, Optimum, Float[Array, "seeds steps"]]:
    """The problems of one setting, their solutions, and the dual steps to choose from."""
    problems, optima = random_quadratics(
        7,
        seeds,
        dimension=DIMENSION,
        quadratic_constraints=int(value) if sweep == "constraints" else CONSTRAINTS,
        linear_constraints=0,
        condition=value if sweep == "condition number" else CONDITION,
        multiplier_size=value if sweep == "size of lambda" else MULTIPLIER,
    )
    return problems, optima, jnp.asarray(np.outer(_dual_scale(problems, optima), DUAL_STEPS))


def _dual_scale(problems: Quadratic, optima: Optimum) -> np.ndarray:
    """1 over the largest curvature of the dual at lambda*, ||J H^-1 J'|| with the Lagrangian's Hessian H."""
    parts = (problems.hessian, problems.cost_hessians, problems.cost_linears, optima.theta, optima.multiplier)
    scales = []
    for hessian, costs, linears, theta, multiplier in zip(*map(np.asarray, parts), strict=True):
        jacobian = costs @ theta + linears
        whole = hessian + np.tensordot(multiplier, costs, axes=1)
        scales.append(1.0 / np.linalg.norm(jacobian @ np.linalg.solve(whole, jacobian.T), 2))
    return np.asarray(scales)


@partial(jax.jit, static_argnames="limit")
def _settle(
    problems: Quadratic, optima: Optimum, dual_steps: Float[Array, "seeds steps"], *, limit: int
) -> Float[Array, "seeds rules"]:
    def of_problem(
        problem: Quadratic, optimum: Optimum, choices: Float[Array, " steps"]
    ) -> Float[Array, " rules"]:
        linear = inv_lin(problem)
        whole = Rate(2.0 * linear.h1, linear.h2, linear.power, linear.weights)
        fixed = [constant(problem, jnp.asarray(eta)) for eta in CONSTANTS]
        chosen = [linear, inv_qua(problem), whole]
        return jnp.concatenate(
            [
                _best(problem, optimum, choices, chosen, limit),
                _best(problem, optimum, choices[LARGEST:], fixed, limit // 10),
            ]
        )

    return jax.vmap(of_problem)(problems, optima, dual_steps)


def _best(
    problem: Quadratic, optimum: Optimum, choices: Float[Array, " steps"], rates: list[Rate], limit: int
) -> Float[Array, " rules"]:
    """The settling time of each rate with its best dual step."""

    def time(rate: Rate, dual_step: Scalar) -> Int[Array, ""]:
        return _settling_time(problem, optimum, rate, dual_step, limit)

    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *rates)
    times = jax.vmap(jax.vmap(time, (None, 0)), (0, None))(stacked, choices)
    return jnp.min(jnp.where(times < limit, times, jnp.inf), axis=-1)


def _settling_time(
    problem: Problem, optimum: Optimum, rate: Rate, dual_step: Scalar, limit: int
) -> Int[Array, ""]:
    """The first iteration from which on theta stays close to the solution, from ``inside`` and lambda = 0."""
    start = (optimum.inside, jnp.zeros_like(optimum.multiplier), jnp.asarray(0))
    close = TOLERANCE**2 * jnp.sum((optimum.inside - optimum.theta) ** 2)

    def body(count: Int[Array, ""], point: Point) -> Point:
        theta, multiplier = step(problem, rate, dual_step, *point[:2])
        far = ~(jnp.sum((theta - optimum.theta) ** 2) <= close)  # not a number counts as far
        return theta, multiplier, jnp.where(far, count + 1, point[2])

    last: Int[Array, ""] = jax.lax.fori_loop(0, limit, body, start)[2]
    return last


def _rows(sweep: Sweep, counts: np.ndarray) -> list[Iterations]:
    """Medians over seeds. ``counts`` is [settings, seeds, rules and constants]."""
    medians = np.median(counts, axis=1)
    one = int(np.argmin(medians[:, CHOSEN:].max(axis=0)))
    own = np.median(counts[:, :, CHOSEN:].min(axis=-1), axis=-1)
    return [
        Iterations(
            sweep=sweep,
            value=value,
            inv_lin=float(medians[i, 0]),
            inv_qua=float(medians[i, 1]),
            whole_inverse=float(medians[i, 2]),
            best_constant=float(own[i]),
            one_constant=float(medians[i, CHOSEN + one]),
            one_learning_rate=float(CONSTANTS[one]),
        )
        for i, value in enumerate(SWEEPS[sweep])
    ]
