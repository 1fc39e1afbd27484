"""The statements of the paper about a run of Algorithm 1, each as its two sides, and sharper or repaired ones
beside them.

Every function returns :class:`Sides`: the statement is that ``left <= right`` in every entry. Entry k speaks
of step k, or, where the statement is about the first K steps, entry K-1 does. docs/theory.md explains each
next to its equation.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from papd.core.apd import Optimum, Problem, Scalar, Trace, lagrangian

Steps = Float[Array, " K"]


class Sides(NamedTuple):
    """Both sides of ``left <= right``."""

    left: Float[Array, "*shape"]
    right: Float[Array, "*shape"]


class Constants(NamedTuple):
    """What holds on the set that one run visited, where nothing holds everywhere."""

    lipschitz: Scalar
    """L': the least that serves every step of the run. A larger one is allowed and makes the bounds weaker."""
    cost: Scalar
    """B / (1 - gamma): the largest ||J_C|| (Assumption bound_cost bounds it beforehand)."""


def visited(problem: Problem, trace: Trace) -> Constants:
    """The constants of the visited set.

    Where the Lagrangian is convex, its slope on the way from theta*(lambda_k) to a point is largest at that point,
    so L' is the largest gradient at (theta_k, lambda_k) and (theta_{k+1}, lambda_k).
    """
    gradient = jax.vmap(jax.grad(lagrangian, argnums=1), (None, 0, 0))
    after = jnp.sum(gradient(problem, trace.theta[1:], trace.multiplier[:-1]) ** 2, axis=-1)
    return Constants(
        lipschitz=jnp.sqrt(jnp.max(jnp.maximum(trace.gradient_square, after))),
        cost=jnp.max(jnp.linalg.norm(trace.costs, axis=-1)),
    )


def constraint_bound(problem: Problem, cost: Scalar) -> Scalar:
    """B / (1 - gamma) + ||d||, which bounds ||g|| (eq. g_norm_square)."""
    bound: Scalar = cost + jnp.linalg.norm(problem.limits)
    return bound


def _mean(values: Steps) -> Steps:
    """The mean of the first K entries, for every K."""
    sums: Steps = jnp.cumsum(values)
    return sums / _counts(values)


def _counts(values: Float[Array, "K *rest"]) -> Steps:
    return jnp.arange(1, values.shape[0] + 1, dtype=values.dtype)


# The lemma and the theorem of the two rates


def linear_radicand(eta: Array, smooth: Array, mu: Array, distance: Array, gradient: Array) -> Array:
    """What stands under the root of eq. invlin_tight_bound: a bound on ||theta_{k+1} - theta*||^2."""
    return 2.0 / mu * (smooth * distance + (smooth * eta**2 - eta) * gradient)


def quadratic_radicand(eta: Array, smooth: Array, mu: Array, distance: Array) -> Array:
    """What stands under the root of eq. invqua_tight_bound: another bound on ||theta_{k+1} - theta*||^2."""
    return (1.0 + eta**2 * smooth**2 - eta * mu) * distance


def sharp_linear_radicand(eta: Array, smooth: Array, mu: Array, distance: Array, gradient: Array) -> Array:
    """The first chain with the descent lemma's L/2 in place of L: least at eta = 1/L."""
    return 2.0 / mu * (smooth / 2.0 * distance + (smooth * eta**2 / 2.0 - eta) * gradient)


def contraction(eta: Array, smooth: Array, mu: Array, distance: Array) -> Array:
    """The second chain with nothing given away: max(|1 - eta mu|, |1 - eta L|)^2 delta, least at eta = 2/(L +
    mu).
    """
    return jnp.maximum(jnp.abs(1.0 - eta * mu), jnp.abs(1.0 - eta * smooth)) ** 2 * distance


def radicands(problem: Problem, trace: Trace) -> tuple[Steps, Steps, Steps]:
    """Along a run: the printed radicands (linear, quadratic) and the squared distance that both bound."""
    mu, smooth, distance = problem.strong_convexity, trace.smoothness, trace.distance_square
    linear = linear_radicand(trace.rate, smooth, mu, distance, trace.gradient_square)
    quadratic = quadratic_radicand(trace.rate, smooth, mu, distance)
    return linear, quadratic, jnp.sum((trace.theta[1:] - trace.minimiser[:-1]) ** 2, axis=-1)


def lemma_linear(problem: Problem, trace: Trace, lipschitz: Scalar) -> Sides:
    """Eq. invlin_tight_bound."""
    return Sides(trace.error, lipschitz * jnp.sqrt(jnp.maximum(radicands(problem, trace)[0], 0.0)))


def lemma_quadratic(problem: Problem, trace: Trace, lipschitz: Scalar) -> Sides:
    """Eq. invqua_tight_bound."""
    return Sides(trace.error, lipschitz * jnp.sqrt(jnp.maximum(radicands(problem, trace)[1], 0.0)))


SCAN = tuple(i / 50.0 for i in range(201))
"""Where the two rates are tried against others: these multiples of themselves."""


