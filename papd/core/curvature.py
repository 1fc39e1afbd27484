"""How curved a loss is where it stands: the ends of its Hessian's spectrum from Hessian-vector products.

The gradient's Lipschitz constant near a point (the paper's L_R or L_C) is the larger of the two in size, and
a negative lower end says that no mu exists there. The method is Lanczos: power iteration that keeps its path
and looks for the ends in all of it, which took 30 products where plain power iteration was still far off
after 120 (see docs/theory.md).
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

Scalar = Float[Array, ""]
Vector = Float[Array, " n"]


class Ends(NamedTuple):
    """The least and the largest eigenvalue, and the larger of their residuals ||Hv - lv|| / max|l|."""

    lowest: Scalar
    highest: Scalar
    residual: Scalar

    @property
    def lipschitz(self) -> Scalar:
        """The largest eigenvalue in size: a Lipschitz constant of the gradient around the point."""
        return jnp.maximum(jnp.abs(self.lowest), jnp.abs(self.highest))


def hessian_product(loss: Callable[[Vector], Scalar], at: Vector, direction: Vector) -> Vector:
    """H v, forward over reverse."""
    product: Vector = jax.jvp(jax.grad(loss), (at,), (direction,))[1]
    return product


def spectrum_ends(
    loss: Callable[[Vector], Scalar],
    at: Vector,
    key: PRNGKeyArray,
    *,
    scale: Vector | None = None,
    products: int = 30,
) -> Ends:
    """Both ends of the Hessian's spectrum at a point, by so many Hessian-vector products (at most as many as
    parameters).

    With ``scale`` s the operator is S H S, S = diag(s): the curvature that a method sees whose direction is
    S^2 times the gradient, as Adam's is with s^2 = 1 / (sqrt(v) + eps).
    """
    weights = jnp.ones_like(at) if scale is None else scale
    count = min(products, at.shape[0])
    Carry = tuple[Float[Array, "count n"], Vector]

    def body(carry: Carry, index: Int[Array, ""]) -> tuple[Carry, tuple[Scalar, Scalar]]:
        basis, vector = carry
        basis = basis.at[index].set(vector)
        image = weights * hessian_product(loss, at, weights * vector)
        diagonal = vector @ image
        for _ in range(2):  # the second time removes what rounding left of the first
            image = image - basis.T @ (basis @ image)
        length = jnp.linalg.norm(image)
        following = jnp.where(length > 0, image / jnp.where(length > 0, length, 1.0), image)
        return (basis, following), (diagonal, length)

    start = jax.random.normal(key, at.shape, at.dtype)
    begun = (jnp.zeros((count, *at.shape), at.dtype), start / jnp.linalg.norm(start))
    _, (diagonal, beside) = jax.lax.scan(body, begun, jnp.arange(count))
    path = jnp.diag(diagonal) + jnp.diag(beside[:-1], 1) + jnp.diag(beside[:-1], -1)
    values, vectors = jnp.linalg.eigh(path)
    misses = beside[-1] * jnp.abs(vectors[-1, jnp.array([0, -1])])
    size = jnp.max(jnp.abs(values))
    return Ends(values[0], values[-1], jnp.max(misses) / jnp.where(size > 0, size, 1.0))
