"""The Ball: a sphere pushed by a horizontal force, on a floor, between walls that throw it back and up.

Bullet's own equations, sub-step by sub-step. It damps a velocity w by k w (1 + |w|), linear and angular alike, and the
floor's friction keeps the sphere rolling: with 2/5 m r^2, an impulse j on the rim changes the velocity by j and the
rolling velocity by 5/2 j, so both meet at (5/2 v + s) / (7/2). Rolling friction takes a constant share of that. Where
nothing but the floor can be touched (Run) that is all; among walls (Circle) every contact is solved as it comes.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from papd.envs.cmdp import CMDP, Box, Step
from papd.envs.twins.tasks import Motion, Number, Scalar, Task, cost_vector, length

_GRAVITY = 9.81
_TINY = 1e-9
_SLOP = 1e-5
"""Metres: the penetration in which Bullet leaves a contact at rest."""
_BOUNCING = 0.2
"""m/s: slower than this nothing bounces."""


class BallParameters(NamedTuple):
    """What calibration finds; SI units."""

    acceleration: Number
    """Of the free ball at action 1, on each axis: force / mass."""
    radius: Number
    linear_damping: Number
    angular_damping: Number
    rolling_friction: Number
    """Metres: the torque against rolling is this times the force on the floor."""
    crowding: Number
    """The floor's contact may hold four points of the ball's track: there rolling friction is more by this share."""
    crowding_speeds: tuple[Number, Number, Number]
    """m/s: where that begins, is strongest and ends."""
    walls: bool
    push_out: Number
    """The share of a penetration that a contact takes back in a sub-step: the deeper, the faster it throws back."""
    floor_friction: Number
    """Coulomb's coefficient, as ``wall_friction``."""
    floor_restitution: Number
    wall_distance: Number
    """From the arena's middle to the centre of a ball that touches a wall."""
    wall_friction: Number
    wall_rolling_friction: Number
    """Metres."""
    sub_step: Number
    """Seconds."""
    sub_steps: int
    """In a step of the environment."""


class BallState(NamedTuple):
    """One ball. ``spin_x``, ``spin_y``: the velocity that rolling with its angular velocity would give it."""

    x: Scalar
    y: Scalar
    height: Scalar
    """Of the ball's lowest point above the floor."""
    vx: Scalar
    vy: Scalar
    vz: Scalar
    spin_x: Scalar
    spin_y: Scalar
    spin_z: Scalar
    """Angular velocity about the vertical times the radius."""
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
        lying = jnp.full((), -_SLOP)
        state = BallState(x, y, lying, zero, zero, zero, zero, zero, zero, jnp.zeros((), jnp.int32))
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
    crowded = _crowded(p, length(state.vx, state.vy))

    def sub_step(_: Int[Array, ""], state: BallState) -> BallState:
        free = _accelerate(p, state, push_x, push_y)
        return _advance(p, _touch_floor(p, _touch_wall(p, free), crowded))

    moved: BallState = jax.lax.fori_loop(0, p.sub_steps, sub_step, state)
    return moved._replace(step=step)


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


def _accelerate(p: BallParameters, state: BallState, push_x: Scalar, push_y: Scalar) -> BallState:
    """Damping, the push and gravity: the velocities of a sub-step in which nothing is touched."""
    dt = p.sub_step
    speed = jnp.sqrt(state.vx**2 + state.vy**2 + state.vz**2)
    turning = jnp.sqrt(state.spin_x**2 + state.spin_y**2 + state.spin_z**2) / p.radius
    kept = 1.0 - dt * p.linear_damping * (1.0 + speed)
    spin_kept = 1.0 - dt * p.angular_damping * (1.0 + turning)
    return state._replace(
        vx=kept * state.vx + dt * p.acceleration * push_x,
        vy=kept * state.vy + dt * p.acceleration * push_y,
        vz=kept * state.vz - dt * _GRAVITY,
        spin_x=spin_kept * state.spin_x,
        spin_y=spin_kept * state.spin_y,
        spin_z=spin_kept * state.spin_z,
    )


def _advance(p: BallParameters, state: BallState) -> BallState:
    dt = p.sub_step
    return state._replace(
        x=state.x + dt * state.vx, y=state.y + dt * state.vy, height=state.height + dt * state.vz
    )


class _Rim(NamedTuple):
    """A ball seen from a contact."""

    leaving: Scalar
    """Velocity away from what is touched."""
    along: tuple[Scalar, Scalar]
    """Velocity in the two directions along it."""
    rolling: tuple[Scalar, Scalar]
    """The velocity along it that rolling on it with the present spin would give."""
    twist: Scalar
    """Spin about the line through the contact and the centre, times the radius."""


