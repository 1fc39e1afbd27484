"""The statements of the paper along runs of Algorithm 1: both sides, the margin between them, holds or not.

The runs are those of :mod:`papd.results.theory_families`: every problem under InvLin, InvQua, and a constant drawn
for it. JAX must be in float64.
"""

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from papd.core import bounds
from papd.core.apd import Optimum, Problem, Scalar, Trace, apd
from papd.core.bounds import Constants, Sides
from papd.core.multiplier import PID, GradientAscent
from papd.results.theory_assumptions import ASSUMPTIONS, Curved, assumptions, curvature_assumptions, curved
from papd.results.theory_families import RULES, Family, families, rate_of

ROUNDING = 1e-9
"""A margin counts as nonnegative down to this part of the two sides."""
STATEMENTS: dict[str, tuple[str, str]] = {
    "gap": ("0 <= D* - d(best lambda)", "Theorem 1, eq. dual_convergence, left half"),
    "dual": ("D* - d(best lambda)", "Theorem 1, eq. dual_convergence"),
    "lemma linear": ("eps, first bound", "Lemma 1, eq. invlin_tight_bound"),
    "lemma quadratic": ("eps, second bound", "Lemma 1, eq. invqua_tight_bound"),
    "root linear": ("distance^2, first root's inside", "Lemma 1, eq. invlin_tight_bound"),
    "root quadratic": ("distance^2, second root's inside", "Lemma 1, eq. invqua_tight_bound"),
    "least linear": ("1/(2L) minimises the first bound", "Theorem 2, eq. invlin_expression"),
    "least quadratic": ("mu/(2L^2) minimises the second bound", "Theorem 2, eq. invqua_expression"),
    "rate linear": ("eps under InvLin", "Theorem 2, eq. bound_inverse_linear"),
    "rate quadratic": ("eps under InvQua", "Theorem 2, eq. bound_inverse_quadratic"),
    "return": ("mean return lost, every K", "Theorem 3, eq. primal_convergence, with lambda_0"),
    "violation": ("mean violation, by lambda_K", "Theorem 4, eq. before_lemma2 of its proof"),
    "feasible": ("mean violation, like 1/sqrt(K)", "Theorem 4, repaired"),
    "multiplier": ("lambda bounded, m = 1", "Theorem 4, repaired for Algorithm 1's rates"),
    "sharp": ("eps, no slack and no L'", "beside Lemma 1"),
    "tracking": ("distance in closed loop", "beside Theorems 1 and 3"),
    "pid": ("K_P = K_D = 0 is dual ascent", "eq. pid_lagrangian"),
}
RULE_OF = {
    "rate linear": ("InvLin",),
    "rate quadratic": ("InvQua",),
    "multiplier": ("InvLin", "InvQua"),
    "least linear": ("InvLin",),
    "least quadratic": ("InvQua",),
}
"""Statements about some rules only."""


@dataclass(frozen=True)
class Check:
    """One statement on one family of problems under one rule."""

    problem: str
    rule: str
    statement: str
    equation: str
    holds: int
    """Runs along which the statement holds throughout."""
    runs: int
    margin: float
    """The least right side minus left side."""
    left: float
    right: float
    """Both sides where some run comes nearest to the bound."""
    slack: float
    """How many times too large the bound is where a run comes nearest to it: the median over the runs, not a number
    where the median run's left side is never positive.
    """


class Summary(NamedTuple):
    """What is kept of the two sides along one run."""

    holds: Array
    margin: Array
    left: Array
    right: Array
    slack: Array


def checks(count: int = 1000, seed: int = 0) -> tuple[tuple[Check, ...], tuple[Check, ...]]:
    """Every statement on every family it applies to, and every assumption on every family, all rules together.

    Most of the time is compilation, which takes one core a program, so two programs are compiled at a time.
    """
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(_of_family, families(count, seed)))
    stated = (check for of_family, _ in found for check in of_family)
    return (*stated, _pid_is_ascent(seed)), tuple(check for _, assumed in found for check in assumed)


def _of_family(family: Family) -> tuple[list[Check], list[Check]]:
    rules = tuple(RULES) if family.convex else ("InvLin", "constant")
    with jax.enable_x64(True):  # a thread has its own precision
        summaries = _summaries(family, jnp.asarray([RULES[rule] for rule in rules]))
    stated = [
        _check(family.name, rule, STATEMENTS[key], Summary(*(leaf[i] for leaf in summaries[key])))
        for i, rule in enumerate(rules)
        for key in STATEMENTS
        if key in summaries and rule in RULE_OF.get(key, RULES)
    ]
    assumed = [
        _check(family.name, "all", named[:2], summaries[key])
        for key, named in ASSUMPTIONS.items()
        if key in summaries
    ]
    return stated, assumed


def _check(problem: str, rule: str, named: tuple[str, str], summary: Summary) -> Check:
    statement, equation = named
    holds = np.asarray(summary.holds)
    slack = np.asarray(summary.slack).reshape(-1)
    middle = float(np.median(slack))
    tightest = int(np.argmin(slack)) if np.isfinite(slack).any() else int(np.argmin(summary.margin))
    return Check(
        problem=problem,
        rule=rule,
        statement=statement,
        equation=equation,
        holds=int(holds.sum()),
        runs=holds.size,
        margin=float(np.min(summary.margin)),
        left=float(np.reshape(summary.left, -1)[tightest]),
        right=float(np.reshape(summary.right, -1)[tightest]),
        slack=middle if math.isfinite(middle) else math.nan,
    )


