"""Quadratic programs whose constants and optima are known (MDPs: :mod:`papd.core.mdps`).

They are built with NumPy in float64 and handed over as JAX arrays; the theory runner holds JAX in float64
meanwhile.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from papd.core.apd import Optimum, Problem, Scalar
from papd.core.linear import solve
from papd.errors import ConfigError


class Quadratic(Problem):
    """f = 1/2 t'Qt + q't, J_C,i = 1/2 t'Q_i t + q_i't + o_i, with Q positive definite and every Q_i
    semidefinite.

    The Lagrangian's Hessian is Q + sum lambda_i Q_i, so mu is the least eigenvalue of Q, L_R its largest and
    L_C,i the largest of Q_i: globally, for every lambda >= 0. Lipschitz constants of values hold on bounded
    sets only.
    """

    hessian: Float[Array, "*batch n n"]
    linear: Float[Array, "*batch n"]
    cost_hessians: Float[Array, "*batch m n n"]
    cost_linears: Float[Array, "*batch m n"]
    cost_offsets: Float[Array, "*batch m"]
    limits: Float[Array, "*batch m"]
    smoothness_objective: Float[Array, "*batch"]
    smoothness_costs: Float[Array, "*batch m"]
    strong_convexity: Float[Array, "*batch"]

    def objective(self, theta: Float[Array, " n"]) -> Scalar:
        """f."""
        return 0.5 * theta @ self.hessian @ theta + self.linear @ theta

    def costs(self, theta: Float[Array, " n"]) -> Float[Array, " m"]:
        """J_C."""
        return 0.5 * (self.cost_hessians @ theta) @ theta + self.cost_linears @ theta + self.cost_offsets

    def minimiser(self, multiplier: Float[Array, " m"]) -> Float[Array, " n"]:
        """Solve (Q + sum lambda_i Q_i) t = -(q + sum lambda_i q_i)."""
        hessian = self.hessian + jnp.tensordot(multiplier, self.cost_hessians, axes=1)
        return solve(hessian, -(self.linear + multiplier @ self.cost_linears))


def quadratic(
    hessian: np.ndarray,
    linear: np.ndarray,
    cost_hessians: np.ndarray,
    cost_linears: np.ndarray,
    cost_offsets: np.ndarray,
    limits: np.ndarray,
) -> Quadratic:
    """A :class:`Quadratic`, or a batch of them on leading axes, its constants by eigenvalues."""
    objective = np.linalg.eigvalsh(hessian)
    costs = np.linalg.eigvalsh(cost_hessians)
    scale = np.maximum(1.0, np.abs(costs).max())
    if objective.min() <= 0 or costs.min() < -1e-9 * scale:
        raise ConfigError(
            "quadratic: the Hessian of the objective must be positive definite (its least eigenvalue "
            f"is {objective.min():.3g}) and each cost's semidefinite ({costs.min():.3g}), or no mu holds"
        )
    parts = (hessian, linear, cost_hessians, cost_linears, cost_offsets, limits)
    constants = (objective[..., -1], np.maximum(costs[..., -1], 0.0), objective[..., 0])
    return Quadratic(*(jnp.asarray(np.asarray(part, dtype=float)) for part in (*parts, *constants)))


def _with_spectrum(rng: np.random.Generator, eigenvalues: np.ndarray) -> np.ndarray:
    """Random symmetric matrices with these eigenvalues (on the last axis)."""
    size = eigenvalues.shape[-1]
    basis, _ = np.linalg.qr(rng.normal(size=(*eigenvalues.shape, size)))
    matrix = (basis * eigenvalues[..., None, :]) @ np.swapaxes(basis, -1, -2)
    return np.asarray((matrix + np.swapaxes(matrix, -1, -2)) / 2)


def _slopes(rng: np.random.Generator, inward: np.ndarray, m: int) -> np.ndarray:
    """Gradients of the costs at theta*: each falls at least 1 along the unit vector ``inward``, so that the
    curvature (at most 1) leaves every constraint at -1/2 or less one unit in.
    """
    slopes = rng.normal(size=(inward.shape[0], m, inward.shape[1]))
    fall = rng.uniform(1.0, 2.0, size=(inward.shape[0], m))
    excess = np.einsum("cmn,cn->cm", slopes, inward) + fall
    return np.asarray(slopes - excess[..., None] * inward[:, None, :])


def random_quadratics(
    seed: int,
    count: int,
    *,
    dimension: int = 6,
    quadratic_constraints: int = 2,
    linear_constraints: int = 1,
    condition: float = 10.0,
    multiplier_size: float = 1.0,
) -> tuple[Quadratic, Optimum]:
    """``count`` random problems (leading axis) with their exact optima, and a point strictly inside.

    The optimum is put there rather than looked for: theta*, lambda* and the costs are drawn, the limits make
    every constraint tight at theta*, and f is centred where stationarity holds. The last quadratic constraint
    is slack with multiplier 0 when there are several. ``condition`` is L_R / mu with mu = 1;
    ``multiplier_size`` is the sum of lambda*.
    """
    m, n = quadratic_constraints + linear_constraints, dimension
    if n < 1 or m < 1 or condition < 1 or multiplier_size < 0:
        raise ConfigError(
            f"random_quadratics: dimension {n} and the number of constraints {m} must be >= 1, "
            f"condition {condition} >= 1 and multiplier_size {multiplier_size} >= 0"
        )
    rng = np.random.default_rng(seed)
    optimum, direction = rng.normal(size=(2, count, n))
    inside = optimum + direction / np.linalg.norm(direction, axis=-1, keepdims=True)
    multipliers = rng.uniform(0.5, 1.5, size=(count, m))
    slack = np.zeros(m)
    if m > 1 and quadratic_constraints > 0:
        slack[quadratic_constraints - 1] = 1.0
    multipliers = multipliers * (1.0 - slack)
    multipliers *= multiplier_size / multipliers.sum(axis=-1, keepdims=True)

    spectrum = np.geomspace(1.0, condition, n) if n > 1 else np.full(1, condition)
    hessian = _with_spectrum(rng, np.broadcast_to(spectrum, (count, n)))
    curvature = rng.uniform(0.1, 1.0, size=(count, m, n))
    curvature[:, quadratic_constraints:] = 0.0
    cost_hessians = _with_spectrum(rng, curvature)
    slopes = _slopes(rng, inside - optimum, m)

    product = (cost_hessians @ optimum[:, None, :, None])[..., 0]
    cost_linears = slopes - product
    at_optimum = np.einsum("cmn,cn->cm", 0.5 * product + cost_linears, optimum)
    linear = -(hessian @ optimum[..., None])[..., 0] - np.einsum("cm,cmn->cn", multipliers, slopes)
    # Every cost is 1 at theta*: a limit of 1 is tight there, a limit of 2 slack.
    problem = quadratic(
        hessian,
        linear,
        cost_hessians,
        cost_linears,
        1.0 - at_optimum,
        np.broadcast_to(1.0 + slack, (count, m)),
    )
    return problem, Optimum(jnp.asarray(optimum), jnp.asarray(multipliers), jnp.asarray(inside))