def _touch(
    p: BallParameters, rim: _Rim, gap: Scalar, bounce: Scalar, friction: Number, rolling: Scalar
) -> _Rim:
    """The impulses of one contact (per mass): out of what is touched, then against twisting, sliding and rolling.

    ``gap`` is negative inside; ``bounce`` is the velocity that restitution returns.
    """
    depth = -(gap + _SLOP)
    wanted = bounce + depth / p.sub_step * jnp.where(depth > 0.0, p.push_out, 1.0)
    pushed = jnp.where(gap < 0.0, jnp.maximum(0.0, wanted - rim.leaving), 0.0)
    most = rolling * pushed / (0.4 * p.radius)
    common = tuple((2.5 * v + s) / 3.5 for v, s in zip(rim.along, rim.rolling, strict=True))
    held = _less(common, most / 3.5)
    needed = tuple(held * c - v for c, v in zip(common, rim.along, strict=True))
    share = jnp.minimum(1.0, friction * pushed / _size(needed))
    spun = tuple(s - 2.5 * share * j for s, j in zip(rim.rolling, needed, strict=True))
    turned = _less(spun, most)
    return _Rim(
        leaving=rim.leaving + pushed,
        along=(rim.along[0] + share * needed[0], rim.along[1] + share * needed[1]),
        rolling=(turned * spun[0], turned * spun[1]),
        twist=_less((rim.twist,), most) * rim.twist,
    )


def _size(vector: tuple[Scalar, ...]) -> Scalar:
    return jnp.sqrt(sum((part * part for part in vector), start=jnp.full((), _TINY)))


def _less(vector: tuple[Scalar, ...], amount: Scalar) -> Scalar:
    """What is left, as a share, of a vector that is made shorter by an amount."""
    return jnp.maximum(0.0, 1.0 - amount / _size(vector))


def _touch_wall(p: BallParameters, ball: BallState) -> BallState:
    """The nearest wall of the octagon. Its friction acts on rolling upwards: that throws the ball up."""
    nx, ny = nearest_wall(ball.x, ball.y)
    rim = _Rim(
        leaving=-(nx * ball.vx + ny * ball.vy),
        along=(nx * ball.vy - ny * ball.vx, ball.vz),
        rolling=(-ball.spin_z, nx * ball.spin_x + ny * ball.spin_y),
        twist=ny * ball.spin_x - nx * ball.spin_y,
    )
    gap = p.wall_distance - (nx * ball.x + ny * ball.y)
    rim = _touch(p, rim, gap, jnp.zeros(()), p.wall_friction, jnp.asarray(p.wall_rolling_friction))
    sideways, climbing = rim.rolling
    return ball._replace(
        vx=-rim.leaving * nx - rim.along[0] * ny,
        vy=-rim.leaving * ny + rim.along[0] * nx,
        vz=rim.along[1],
        spin_x=climbing * nx + rim.twist * ny,
        spin_y=climbing * ny - rim.twist * nx,
        spin_z=-sideways,
    )


def _touch_floor(p: BallParameters, ball: BallState, crowded: Scalar) -> BallState:
    """The floor, on which a falling ball bounces."""
    rim = _Rim(ball.vz, (ball.vx, ball.vy), (ball.spin_x, ball.spin_y), ball.spin_z)
    bounce = jnp.where(ball.vz < -_BOUNCING, -p.floor_restitution * ball.vz, 0.0)
    rim = _touch(p, rim, ball.height, bounce, p.floor_friction, p.rolling_friction * crowded)
    (vx, vy), (spin_x, spin_y) = rim.along, rim.rolling
    return ball._replace(vx=vx, vy=vy, vz=rim.leaving, spin_x=spin_x, spin_y=spin_y, spin_z=rim.twist)


def nearest_wall(x: Scalar, y: Scalar) -> tuple[Scalar, Scalar]:
    """The outward normal of the octagon's wall that a point is nearest to."""
    half = 2.0**-0.5
    width, depth = jnp.abs(x), jnp.abs(y)
    slanted = half * (width + depth) > jnp.maximum(width, depth)
    nx = jnp.where(slanted, half, jnp.where(width >= depth, 1.0, 0.0))
    ny = jnp.where(slanted, half, jnp.where(width >= depth, 0.0, 1.0))
    return nx * jnp.sign(x), ny * jnp.sign(y)