def least_linear(problem: Problem, trace: Trace) -> Sides:
    """Theorem invlinqua_bound, first half: at every tenth step the radicand at 1/(2L) against that at SCAN
    times it.
    """
    smooth, mu, distance, gradient = (
        values[::10, None]
        for values in (
            trace.smoothness,
            jnp.full_like(trace.smoothness, problem.strong_convexity),
            trace.distance_square,
            trace.gradient_square,
        )
    )
    best = 1.0 / (2.0 * smooth)
    others = best * jnp.asarray(SCAN)[None, :]
    left = linear_radicand(best, smooth, mu, distance, gradient)
    return _against(left, linear_radicand(others, smooth, mu, distance, gradient))


def least_quadratic(problem: Problem, trace: Trace) -> Sides:
    """Theorem invlinqua_bound, second half, for mu/(2L^2)."""
    smooth, distance = trace.smoothness[::10, None], trace.distance_square[::10, None]
    mu = jnp.full_like(smooth, problem.strong_convexity)
    best = mu / (2.0 * smooth**2)
    others = best * jnp.asarray(SCAN)[None, :]
    return _against(
        quadratic_radicand(best, smooth, mu, distance), quadratic_radicand(others, smooth, mu, distance)
    )


def _against(one: Float[Array, "K 1"], many: Float[Array, "K scan"]) -> Sides:
    return Sides(jnp.broadcast_to(one, many.shape), many)


def linear_factor(smooth: Array, mu: Array) -> Array:
    """Eq. bound_inverse_linear says eps <= L' sqrt(factor * delta) with this factor: never below 15/8."""
    return 2.0 / mu * (smooth - mu**2 / (16.0 * smooth))


def quadratic_factor(smooth: Array, mu: Array) -> Array:
    """The same of eq. bound_inverse_quadratic."""
    return 1.0 - mu**2 / (4.0 * smooth**2)


def rate_linear(problem: Problem, trace: Trace, lipschitz: Scalar) -> Sides:
    """Eq. bound_inverse_linear, for a run under InvLin."""
    factor = linear_factor(trace.smoothness, problem.strong_convexity)
    return Sides(trace.error, lipschitz * jnp.sqrt(factor * trace.distance_square))


def rate_quadratic(problem: Problem, trace: Trace, lipschitz: Scalar) -> Sides:
    """Eq. bound_inverse_quadratic, for a run under InvQua."""
    factor = quadratic_factor(trace.smoothness, problem.strong_convexity)
    return Sides(trace.error, lipschitz * jnp.sqrt(factor * trace.distance_square))


def sharp_error(problem: Problem, trace: Trace) -> Sides:
    """eps_k <= L/2 contraction(eta) delta_k: no L' at all, and it vanishes as fast as eps_k does."""
    bound = contraction(trace.rate, trace.smoothness, problem.strong_convexity, trace.distance_square)
    return Sides(trace.error, trace.smoothness / 2.0 * bound)


def tracking(problem: Problem, trace: Trace, dual_step: Scalar, jacobian: Scalar) -> Sides:
    """The closed loop that the paper leaves open: delta_k itself, from the first distance and the drift of
    theta*(lambda).

    ||theta_{k+1} - theta*(lambda_{k+1})|| <= q_k ||theta_k - theta*(lambda_k)|| + (M/mu) zeta
    ||g(theta_{k+1})||, with q_k the contraction and M a bound on the Jacobian of g at the minimisers.
    """
    mu = problem.strong_convexity
    factors = jnp.sqrt(contraction(trace.rate, trace.smoothness, mu, jnp.ones_like(trace.rate)))
    moved = dual_step * jnp.linalg.norm(trace.costs[1:] - problem.limits[None], axis=-1)

    def body(distance: Scalar, inputs: tuple[Scalar, Scalar]) -> tuple[Scalar, Scalar]:
        return inputs[0] * distance + jacobian / mu * inputs[1], distance

    _, bound = lax.scan(body, jnp.sqrt(trace.distance_square[0]), (factors, moved))
    return Sides(jnp.sqrt(trace.distance_square[1:]), bound[1:])  # both are the first distance at k = 0


# The three theorems about a whole run


def dual_convergence(
    problem: Problem, trace: Trace, dual_step: Scalar, optimum: Optimum, bound: Scalar
) -> Sides:
    """Eq. dual_convergence for every K; ``bound`` is B/(1-gamma) + ||d||. D* = f(theta*) where duality is
    strong.
    """
    gap = dual_gap(problem, trace, optimum).right
    start = jnp.sum((trace.multiplier[0] - optimum.multiplier) ** 2)
    right = start / (2.0 * dual_step * _counts(trace.error)) + dual_step * bound**2 / 2.0 + _mean(trace.error)
    return Sides(gap, right)


