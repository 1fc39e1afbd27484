"""What is wrong with, loose in or missing from the paper's assumptions, bounds, rates and constants, shown by
machine.

Every function returns a :class:`Finding` whose ``shown`` is the outcome of its check; docs/theory.md explains
each next to its equation. Findings that need a whole run are in :mod:`papd.results.theory_counterexamples`.
JAX must be in float64.
"""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from papd.core import bounds
from papd.core.problems import Quadratic, quadratic

Verdict = Literal[
    "false as printed",
    "assumptions conflict",
    "proof has a gap",
    "ambiguous",
    "vacuous",
    "loose",
    "practice departs",
]


@dataclass(frozen=True)
class Finding:
    """One statement of the paper, what is wrong with it, and the numbers that show it."""

    name: str
    equation: str
    verdict: Verdict
    claim: str
    """What the paper says."""
    evidence: str
    """What the check found, with its numbers."""
    shown: bool
    """Whether the check found it."""


def scalar_problem(centre: float, cost_curvature: float, cost_slope: float, limit: float) -> Quadratic:
    """In one dimension: f = (t - centre)^2 / 2 and J_C = cost_curvature/2 t^2 + cost_slope t, at most
    ``limit``.
    """
    return quadratic(
        np.eye(1),
        np.array([-centre]),
        np.array([[[cost_curvature]]]),
        np.array([[cost_slope]]),
        np.zeros(1),
        np.array([limit]),
    )


def bounded_and_convex() -> Finding:
    """Bounded costs, strong convexity and L' exclude each other on Theta = R^n."""
    problem, radii = scalar_problem(2.0, 1.0, 0.0, 0.5), jnp.array([1.0, 10.0, 100.0])
    centre = problem.minimiser(jnp.ones(1))

    def value(radius: jax.Array) -> jax.Array:
        return problem.objective(centre + radius) + problem.costs(centre + radius)[0]

    slopes = jax.vmap(jax.grad(value))(radii)
    costs = jnp.stack([problem.costs(centre + radius)[0] for radius in radii])
    return Finding(
        name="bounded and convex",
        equation="Assumptions 1 and 3, Lemma 1",
        verdict="assumptions conflict",
        claim="Costs are bounded, and the Lagrangian is strongly convex and L'-Lipschitz; the minimum of the dual "
        "function is over all of R^n.",
        evidence=f"At distance 1, 10, 100 from the minimiser the slope is {_list(slopes)} (it must be mu r "
        f"or more) and the cost {_list(costs)}: no L', no B. (Strong convexity for every lambda >= 0 makes the costs "
        "convex, and a convex function bounded on R^n is constant.) So B and L' are read on the set that a run visits.",
        shown=bool(jnp.all(slopes >= problem.strong_convexity * radii) & (costs[-1] > 100 * costs[0])),
    )


def linear_bound_vacuous() -> Finding:
    """Neither eq. bound_inverse_linear nor the bound that it comes from ever falls below what needs no step."""
    smooth = jnp.geomspace(1.0, 1e4, 401)
    mu = jnp.ones_like(smooth)
    printed = bounds.linear_factor(smooth, mu)
    # At its best rate, with delta = 1 and the largest gradient that L allows.
    least = bounds.linear_radicand(1.0 / (2.0 * smooth), smooth, mu, mu, smooth**2)
    return Finding(
        name="the bound of InvLin",
        equation="Theorem 2, eq. bound_inverse_linear; Lemma 1, eq. invlin_tight_bound",
        verdict="vacuous",
        claim="eps <= L' sqrt(2 delta/mu (L - mu^2/(16 L))) is what the rate 1/(2L) guarantees.",
        evidence=f"The factor before delta is never below {float(printed.min()):.4g} (it is {float(printed[100]):.3g} "
        f"at L/mu = {float(smooth[100]):.3g}), and no step at all has the factor 1. The lemma's bound itself, at its "
        f"best rate and with the largest gradient that L allows, is {float(least[100]):.3g} delta there and never "
        f"below {float(least.min()):.3g} delta. It holds, and promises less than standing still.",
        shown=bool((printed.min() >= 15.0 / 8.0 - 1e-12) & jnp.all(least >= 1.5 * smooth * (1.0 - 1e-12))),
    )


def rates_from_slack() -> Finding:
    """The two rates minimise the printed bounds; the same chains without their slack give other rates."""
    smooth, mu, distance, gradient = (jnp.asarray(x) for x in (10.0, 1.0, 1.0, 30.0))
    grid = jnp.linspace(1e-4, 0.3, 30_000)
    first = float(grid[jnp.argmin(bounds.sharp_linear_radicand(grid, smooth, mu, distance, gradient))])
    # The printed proof drops L(theta*) - L(theta) <= -mu/2 delta; kept, it doubles the middle term.
    kept = float(grid[jnp.argmin(bounds.quadratic_radicand(grid, smooth, 2.0 * mu, distance))])
    second = float(grid[jnp.argmin(bounds.contraction(grid, smooth, mu, distance))])
    rates = {"1/(2L)": 1 / (2 * smooth), "mu/(2L^2)": mu / (2 * smooth**2), "1/L": 1 / smooth}
    rates["2/(L+mu)"] = 2 / (smooth + mu)
    steps = {name: steps_to(1e-6, eta, smooth, mu) for name, eta in rates.items()}
    listed = ", ".join(f"{name} {count:.0f}" for name, count in steps.items())
    return Finding(
        name="the optimal rates",
        equation="Theorem 2, eqs. invlin_expression, invqua_expression",
        verdict="loose",
        claim="1/(2L) and mu/(2L^2) are the optimal rates.",
        evidence="They minimise the printed bounds, no more. With the descent lemma's L/2 in place of L the first "
        f"bound is least at {first:.3g} = 1/L (L = 10, mu = 1). The second is least at {kept:.3g} = mu/L^2 with the "
        f"term that its proof drops, and at {second:.3g} = 2/(L+mu) with co-coercivity of the gradient, where nothing "
        f"is given away: inverse-linear. Steps to 1e-6 on the worst quadratic: {listed}.",
        shown=max(abs(first - 0.1), abs(kept - 0.01), abs(second - 2 / 11)) < 1e-3
        and steps["2/(L+mu)"] < steps["1/L"] < steps["1/(2L)"] < steps["mu/(2L^2)"],
    )


