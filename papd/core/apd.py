"""Algorithm 1 (APD) where the constants are known: gradient steps on theta, projected ascent on lambda.

A :class:`Problem` is ``minimise f(theta) = -J_R(theta)`` subject to ``J_C(theta) <= d``, with everything in
closed form that the paper's theorems speak of: the constants L_R, L_C and mu, and the exact minimiser of the
Lagrangian. The paper's statements about a run are in :mod:`papd.core.bounds`.
"""

import abc
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from papd.core.rates import Rate

Scalar = Float[Array, ""]


class Problem(eqx.Module):
    """A constrained problem whose constants are known (eq. SRL_problem, with f = -J_R).

    The methods are of one problem; a batch of them, stacked on a leading axis, is for ``vmap``.
    """

    limits: eqx.AbstractVar[Float[Array, "*batch m"]]
    """d: one limit for each cost."""
    smoothness_objective: eqx.AbstractVar[Float[Array, "*batch"]]
    """L_R: the gradient of J_R is Lipschitz with this constant."""
    smoothness_costs: eqx.AbstractVar[Float[Array, "*batch m"]]
    """L_C: the same for each cost."""
    strong_convexity: eqx.AbstractVar[Float[Array, "*batch"]]
    """mu: the Lagrangian is this strongly convex for every lambda >= 0; 0 or less where it is not."""

    @abc.abstractmethod
    def objective(self, theta: Float[Array, " n"]) -> Scalar:
        """f = -J_R."""

    @abc.abstractmethod
    def costs(self, theta: Float[Array, " n"]) -> Float[Array, " m"]:
        """J_C."""

    @abc.abstractmethod
    def minimiser(self, multiplier: Float[Array, " m"]) -> Float[Array, " n"]:
        """theta*(lambda): where the Lagrangian is least at this multiplier."""


class Optimum(NamedTuple):
    """What is known of a problem's solution, and a point strictly inside its constraints."""

    theta: Float[Array, " n"]
    multiplier: Float[Array, " m"]
    inside: Float[Array, " n"]


class Trace(NamedTuple):
    """A whole run of K steps. Entry k of ``rate``, ``error`` and so on belongs to the step from k to k+1."""

    theta: Float[Array, "K1 n"]
    """theta_0 .. theta_K."""
    multiplier: Float[Array, "K1 m"]
    """lambda_0 .. lambda_K."""
    minimiser: Float[Array, "K1 n"]
    """theta*(lambda_k); the paper writes theta*_{k+1}."""
    dual: Float[Array, " K1"]
    """d(lambda_k)."""
    objective: Float[Array, " K1"]
    """f(theta_k) = -J_R."""
    costs: Float[Array, "K1 m"]
    """J_C(theta_k)."""
    rate: Float[Array, " K"]
    """eta_k."""
    smoothness: Float[Array, " K"]
    """L(lambda_k)."""
    gradient_square: Float[Array, " K"]
    """|| grad_theta L(theta_k, lambda_k) ||^2."""
    distance_square: Float[Array, " K"]
    """delta_k = || theta_k - theta*(lambda_k) ||^2."""
    error: Float[Array, " K"]
    """eps_k = L(theta_{k+1}, lambda_k) - min_theta L(theta, lambda_k)."""


def constraints(problem: Problem, theta: Float[Array, " n"]) -> Float[Array, " m"]:
    """g(theta) = J_C(theta) - d (eq. constraint_func)."""
    return problem.costs(theta) - problem.limits


def lagrangian(problem: Problem, theta: Float[Array, " n"], multiplier: Float[Array, " m"]) -> Scalar:
    """f(theta) + lambda^T g(theta) (eq. SRL_problem_lagrangian)."""
    return problem.objective(theta) + multiplier @ constraints(problem, theta)


def dual(problem: Problem, multiplier: Float[Array, " m"]) -> Scalar:
    """d(lambda) = min_theta L(theta, lambda) (eq. dual_function)."""
    return lagrangian(problem, problem.minimiser(multiplier), multiplier)


