"""The learning rate from the multiplier: eta = h1 / (w . lambda + h2) ** power.

Power 0 is a constant rate, 1 is the paper's InvLin, 2 its InvQua. One form serves all three so that a population of
agents under different rules is one ``vmap``. The weights w are the ratios of the constraints' L_C; ones by default.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from papd.errors import ConfigError, is_finite

Weights = float | tuple[float, ...]


class Rate(eqx.Module):
    """eta(lambda) = h1 / (w . lambda + h2) ** power, every field traced."""

    h1: Float[Array, ""]
    h2: Float[Array, ""]
    power: Float[Array, ""]
    weights: Float[Array, ""] | Float[Array, " m"]

    def __call__(self, multiplier: Float[Array, " m"]) -> Float[Array, ""]:
        """The learning rate at this multiplier."""
        return self.h1 / (jnp.sum(self.weights * multiplier) + self.h2) ** self.power


def _rate(h1: float, h2: float, power: float, weights: Weights, h1_name: str) -> Rate:
    if not (is_finite(h1) and h1 > 0):
        raise ConfigError(f"{h1_name}={h1!r}: the learning rate's numerator must be a finite number > 0")
    if not (is_finite(h2) and h2 > 0):
        raise ConfigError(
            f"h2={h2!r}: h2 must be a finite number > 0, or the rate has no bound at lambda = 0"
        )
    each = weights if isinstance(weights, tuple) else (weights,)
    if not all(is_finite(w) and w >= 0 for w in each):
        raise ConfigError(f"weights={weights!r}: a finite number >= 0, or a tuple of one a constraint")
    numerator, offset, exponent = (jnp.asarray(number, dtype=float) for number in (h1, h2, power))
    return Rate(numerator, offset, exponent, jnp.asarray(weights, dtype=float))


def Constant(learning_rate: float) -> Rate:  # noqa: N802
    """The same learning rate whatever the multiplier."""
    return _rate(learning_rate, 1.0, 0.0, 1.0, "learning_rate")


def InvLin(h1: float, h2: float, *, weights: Weights = 1.0) -> Rate:  # noqa: N802
    """eta = h1 / (w . lambda + h2), the inverse-linear rule (eq. two_lr_prac)."""
    return _rate(h1, h2, 1.0, weights, "h1")


def InvQua(h1: float, h2: float, *, weights: Weights = 1.0) -> Rate:  # noqa: N802
    """eta = h1 / (w . lambda + h2)**2, the inverse-quadratic rule (eq. two_lr_prac)."""
    return _rate(h1, h2, 2.0, weights, "h1")