def bounds_rank_backwards() -> Finding:
    """The bounds prefer InvQua at every condition number; the steps themselves prefer InvLin."""
    smooth = jnp.geomspace(1.0, 1e4, 401)
    mu = jnp.ones_like(smooth)
    printed = bounds.linear_factor(smooth, mu), bounds.quadratic_factor(smooth, mu)
    exact = tuple(bounds.contraction(eta, smooth, mu, mu) for eta in (1 / (2 * smooth), mu / (2 * smooth**2)))
    at_ten = [f"{float(values[100]):.3g}" for values in (*printed, *exact)]
    return Finding(
        name="the order of the two rules",
        equation="Theorem 2, eqs. bound_inverse_linear, bound_inverse_quadratic",
        verdict="loose",
        claim="Each rule has the bound that it minimises; the print does not compare the two.",
        evidence=f"At L/mu = 10 the bounds' factors are {at_ten[0]} (InvLin) and {at_ten[1]} (InvQua), the exact worst "
        f"cases of a step {at_ten[2]} and {at_ten[3]}. At every L >= mu InvQua has the smaller bound, and InvLin's "
        "step is as good or better.",
        shown=bool(jnp.all(printed[1] < printed[0]) & jnp.all(exact[0] <= exact[1] + 1e-12)),
    )


def hand_picked_constants() -> Finding:
    """The paper's h1, h2, h1', h2' against what any L_R, L_C and mu could give."""
    picked = {"PPOL": (0.001, 3.0, 0.015, 6.0), "DDPGL": (0.003, 4.5, 0.045, 7.5)}
    listed = "; ".join(
        f"{name} h2 {h2:g} and {h2_square:g}, h1'/h1 = {h1_square / h1:g}"
        for name, (h1, h2, h1_square, h2_square) in picked.items()
    )
    return Finding(
        name="the hand-picked constants",
        equation="eq. two_lr_prac",
        verdict="practice departs",
        claim="With one constraint the two rates can be written h1/(lambda + h2) and h1'/(lambda + h2')^2, with "
        "hyper-parameters h1, h2, h1', h2'.",
        evidence="Written so, h2 = h2' = L_R/L_C and h1'/h1 = mu/L_C, and since mu <= L_R, h1'/h1 <= h2 in any unit "
        f"of the rate. The experiments have: {listed}. No L_R, L_C and mu give these two pairs: they are tuned, as the "
        "paper's word hyper-parameters admits, and the theory does not tell h1 or h2.",
        shown=all(square / h1 > max(h2, h2_square) for h1, h2, square, h2_square in picked.values()),
    )


def loss_divided_twice() -> Finding:
    """The supplement divides the loss by 1 + lambda, which already takes out the growth of L(lambda)."""
    counts = {}
    for multiplier in (0.0, 10.0, 100.0):
        smooth, mu = jnp.asarray(3.0 + multiplier), jnp.asarray(0.3)
        divided, strong = smooth / (1.0 + multiplier), mu / (1.0 + multiplier)
        rates = 1.0 / (2.0 * divided), 1.0 / (2.0 * smooth)
        counts[multiplier] = [steps_to(1e-3, eta, divided, strong) for eta in rates]
    listed = "; ".join(f"lambda {at:g}: {once:.0f} and {twice:.0f}" for at, (once, twice) in counts.items())
    return Finding(
        name="the loss divided twice",
        equation="supplement, the losses of PPOL and DDPGL",
        verdict="practice departs",
        claim="The experiments' losses are the Lagrangian divided by 1 + lambda; their rates are those of Theorem 2.",
        evidence="That loss has the constant (L_R + lambda L_C)/(1 + lambda), always between L_R and L_C: "
        "Theorem 2 applied to it gives a rate that hardly moves with lambda. Gradient steps to 1e-3 with "
        f"its own 1/(2L) and with InvLin on top (L_R 3, L_C 1, mu 0.3): {listed}. Adam, with which papd and "
        "the paper's framework train, does not see the loss's scale: there the division changes almost nothing, and no "
        "theorem here covers Adam.",
        shown=counts[100.0][1] > 50 * counts[100.0][0],
    )


def steps_to(target: float, eta: jax.Array, smooth: jax.Array, mu: jax.Array) -> float:
    """Gradient steps until the distance of the worst quadratic is ``target`` of itself."""
    factor = jnp.sqrt(bounds.contraction(eta, smooth, mu, jnp.ones_like(eta)))
    return float(jnp.log(target) / jnp.log(factor))


def _list(values: jax.Array) -> str:
    return ", ".join(f"{float(value):.3g}" for value in values)
