"""The Ball: a sphere pushed by a horizontal force, rolling on the floor, sometimes thrown back by a wall.

Bullet's own equations, sub-step by sub-step. It damps a velocity w by k w (1 + |w|), linear and angular alike, and the
floor's friction keeps the sphere rolling: with 2/5 m r^2, an impulse j on the rim changes the velocity by j and the
rolling velocity by 5/2 j, so both meet at (5/2 v + s) / (7/2). Rolling friction takes a constant share of that.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from papd.envs.cmdp import CMDP, Box, Step
from papd.envs.twins.tasks import Motion, Number, Scalar, Task, cost_vector, length

_GRAVITY = 9.81
_TINY = 1e-9


class BallParameters(NamedTuple):
    """What calibration finds; SI units."""

    acceleration: Number
    """Of the free ball at action 1, on each axis: force / mass."""
    radius: Number
    linear_damping: Number
    angular_damping: Number
    rolling_friction: Number
    """Metres: the torque against rolling is this times the weight."""
    crowding: Number
    """The floor's contact may hold four points of the ball's track: there rolling friction is more by this share."""
    crowding_speeds: tuple[Number, Number, Number]
    """m/s: where that begins, is strongest and ends."""
    walls: bool
    wall_distance: Number
    """From the arena's middle to the centre of a ball that touches a wall."""
    wall_restitution: Number
    wall_friction: Number
    sub_step: Number
    """Seconds."""
    sub_steps: int
    """In a step of the environment."""


class BallState(NamedTuple):
    """One ball. ``spin_x``, ``spin_y``: the velocity that rolling with its angular velocity would give it."""

    x: Scalar
    y: Scalar
    vx: Scalar
    vy: Scalar
    spin_x: Scalar
    spin_y: Scalar
    spin_z: Scalar
    """Angular velocity about the vertical times the radius."""
    flight: Scalar
    """Seconds until it is back on the floor, after a wall threw it up."""
    step: Int[Array, ""]


class Ball(CMDP):
    """SafetyBallRun-v0 or SafetyBallCircle-v0 as a JAX CMDP."""

    env_id: str = eqx.field(static=True)
    task: Task = eqx.field(static=True)
    length: int = eqx.field(static=True)
    parameters: BallParameters = eqx.field(static=True)
    cost_keys: tuple[str, ...] = eqx.field(static=True)

    @property
    def name(self) -> str:
        """The id of the real environment."""
        return self.env_id

    @property
    def observation_space(self) -> Box:
        """Position / 10, velocity / 5, angular velocity / 10, and the task's own."""
        size = 7 + self.task.extra_observations
        return Box((-1000.0,) * size, (1000.0,) * size)

    @property
    def action_space(self) -> Box:
        """The force's share on each axis."""
        return Box((-1.0, -1.0), (1.0, 1.0))

    @property
    def cost_names(self) -> tuple[str, ...]:
        """The keys of ``info`` that are constraints."""
        return self.cost_keys

    @property
    def max_episode_steps(self) -> int:
        """As registered by the package."""
        return self.length

    def reset(self, key: PRNGKeyArray) -> tuple[BallState, Float[Array, " observation"]]:
        """At rest, where the task puts it."""
        x, y = self.task.first_position(key)
        zero = jnp.zeros(())
        state = BallState(x, y, zero, zero, zero, zero, zero, zero, jnp.zeros((), jnp.int32))
        return state, self.observe(state)

    def step(self, key: PRNGKeyArray, state: BallState, action: Float[Array, " action"]) -> Step:
        """Deterministic, as the real one: ``key`` decides nothing."""
        push = jnp.clip(action, -1.0, 1.0)
        moved = move(self.parameters, state, push[0], push[1])
        effort = -0.5 * length(push[0], push[1])
        motion = Motion(moved.x, moved.y, moved.x - state.x, moved.y - state.y, moved.vx, moved.vy, effort)
        cost = cost_vector(self.task.violations(motion), self.task.cost_parts, self.cost_keys)
        ended = moved.step >= self.length
        return Step(
            moved, self.observe(moved), self.task.reward(motion), cost, jnp.zeros((), bool), truncated=ended
        )

    def observe(self, state: BallState) -> Float[Array, " observation"]:
        """The observation of a state."""
        scale = 0.1 / self.parameters.radius
        own = (0.1 * state.x, 0.1 * state.y, 0.2 * state.vx, 0.2 * state.vy)
        spin = (-scale * state.spin_y, scale * state.spin_x, scale * state.spin_z)
        return jnp.stack(own + spin + self.task.observation(state.x, state.y))


def move(p: BallParameters, state: BallState, push_x: Scalar, push_y: Scalar) -> BallState:
    """One step of the environment."""
    step = state.step + 1
    if not p.walls:
        vx, vy, dx, dy = _roll(p, state.vx, state.vy, push_x, push_y)
        return state._replace(x=state.x + dx, y=state.y + dy, vx=vx, vy=vy, spin_x=vx, spin_y=vy, step=step)
    flying = state.flight > 0.5 * p.sub_step * p.sub_steps
    landed_x, landed_y = (2.5 * state.vx + state.spin_x) / 3.5, (2.5 * state.vy + state.spin_y) / 3.5
    vx, vy, dx, dy = _roll(p, landed_x, landed_y, push_x, push_y)
    fx, fy, fdx, fdy = _fly(p, state.vx, state.vy, push_x, push_y)
    turning = length(state.spin_x, state.spin_y) / p.radius
    spin_kept = 1.0 - p.sub_step * p.sub_steps * p.angular_damping * (1.0 + turning)
    moved = state._replace(
        x=state.x + jnp.where(flying, fdx, dx),
        y=state.y + jnp.where(flying, fdy, dy),
        vx=jnp.where(flying, fx, vx),
        vy=jnp.where(flying, fy, vy),
        spin_x=jnp.where(flying, spin_kept * state.spin_x, vx),
        spin_y=jnp.where(flying, spin_kept * state.spin_y, vy),
        spin_z=spin_kept * state.spin_z,
        flight=jnp.maximum(0.0, state.flight - p.sub_step * p.sub_steps),
        step=step,
    )
    return _touch_wall(p, moved)


