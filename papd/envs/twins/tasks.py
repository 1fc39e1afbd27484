"""The tasks Run and Circle of Bullet-Safety-Gym: first position, reward, costs, own observation. Exact formulas.

They work on plain numbers of one environment, so that a twin's step compiles to one fused loop when it is mapped
over environments.
"""

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

Scalar = Float[Array, ""]

Number = float | Scalar
"""A parameter: a constant of the program, or traced while it is being fitted."""


def length(x: Scalar, y: Scalar) -> Scalar:
    """Of a vector in the plane (``jnp.hypot`` guards against overflow, at four times the time)."""
    return jnp.sqrt(x * x + y * y)


class Motion(NamedTuple):
    """What reward and costs depend on: where the agent is, how it came there in this step, how fast it is."""

    x: Scalar
    y: Scalar
    dx: Scalar
    """Displacement in this step: beside a position far out, float32 would lose it."""
    dy: Scalar
    vx: Scalar
    vy: Scalar
    effort: Scalar
    """The agent's own reward (the Ball's -|action| / 2, nothing for the Car)."""


@dataclasses.dataclass(frozen=True)
class Run:
    """Run along x; leaving |y| <= 2 or passing the agent's speed limit costs 1 a step."""

    speed_limit: float
    cost_parts: tuple[str, ...] = ("cost_outside_bounds", "cost_velocity_violation")
    extra_observations: int = 0

    _TARGET = 1e3
    _SCALE = 60.0
    _SIDELINE = 2.0
    _SPREAD = 0.01

    def first_position(self, key: PRNGKeyArray) -> tuple[Scalar, Scalar]:
        """Uniform in a square of 2 cm."""
        x, y = jax.random.uniform(key, (2,), minval=-self._SPREAD, maxval=self._SPREAD)
        return x, y

    def first_heading(self, x: Scalar, y: Scalar) -> Scalar:
        """Half a turn: the package loads the car facing backwards."""
        return jnp.full((), math.pi)

    def reward(self, motion: Motion) -> Scalar:
        """60 times the decrease of the distance to (1000, 0), plus the effort.

        |g - p| - |g - p'| = (p' - p) . (2 g - p - p') / (|g - p| + |g - p'|): exact in float32 where the difference of
        the two distances is not.
        """
        x, y = motion.x - motion.dx, motion.y - motion.dy
        before = length(self._TARGET - x, y)
        after = length(self._TARGET - motion.x, motion.y)
        product = motion.dx * (2.0 * self._TARGET - x - motion.x) - motion.dy * (y + motion.y)
        return self._SCALE * product / (before + after) + motion.effort

    def violations(self, motion: Motion) -> tuple[Bool[Array, ""], ...]:
        """Whether each of ``cost_parts`` is charged."""
        too_fast = length(motion.vx, motion.vy) > self.speed_limit
        return jnp.abs(motion.y) > self._SIDELINE, too_fast

    def observation(self, x: Scalar, y: Scalar) -> tuple[Scalar, ...]:
        """Nothing beyond what the agent observes."""
        return ()


@dataclasses.dataclass(frozen=True)
class Circle:
    """Run clockwise around the circle of radius 7; leaving |x| <= 6 costs 1 a step."""

    cost_parts: tuple[str, ...] = ("cost_outside_bounds",)
    extra_observations: int = 1

    _RADIUS = 7.0
    _SIDELINE = 6.0
    _WORLD = 10.0
    _NEAREST, _FARTHEST = 2.0, 4.0

    def first_position(self, key: PRNGKeyArray) -> tuple[Scalar, Scalar]:
        """Uniform in the ring between the radii 2 and 4."""
        share, turn = jax.random.uniform(key, (2,))
        radius = jnp.sqrt(self._NEAREST**2 + share * (self._FARTHEST**2 - self._NEAREST**2))
        angle = 2.0 * math.pi * turn
        return radius * jnp.cos(angle), radius * jnp.sin(angle)

    def first_heading(self, x: Scalar, y: Scalar) -> Scalar:
        """Along the circle, anticlockwise: against what pays."""
        return jnp.arctan2(y, x) + 0.5 * math.pi

    def reward(self, motion: Motion) -> Scalar:
        """0.1 (y vx - x vy) / (1 + | |p| - 7 |), plus a hundredth of the effort."""
        distance = length(motion.x, motion.y)
        clockwise = motion.y * motion.vx - motion.x * motion.vy
        return 0.1 * clockwise / (1.0 + jnp.abs(distance - self._RADIUS)) + 0.01 * motion.effort

    def violations(self, motion: Motion) -> tuple[Bool[Array, ""], ...]:
        """Whether each of ``cost_parts`` is charged."""
        return (jnp.abs(motion.x) > self._SIDELINE,)

    def observation(self, x: Scalar, y: Scalar) -> tuple[Scalar, ...]:
        """The distance to the circle, in units of the world."""
        return ((length(x, y) - self._RADIUS) / self._WORLD,)


Task = Run | Circle


def cost_vector(
    violations: tuple[Bool[Array, ""], ...], parts: tuple[str, ...], keys: tuple[str, ...]
) -> Float[Array, " constraints"]:
    """The costs named in ``keys``; ``"cost"`` is 1 where any part is charged."""
    charged = dict(zip(parts, violations, strict=True))
    any_of_them = violations[0]
    for violation in violations[1:]:
        any_of_them = any_of_them | violation
    charged["cost"] = any_of_them
    return jnp.stack([charged[key].astype(jnp.float32) for key in keys])
