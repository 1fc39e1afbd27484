"""The paper's assumptions as checks: both sides along the runs of :mod:`papd.results.theory_checks`, and off them.

A constant that holds on one run's own points says nothing about the next run, so what must hold everywhere is also
asked at points far from the run.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from papd.core import bounds
from papd.core.apd import Optimum, Problem, Trace, dual, lagrangian
from papd.core.bounds import Constants, Sides

FAR = 1e3
"""How far from the run an assumption is tried."""
POINTS = 10
"""Points of a run at which the Lagrangian's whole spectrum is computed."""

ASSUMPTIONS: dict[str, tuple[str, str, str]] = {
    "bounded cost": (
        "costs bounded, on the run and off it",
        "Assumption 1",
        "B is the run's largest ||J_C||",
    ),
    "smooth": ("curvature <= L_R + lambda L_C", "Assumption 2", "no bound would hold"),
    "convex": ("curvature >= mu", "Assumption 3", "the lemma and the two rates are left out"),
    "lipschitz": ("slope <= L', on the run and off it", "Lemma 1", "L' is the run's steepest slope"),
    "first root": ("inside of the first root >= 0", "Lemma 1", "a negative inside counts as 0"),
    "second root": ("inside of the second root >= 0", "Lemma 1", "a negative inside counts as 0"),
    "duality": ("no gap between D* and -J_R*", "Theorem 1", "D* would not be -J_R*"),
    "strictly feasible": ("a policy strictly inside", "Theorem 4", "lambda* might not exist"),
    "bounded multiplier": (
        "lambda nears lambda* again",
        "Theorem 4",
        "lambda may still grow when the run ends",
    ),
}
"""Each assumption, where the paper makes it, and what the checks do where it fails."""


def assumptions(
    problem: Problem, trace: Trace, optimum: Optimum, constants: Constants, *, convex: bool
) -> dict[str, Sides]:
    """Both sides of every assumption but the two about curvature; those of the lemma only where there is a mu."""
    far = trace.theta[:1] + FAR * jnp.eye(trace.theta.shape[-1])
    apart = jnp.linalg.norm(trace.multiplier - optimum.multiplier[None, :], axis=-1)
    half = apart.shape[0] // 2
    found = {
        "bounded cost": Sides(_norms(jax.vmap(problem.costs)(far)), jnp.full(far.shape[:1], constants.cost)),
        "duality": _gap(problem, optimum),
        "strictly feasible": Sides(problem.costs(optimum.inside), problem.limits - 1e-6),
        "bounded multiplier": Sides(jnp.max(apart[half:])[None], jnp.max(apart[:half])[None]),
    }
    if convex:
        slopes = jax.vmap(jax.grad(lagrangian, argnums=1), (None, 0, None))(problem, far, trace.multiplier[0])
        linear, quadratic, _ = bounds.radicands(problem, trace)
        found |= {
            "lipschitz": Sides(_norms(slopes), jnp.full(far.shape[:1], constants.lipschitz)),
            "first root": Sides(jnp.zeros_like(linear), linear),
            "second root": Sides(jnp.zeros_like(quadratic), quadratic),
        }
    return found


class Curved(NamedTuple):
    """What the two assumptions about curvature speak of, at some points of a run."""

    hessian: Float[Array, "*runs points n n"]
    """Of the Lagrangian."""
    smoothness: Float[Array, "*runs points"]
    """L(lambda)."""
    convexity: Float[Array, "*runs points"]
    """mu."""


def curved(problem: Problem, trace: Trace) -> Curved:
    """The Hessians along a run."""
    chosen = jnp.linspace(0, trace.rate.shape[0] - 1, POINTS).astype(int)
    hessians = jax.vmap(jax.hessian(lagrangian, argnums=1), (None, 0, 0))
    return Curved(
        hessian=hessians(problem, trace.theta[chosen], trace.multiplier[chosen]),
        smoothness=trace.smoothness[chosen],
        convexity=jnp.full(POINTS, problem.strong_convexity),
    )


def curvature_assumptions(runs: Curved) -> dict[str, Sides]:
    """Both sides of the two about curvature. The spectra are NumPy's: inside a compiled program JAX's batched
    decompositions can wait for each other for ever on two cores.
    """
    spectrum = np.linalg.eigvalsh(np.asarray(runs.hessian))
    return {
        "smooth": Sides(jnp.asarray(np.abs(spectrum).max(axis=-1)), runs.smoothness),
        "convex": Sides(runs.convexity, jnp.asarray(spectrum[..., 0])),
    }


def _gap(problem: Problem, optimum: Optimum) -> Sides:
    """|f(theta*) - d(lambda*)|, up to the rounding of the two."""
    primal, best = problem.objective(optimum.theta), dual(problem, optimum.multiplier)
    return Sides(jnp.abs(primal - best)[None], 1e-8 * (1.0 + jnp.abs(primal))[None])


def _norms(rows: Float[Array, "points k"]) -> Float[Array, " points"]:
    norms: Float[Array, " points"] = jnp.linalg.norm(rows, axis=-1)
    return norms