def _roll(
    p: BallParameters, vx: Scalar, vy: Scalar, push_x: Scalar, push_y: Scalar
) -> tuple[Scalar, Scalar, Scalar, Scalar]:
    """The velocity after a step of rolling, and the displacement."""
    dt = p.sub_step
    speed = jnp.sqrt(vx * vx + vy * vy + _TINY)
    lost = p.rolling_friction * _GRAVITY * dt / (1.4 * p.radius) * _crowded(p, speed)
    gained = dt * p.acceleration * 2.5 / 3.5
    # Both velocities of the rim are damped; 5/2 of the linear and 1 of the angular one make 7/2 of the common one.
    constant = 1.0 - dt * (2.5 * p.linear_damping + p.angular_damping) / 3.5
    growing = dt * (2.5 * p.linear_damping + p.angular_damping / p.radius) / 3.5
    dx, dy = jnp.zeros(()), jnp.zeros(())
    for _ in range(p.sub_steps):
        damped = constant - growing * speed
        vx, vy = damped * vx + gained * push_x, damped * vy + gained * push_y
        free = jnp.sqrt(vx * vx + vy * vy + _TINY)
        speed = jnp.maximum(0.0, free - lost)
        vx, vy = vx * (speed / free), vy * (speed / free)
        dx, dy = dx + dt * vx, dy + dt * vy
    return vx, vy, dx, dy


def _crowded(p: BallParameters, speed: Scalar) -> Scalar:
    begins, most, ends = p.crowding_speeds
    rise, fall = (speed - begins) / (most - begins), (ends - speed) / (ends - most)
    return 1.0 + p.crowding * jnp.maximum(0.0, jnp.minimum(rise, fall))


def _fly(
    p: BallParameters, vx: Scalar, vy: Scalar, push_x: Scalar, push_y: Scalar
) -> tuple[Scalar, Scalar, Scalar, Scalar]:
    """The same without the floor."""
    time, n = p.sub_step * p.sub_steps, p.sub_steps
    kept = 1.0 - time * p.linear_damping * (1.0 + length(vx, vy))
    after_x, after_y = kept * vx + time * p.acceleration * push_x, kept * vy + time * p.acceleration * push_y
    old, new = time * (n - 1) / (2 * n), time * (n + 1) / (2 * n)
    return after_x, after_y, old * vx + new * after_x, old * vy + new * after_y


def _touch_wall(p: BallParameters, after: BallState) -> BallState:
    """The nearest wall of the octagon throws back what crossed it in this step.

    Bullet pushes it out the faster the deeper a sub-step left it in the wall, which is a matter of chance: the
    restitution is the mean. Friction at the wall acts along it, against sliding and spin about the vertical, and
    upwards, against rolling on: that throws the ball up for a while, free of the floor.
    """
    nx, ny = nearest_wall(after.x, after.y)
    outwards, along = nx * after.vx + ny * after.vy, nx * after.vy - ny * after.vx
    outside = nx * after.x + ny * after.y - p.wall_distance
    hit = (outside > 0.0) & (outwards > 0.0)
    rolling, spinning = nx * after.spin_x + ny * after.spin_y, along + after.spin_z
    slip = jnp.sqrt(rolling * rolling + spinning * spinning + _TINY)
    pushed = jnp.where(hit, (1.0 + p.wall_restitution) * outwards, 0.0)
    share = jnp.minimum(1.0 / 3.5, p.wall_friction * pushed / slip)
    rubbed, climbed = share * spinning, share * rolling
    inwards = jnp.where(hit, (1.0 + p.wall_restitution) * outside, 0.0)
    return after._replace(
        x=after.x - inwards * nx,
        y=after.y - inwards * ny,
        vx=after.vx - pushed * nx + rubbed * ny,
        vy=after.vy - pushed * ny - rubbed * nx,
        spin_x=after.spin_x - 2.5 * climbed * nx,
        spin_y=after.spin_y - 2.5 * climbed * ny,
        spin_z=after.spin_z - 2.5 * rubbed,
        flight=after.flight + 2.0 / _GRAVITY * jnp.maximum(climbed, 0.0),
    )


def nearest_wall(x: Scalar, y: Scalar) -> tuple[Scalar, Scalar]:
    """The outward normal of the octagon's wall that a point is nearest to."""
    half = 2.0**-0.5
    width, depth = jnp.abs(x), jnp.abs(y)
    slanted = half * (width + depth) > jnp.maximum(width, depth)
    nx = jnp.where(slanted, half, jnp.where(width >= depth, 1.0, 0.0))
    ny = jnp.where(slanted, half, jnp.where(width >= depth, 0.0, 1.0))
    return nx * jnp.sign(x), ny * jnp.sign(y)