def smoothness(problem: Problem, multiplier: Float[Array, " m"]) -> Scalar:
    """L(lambda) = L_R + lambda^T L_C (eq. Lipschitz_lagrangian)."""
    return problem.smoothness_objective + multiplier @ problem.smoothness_costs


def inv_lin(problem: Problem) -> Rate:
    """eta = 1 / (2 L(lambda)) (eq. invlin_expression) as the rate h1 / (w . lambda + h2)."""
    half = jnp.full_like(problem.smoothness_objective, 0.5)
    return Rate(half, problem.smoothness_objective, jnp.ones_like(half), problem.smoothness_costs)


def inv_qua(problem: Problem) -> Rate:
    """eta = mu / (2 L(lambda)^2) (eq. invqua_expression) as the rate h1 / (w . lambda + h2)^2."""
    half = problem.strong_convexity / 2.0
    return Rate(half, problem.smoothness_objective, jnp.full_like(half, 2.0), problem.smoothness_costs)


def constant(problem: Problem, learning_rate: Scalar) -> Rate:
    """The same eta at every multiplier, in the same form (one compiled program serves all three)."""
    zero = jnp.zeros_like(learning_rate)
    return Rate(learning_rate, jnp.ones_like(zero), zero, problem.smoothness_costs)


def step(
    problem: Problem,
    rate: Rate,
    dual_step: Scalar,
    theta: Float[Array, " n"],
    multiplier: Float[Array, " m"],
) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
    """One iteration of Algorithm 1 (eqs. primal_update and dual_update)."""
    gradient = jax.grad(lagrangian, argnums=1)(problem, theta, multiplier)
    theta = theta - rate(multiplier) * gradient
    return theta, jnp.maximum(multiplier + dual_step * constraints(problem, theta), 0.0)


def apd(
    problem: Problem,
    rate: Rate,
    dual_step: Scalar,
    theta: Float[Array, " n"],
    multiplier: Float[Array, " m"],
    steps: int,
) -> Trace:
    """Algorithm 1 from (theta_0, lambda_0), and all that the theorems ask of the run.

    Pure, one ``lax.scan``: ``vmap`` it over starts, rates, dual steps or whole problems.
    """
    Point = tuple[Float[Array, " n"], Float[Array, " m"]]

    def body(point: Point, _: None) -> tuple[Point, Point]:
        return step(problem, rate, dual_step, *point), point

    last, (thetas, multipliers) = jax.lax.scan(body, (theta, multiplier), length=steps)
    thetas = jnp.concatenate([thetas, last[0][None]])
    multipliers = jnp.concatenate([multipliers, last[1][None]])
    return _measure(problem, rate, thetas, multipliers)


def _measure(
    problem: Problem, rate: Rate, thetas: Float[Array, "K1 n"], multipliers: Float[Array, "K1 m"]
) -> Trace:
    def of_point(theta: Float[Array, " n"], multiplier: Float[Array, " m"]) -> Scalar:
        return lagrangian(problem, theta, multiplier)

    value, gradient = jax.vmap(of_point), jax.vmap(jax.grad(of_point))
    minimisers = jax.vmap(problem.minimiser)(multipliers)
    duals = value(minimisers, multipliers)
    before = multipliers[:-1]
    return Trace(
        theta=thetas,
        multiplier=multipliers,
        minimiser=minimisers,
        dual=duals,
        objective=jax.vmap(problem.objective)(thetas),
        costs=jax.vmap(problem.costs)(thetas),
        rate=jax.vmap(rate)(before),
        smoothness=jax.vmap(lambda multiplier: smoothness(problem, multiplier))(before),
        gradient_square=jnp.sum(jnp.square(gradient(thetas[:-1], before)), axis=-1),
        distance_square=jnp.sum(jnp.square(thetas[:-1] - minimisers[:-1]), axis=-1),
        error=value(thetas[1:], before) - duals[:-1],
    )
