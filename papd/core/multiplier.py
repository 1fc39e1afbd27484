"""The Lagrange multiplier: lambda from the costs of one iteration, for one or many constraints.

Every rule is a pure function of a small state. Each constraint has its own cost, limit and multiplier, and the
constraints do not see each other: the vector case is the scalar case, m times.
"""

import math

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from papd.errors import ConfigError, is_finite

Gain = Float[Array, ""] | Float[Array, " m"]


class MultiplierState(eqx.Module):
    """What a multiplier rule carries from one iteration to the next. ``value`` is lambda."""

    value: Float[Array, " m"]
    integral: Float[Array, " m"]
    error: Float[Array, " m"]


def _gain(name: str, value: float | tuple[float, ...]) -> Gain:
    values = value if isinstance(value, tuple) else (value,)
    if not all(is_finite(v) and v >= 0 for v in values):
        raise ConfigError(
            f"{name}={value!r}: a multiplier's gain must be a finite number >= 0, or a tuple of one a constraint"
        )
    return jnp.asarray(value)


def _cap(value: float) -> Gain:
    if not value > 0:
        raise ConfigError(f"cap={value}: the largest multiplier must be > 0 (math.inf for none)")
    return jnp.asarray(value, dtype=float)


class PID(eqx.Module):
    """lambda = (K_P e + K_I I + K_D D)+ with e = J_C - d and I = (I + e)+ (the paper's PID-Lagrangian equation).

    D is the growth of the error, (e - e_previous)+, as the paper's framework computes it; ``signed_derivative`` takes
    e - e_previous as the paper prints it, so that a falling cost lowers lambda at once.
    """

    kp: Gain
    ki: Gain
    kd: Gain
    cap: Gain
    signed_derivative: bool = eqx.field(static=True)

    def __init__(
        self,
        kp: float | tuple[float, ...] = 0.05,
        ki: float | tuple[float, ...] = 0.0005,
        kd: float | tuple[float, ...] = 0.1,
        *,
        signed_derivative: bool = False,
        cap: float = math.inf,
    ):
        self.kp, self.ki, self.kd = _gain("kp", kp), _gain("ki", ki), _gain("kd", kd)
        self.cap = _cap(cap)
        self.signed_derivative = signed_derivative

    def init(self, constraints: int) -> MultiplierState:
        """No multiplier, no memory."""
        zeros = jnp.zeros(constraints)
        return MultiplierState(value=zeros, integral=zeros, error=zeros)

    def update(
        self, state: MultiplierState, costs: Float[Array, " m"], limits: Float[Array, " m"]
    ) -> MultiplierState:
        """One step of the controller on the mean episode costs of an iteration."""
        error = costs - limits
        growth = error - state.error
        derivative = growth if self.signed_derivative else jnp.maximum(growth, 0.0)
        integral = jnp.maximum(state.integral + error, 0.0)
        value = self.kp * error + self.ki * integral + self.kd * derivative
        return MultiplierState(value=jnp.clip(value, 0.0, self.cap), integral=integral, error=error)


class GradientAscent(eqx.Module):
    """lambda = [lambda + zeta (J_C - d)]+ : the dual step of Algorithm 1."""

    step: Gain
    cap: Gain

    def __init__(self, step: float | tuple[float, ...], *, cap: float = math.inf):
        self.step, self.cap = _gain("step", step), _cap(cap)

    def init(self, constraints: int) -> MultiplierState:
        """lambda_0 = 0."""
        zeros = jnp.zeros(constraints)
        return MultiplierState(value=zeros, integral=zeros, error=zeros)

    def update(
        self, state: MultiplierState, costs: Float[Array, " m"], limits: Float[Array, " m"]
    ) -> MultiplierState:
        """One projected step along the dual's supergradient."""
        error = costs - limits
        value = jnp.clip(state.value + self.step * error, 0.0, self.cap)
        return MultiplierState(value=value, integral=state.integral, error=error)


class Fixed(eqx.Module):
    """lambda held where it is put (the paper's motivation holds it at 1 and at 5)."""

    value: Gain

    def __init__(self, value: float | tuple[float, ...]):
        self.value = _gain("multiplier", value)

    def init(self, constraints: int) -> MultiplierState:
        """The fixed value from the start."""
        zeros = jnp.zeros(constraints)
        return MultiplierState(value=zeros + self.value, integral=zeros, error=zeros)

    def update(
        self, state: MultiplierState, costs: Float[Array, " m"], limits: Float[Array, " m"]
    ) -> MultiplierState:
        """Only the error is brought up to date, for the metrics."""
        return MultiplierState(value=state.value, integral=state.integral, error=costs - limits)


Multiplier = PID | GradientAscent | Fixed