def _summaries(family: Family, powers: Int[Array, " rules"]) -> Mapping[str, Summary]:
    def of_run(
        problem: Problem,
        optimum: Optimum,
        theta: Float[Array, " n"],
        multiplier: Float[Array, " m"],
        dual_step: Scalar,
        learning_rate: Scalar,
        power: Int[Array, ""],
    ) -> tuple[dict[str, Summary], Curved]:
        rate = rate_of(problem, power, learning_rate)
        trace = apd(problem, rate, dual_step, theta, multiplier, family.steps)
        constants = bounds.visited(problem, trace)
        if family.cost_bound is not None:
            constants = constants._replace(cost=jnp.asarray(family.cost_bound))
        sides = _of_any(problem, trace, dual_step, optimum, constants)
        if family.convex:
            sides |= _of_convex(problem, trace, dual_step, constants)
        if family.convex and family.multiplier.shape[-1] == 1:
            sides["multiplier"] = _bounded(problem, trace, dual_step, optimum, power)
        sides |= assumptions(problem, trace, optimum, constants, convex=family.convex)
        return {key: _summary(both) for key, both in sides.items()}, curved(problem, trace)

    arguments = (
        family.problems,
        family.optima,
        family.theta,
        family.multiplier,
        family.dual_step,
        family.learning_rate,
    )
    rules = jax.vmap(jax.vmap(of_run, (0,) * len(arguments) + (None,)), (None,) * len(arguments) + (0,))
    found, hessians = jax.jit(rules)(*arguments, powers)
    each = jax.vmap(jax.vmap(_summary))
    return {**found, **{key: each(both) for key, both in curvature_assumptions(hessians).items()}}


def _of_any(
    problem: Problem, trace: Trace, dual_step: Scalar, optimum: Optimum, constants: Constants
) -> dict[str, Sides]:
    """The statements that need no convexity."""
    bound = bounds.constraint_bound(problem, constants.cost)
    return {
        "gap": bounds.dual_gap(problem, trace, optimum),
        "dual": bounds.dual_convergence(problem, trace, dual_step, optimum, bound),
        "return": bounds.return_optimality(problem, trace, dual_step, optimum, bound),
        "violation": bounds.feasibility_by_multiplier(problem, trace, dual_step),
        "feasible": bounds.feasibility(problem, trace, dual_step, optimum, bound),
    }


def _of_convex(problem: Problem, trace: Trace, dual_step: Scalar, constants: Constants) -> dict[str, Sides]:
    """The lemma, the two rates, and the sharper versions of both."""
    linear, quadratic, distance = bounds.radicands(problem, trace)
    jacobians = jax.vmap(jax.jacobian(problem.costs))(trace.minimiser)
    steepest = jnp.max(jnp.linalg.norm(jacobians, axis=(-2, -1)))
    return {
        "lemma linear": bounds.lemma_linear(problem, trace, constants.lipschitz),
        "lemma quadratic": bounds.lemma_quadratic(problem, trace, constants.lipschitz),
        "root linear": Sides(distance, linear),
        "root quadratic": Sides(distance, quadratic),
        "least linear": bounds.least_linear(problem, trace),
        "least quadratic": bounds.least_quadratic(problem, trace),
        "sharp": bounds.sharp_error(problem, trace),
        "tracking": bounds.tracking(problem, trace, dual_step, steepest),
        "rate linear": bounds.rate_linear(problem, trace, constants.lipschitz),
        "rate quadratic": bounds.rate_quadratic(problem, trace, constants.lipschitz),
    }


def _bounded(
    problem: Problem, trace: Trace, dual_step: Scalar, optimum: Optimum, power: Int[Array, ""]
) -> Sides:
    largest = jnp.max(jnp.linalg.norm(trace.costs - problem.limits[None], axis=-1))
    lowest = problem.objective(problem.minimiser(jnp.zeros_like(problem.limits)))
    return bounds.multiplier_bound(problem, trace, dual_step, optimum, largest, lowest, power)


def _summary(sides: Sides) -> Summary:
    margin = sides.right - sides.left
    scale = 1.0 + jnp.abs(sides.left) + jnp.abs(sides.right)
    positive = sides.left > 1e-6 * jnp.max(jnp.abs(sides.left))
    ratio = jnp.where(positive, sides.right / jnp.where(positive, sides.left, 1.0), jnp.inf)
    nearest = jnp.where(jnp.any(positive), jnp.argmin(ratio), jnp.argmin(margin))
    return Summary(
        holds=jnp.all(margin >= -ROUNDING * scale),
        margin=jnp.min(margin),
        left=sides.left.reshape(-1)[nearest],
        right=sides.right.reshape(-1)[nearest],
        slack=jnp.min(ratio),
    )


def _pid_is_ascent(seed: int) -> Check:
    """The remark below eq. pid_lagrangian: zeta is K_I."""
    costs = jnp.asarray(np.random.default_rng(seed).uniform(0.0, 20.0, size=(200, 3)))
    limits = jnp.full(3, 10.0)
    pid, ascent = PID(0.0, 0.0005, 0.0), GradientAscent(0.0005)
    states = pid.init(3), ascent.init(3)
    apart = []
    for row in costs:
        states = pid.update(states[0], row, limits), ascent.update(states[1], row, limits)
        apart.append(jnp.max(jnp.abs(states[0].value - states[1].value)))
    worst = jnp.max(jnp.stack(apart))
    summary = Summary(worst <= 1e-12, -worst, worst, jnp.zeros_like(worst), jnp.asarray(jnp.inf))
    return _check("200 random costs", "PID", STATEMENTS["pid"], summary)