def dual_gap(problem: Problem, trace: Trace, optimum: Optimum) -> Sides:
    """The left half of eq. dual_convergence: 0 <= D* - d(lambda_best), the best of lambda_0 .. lambda_K, every K."""
    best = jnp.maximum(lax.cummax(trace.dual[1:]), trace.dual[0])
    gap = problem.objective(optimum.theta) - best
    return Sides(jnp.zeros_like(gap), gap)


def return_optimality(
    problem: Problem, trace: Trace, dual_step: Scalar, optimum: Optimum, bound: Scalar
) -> Sides:
    """Theorem primal_bound for every K, with the ||lambda_0||^2 / (2 zeta K) that its proof has and its print
    drops.
    """
    lost = _mean(trace.objective[1:]) - problem.objective(optimum.theta)
    start = jnp.sum(trace.multiplier[0] ** 2) / (2.0 * dual_step * _counts(trace.error))
    return Sides(lost, _mean(trace.error) + dual_step * bound**2 / 2.0 + start)


def feasibility_by_multiplier(problem: Problem, trace: Trace, dual_step: Scalar) -> Sides:
    """Eq. before_lemma2: the mean violation is at most (lambda_K - lambda_0) / (zeta K), each constraint for
    itself.
    """
    violation = trace.costs[1:] - problem.limits[None]
    counts = _counts(violation)[:, None]
    grown = (trace.multiplier[1:] - trace.multiplier[:1]) / (dual_step * counts)
    return Sides(jnp.cumsum(violation, axis=0) / counts, grown)


def feasibility(problem: Problem, trace: Trace, dual_step: Scalar, optimum: Optimum, bound: Scalar) -> Sides:
    """Theorem feasibility repaired: for every K, from the first inequality of the proof of Theorem
    dual_convergence.

    ||lambda_K - lambda*||^2 <= ||lambda_0 - lambda*||^2 + zeta^2 K G^2 + 2 zeta sum eps, so the mean
    violation falls like 1/sqrt(K) as long as the mean error stays bounded. A dual optimum must exist; a strictly
    feasible point is one reason why it does in a convex problem.
    """
    left, _ = feasibility_by_multiplier(problem, trace, dual_step)
    counts = _counts(trace.error)
    start = jnp.sum((trace.multiplier[0] - optimum.multiplier) ** 2)
    radius = jnp.sqrt(start + dual_step**2 * counts * bound**2 + 2.0 * dual_step * jnp.cumsum(trace.error))
    gap = (optimum.multiplier - trace.multiplier[0])[None]
    return Sides(left, (gap + radius[:, None]) / (dual_step * counts)[:, None])


def potential(problem: Problem, power: Array, multiplier: Array) -> Array:
    """Phi with dPhi/d(lambda^2) = 2 eta(lambda), for one constraint: about lambda under InvLin, log lambda
    under InvQua.
    """
    base, slope = problem.smoothness_objective, problem.smoothness_costs[0]
    ratio = slope * multiplier / base
    linear = 2.0 * base / slope**2 * (ratio - jnp.log1p(ratio))
    square = 2.0 * problem.strong_convexity / slope**2 * (jnp.log1p(ratio) - ratio / (1.0 + ratio))
    return jnp.where(power == 1, linear, square)


def multiplier_bound(
    problem: Problem,
    trace: Trace,
    dual_step: Scalar,
    optimum: Optimum,
    bound: Scalar,
    lowest: Scalar,
    power: Array,
) -> Sides:
    """With one constraint and a point s strictly inside, lambda stays bounded under InvLin (power 1), InvQua (2).

    V_k = Phi(lambda_k) + 2 zeta ||theta_k - s||^2 never passes the right side. A gradient step with eta <= 1/L
    has 2 eta (L(theta+, lambda) - L(s, lambda)) <= (1 - eta mu) D - D+ with D = ||theta - s||^2. The dual step
    has 2 zeta lambda g(theta+) >= lambda+^2 - lambda^2 - zeta^2 G^2, and Phi is concave in lambda^2. Together
    V+ - V <= 4 zeta eta (slack + lambda g(s) - mu D/2) with slack = f(s) - inf f + zeta G^2/2 and g(s) < 0: V
    grows only where lambda < slack/|g(s)| and D < 2 slack/mu, and then by at most 4 zeta eta(0) slack.
    ``lowest`` is inf f, ``bound`` is G.
    """
    inside = problem.costs(optimum.inside)[0] - problem.limits[0]
    slack = problem.objective(optimum.inside) - lowest + dual_step * bound**2 / 2.0
    distance = jnp.sum((trace.theta - optimum.inside[None]) ** 2, axis=-1)
    value = potential(problem, power, trace.multiplier[:, 0]) + 2.0 * dual_step * distance
    mu, base = problem.strong_convexity, problem.smoothness_objective
    first_rate = jnp.where(power == 1, 1.0 / base, mu / base**2)
    region = potential(problem, power, -slack / inside) + 2.0 * dual_step * (2.0 * slack / mu)
    ceiling = jnp.maximum(value[0], region + 2.0 * dual_step * first_rate * slack)
    return Sides(value, jnp.full_like(value, ceiling))
