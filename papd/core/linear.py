"""Small linear systems in plain arithmetic.

``jnp.linalg.solve`` hands a batch to LAPACK through a call that shares its work over XLA's threads; where one compiled
program holds several such calls, they can wait for each other for ever on a machine of two cores (jax 0.10.2).
"""

import jax.numpy as jnp
from jaxtyping import Array, Float


def solve(matrix: Float[Array, "n n"], right: Float[Array, " n"]) -> Float[Array, " n"]:
    """x with ``matrix @ x = right``, by Gauss and Jordan without pivots.

    That is stable for what the theory needs: positive definite matrices and diagonally dominant ones.
    """
    rows = jnp.concatenate([matrix, right[:, None]], axis=1)
    for i in range(right.shape[0]):
        pivot = rows[i] / rows[i, i]
        rows = (rows - rows[:, i, None] * pivot[None, :]).at[i].set(pivot)
    return rows[:, -1]
