"""The statements of the paper along runs of Algorithm 1: both sides, the margin between them, holds or not.

Problems: a thousand random quadratic programs, an LQR with a cost limit, a tabular CMDP. Rules: InvLin,
InvQua, and a constant drawn for each problem. JAX must be in float64.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from papd.core import bounds
from papd.core.apd import Optimum, Problem, Scalar, Trace, apd, constant, inv_lin, inv_qua
from papd.core.bounds import Constants, Sides
from papd.core.mdps import lqr, tabular
from papd.core.multiplier import PID, GradientAscent
from papd.core.problems import random_quadratics
from papd.core.rates import Rate

ROUNDING = 1e-9
"""A margin counts as nonnegative down to this part of the two sides."""
RULES = {"InvLin": 1, "InvQua": 2, "constant": 0}
"""Each rule and its power of L(lambda)."""

STATEMENTS: dict[str, tuple[str, str]] = {
    "dual": ("the dual converges", "Theorem 1, eq. dual_convergence"),
    "lemma linear": ("eps under the first bound", "Lemma 1, eq. invlin_tight_bound"),
    "lemma quadratic": ("eps under the second bound", "Lemma 1, eq. invqua_tight_bound"),
    "root linear": (
        "the first root's inside is no less than the distance",
        "Lemma 1, eq. invlin_tight_bound",
    ),
    "root quadratic": (
        "the second root's inside is no less than the distance",
        "Lemma 1, eq. invqua_tight_bound",
    ),
    "least linear": ("1/(2L) minimises the first bound", "Theorem 2, eq. invlin_expression"),
    "least quadratic": ("mu/(2L^2) minimises the second bound", "Theorem 2, eq. invqua_expression"),
    "rate linear": ("eps under InvLin's bound", "Theorem 2, eq. bound_inverse_linear"),
    "rate quadratic": ("eps under InvQua's bound", "Theorem 2, eq. bound_inverse_quadratic"),
    "return": ("the mean return, every K", "Theorem 3, eq. primal_convergence (with lambda_0)"),
    "violation": ("the mean violation under lambda_K/(zeta K)", "proof of Theorem 4, eq. before_lemma2"),
    "feasible": ("the mean violation falls like 1/sqrt(K)", "Theorem 4, repaired"),
    "multiplier": ("the multiplier stays bounded (m = 1)", "Theorem 4, repaired for APD"),
    "sharp": ("eps <= L/2 contraction delta", "Lemma 1, without slack"),
    "tracking": ("the distance in closed loop", "what Theorems 1 and 3 leave open"),
    "pid": ("PID with K_P = K_D = 0 is projected dual ascent", "eq. pid_lagrangian"),
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
    """How many times too large the bound is where a run comes nearest to it (the median over the runs)."""


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


class Summary(NamedTuple):
    """What is kept of the two sides along one run."""

    holds: Array
    margin: Array
    left: Array
    right: Array
    slack: Array


def checks(count: int = 1000, seed: int = 0) -> tuple[Check, ...]:
    """Every statement on every family it applies to."""
    found = [check for family in families(count, seed) for check in _of_family(family)]
    return (*found, _pid_is_ascent(seed))


def families(count: int, seed: int) -> tuple[Family, ...]:
    """The problems of the table."""
    rng = np.random.default_rng(seed)
    return (
        _random_family(f"{count} QPs, m = 3", rng, count, quadratic=2, linear=1),
        _random_family(f"{count} QPs, m = 1", rng, count, quadratic=1, linear=0),
        _single("LQR", *lqr(), dual_step=0.05, steps=500, cost_bound=None, convex=True),
        _single(
            "tabular CMDP", *tabular(), dual_step=0.02, steps=3000, cost_bound=1.0 / (1.0 - 0.6), convex=False
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


def _of_family(family: Family) -> list[Check]:
    """Every rule in one compiled program; what speaks of another rule than the run's own is left out."""
    rules = RULES if family.convex else ("InvLin", "constant")
    powers = jnp.asarray([RULES[rule] for rule in rules])
    summaries = _summaries(family, powers)
    return [
        _check(family.name, rule, key, Summary(*(leaf[i] for leaf in summaries[key])))
        for i, rule in enumerate(rules)
        for key in STATEMENTS
        if key in summaries and rule in RULE_OF.get(key, RULES)
    ]


def _check(problem: str, rule: str, key: str, summary: Summary) -> Check:
    statement, equation = STATEMENTS[key]
    holds = np.asarray(summary.holds)
    slack = np.asarray(summary.slack).reshape(-1)
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
        slack=float(np.median(slack)) if np.isfinite(slack).all() else math.nan,
    )


def _rate(problem: Problem, power: Int[Array, ""], learning_rate: Scalar) -> Rate:
    rates = (constant(problem, learning_rate), inv_lin(problem), inv_qua(problem))
    chosen: Rate = jax.tree.map(lambda *leaves: jnp.stack(leaves)[power], *rates)
    return chosen


def _summaries(family: Family, powers: Int[Array, " rules"]) -> Mapping[str, Summary]:
    def of_run(
        problem: Problem,
        optimum: Optimum,
        theta: Float[Array, " n"],
        multiplier: Float[Array, " m"],
        dual_step: Scalar,
        learning_rate: Scalar,
        power: Int[Array, ""],
    ) -> dict[str, Summary]:
        rate = _rate(problem, power, learning_rate)
        trace = apd(problem, rate, dual_step, theta, multiplier, family.steps)
        constants = bounds.visited(trace)
        if family.cost_bound is not None:
            constants = constants._replace(cost=jnp.asarray(family.cost_bound))
        sides = _of_any(problem, trace, dual_step, optimum, constants)
        if family.convex:
            sides |= _of_convex(problem, trace, dual_step, constants)
        if family.convex and family.multiplier.shape[-1] == 1:
            sides["multiplier"] = _bounded(problem, trace, dual_step, optimum, power)
        return {key: _summary(both) for key, both in sides.items()}

    arguments = (
        family.problems,
        family.optima,
        family.theta,
        family.multiplier,
        family.dual_step,
        family.learning_rate,
    )
    rules = jax.vmap(jax.vmap(of_run, (0,) * len(arguments) + (None,)), (None,) * len(arguments) + (0,))
    found: Mapping[str, Summary] = jax.jit(rules)(*arguments, powers)
    return found


def _of_any(
    problem: Problem, trace: Trace, dual_step: Scalar, optimum: Optimum, constants: Constants
) -> dict[str, Sides]:
    """The statements that need no convexity."""
    bound = bounds.constraint_bound(problem, constants.cost)
    return {
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
    return _check("200 random costs", "PID", "pid", summary)
