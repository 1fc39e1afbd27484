"""The Ball: a sphere pushed by a horizontal force, rolling on the floor. Bullet's own equations, sub-step by sub-step.

Bullet damps a velocity w by k w (1 + |w|), linear and angular alike; the floor's friction keeps the sphere rolling
and opposes it with the rolling friction; a wall pushes out what has entered it.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from papd.envs.cmdp import CMDP, Box, Step
from papd.envs.twins.tasks import Motion, Scalar, Task, cost_vector

_GRAVITY = 9.81
_TINY = 1e-9


class BallParameters(NamedTuple):
    """What calibration finds; SI units."""

    mass: float
    radius: float
    force: float
    """Newton at action 1, on each axis."""
    linear_damping: float
    angular_damping: float
    rolling_friction: float
    """Metres: the torque against rolling is this times the weight."""
    sliding_friction: float
    """Of the floor."""
    spinning_friction: float
    """Metres: the torque against spin about the vertical is this times the weight."""
    wall_distance: float
    """From the arena's middle to the centre of a ball that touches a wall."""
    wall_recovery: float
    """Share of the penetration of a wall that one sub-step undoes; that speed is kept: it is the bounce."""
    wall_friction: float
    sub_step: float
    """Seconds."""
    sub_steps: int
    """In a step of the environment."""
    walls: bool


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
        state = BallState(x, y, zero, zero, zero, zero, zero, jnp.zeros((), jnp.int32))
        return state, self.observe(state)

    def step(self, key: PRNGKeyArray, state: BallState, action: Float[Array, " action"]) -> Step:
        """Deterministic: ``key`` decides nothing."""
        push = jnp.clip(action, -1.0, 1.0)
        moved = move(self.parameters, state, push[0], push[1])
        effort = -0.5 * jnp.hypot(push[0], push[1])
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


def move(parameters: BallParameters, state: BallState, push_x: Scalar, push_y: Scalar) -> BallState:
    """One step of the environment."""
    force = parameters.force / parameters.mass
    for _ in range(parameters.sub_steps):
        state = _sub_step(parameters, state, force * push_x, force * push_y)
    return state._replace(step=state.step + 1)


def _sub_step(p: BallParameters, state: BallState, push_x: Scalar, push_y: Scalar) -> BallState:
    dt = p.sub_step
    x, y = state.x, state.y
    damping = p.linear_damping * (1.0 + jnp.sqrt(state.vx**2 + state.vy**2 + _TINY))
    vx = state.vx + dt * (push_x - damping * state.vx)
    vy = state.vy + dt * (push_y - damping * state.vy)
    turning = jnp.sqrt(state.spin_x**2 + state.spin_y**2 + state.spin_z**2 + _TINY) / p.radius
    slowing = 1.0 - dt * p.angular_damping * (1.0 + turning)
    moved = state._replace(
        vx=vx,
        vy=vy,
        spin_x=slowing * state.spin_x,
        spin_y=slowing * state.spin_y,
        spin_z=slowing * state.spin_z,
    )
    moved = _touch_floor(p, moved)
    if p.walls:
        moved = _touch_wall(p, moved, x, y)
    return moved._replace(x=x + dt * moved.vx, y=y + dt * moved.vy)


def _touch_floor(p: BallParameters, state: BallState) -> BallState:
    """Friction brings velocity and spin together, as far as it can; rolling friction takes its share of both.

    A sphere has 2/5 m r^2: an impulse j on the rim changes the velocity by j and the rolling velocity by 5/2 j.
    """
    rolling_x = (2.5 * state.vx + state.spin_x) / 3.5
    rolling_y = (2.5 * state.vy + state.spin_y) / 3.5
    speed = jnp.sqrt(rolling_x**2 + rolling_y**2 + _TINY)
    lost = p.rolling_friction * _GRAVITY * p.sub_step / (1.4 * p.radius)
    kept = jnp.maximum(0.0, 1.0 - lost / speed)
    rolling_x, rolling_y = kept * rolling_x, kept * rolling_y
    if not p.walls:
        return state._replace(vx=rolling_x, vy=rolling_y, spin_x=rolling_x, spin_y=rolling_y)
    impulse_x, impulse_y = rolling_x - state.vx, rolling_y - state.vy
    wanted = jnp.sqrt(impulse_x**2 + impulse_y**2 + _TINY)
    share = jnp.minimum(1.0, p.sliding_friction * _GRAVITY * p.sub_step / wanted)
    spin_lost = p.spinning_friction * _GRAVITY * p.sub_step / (0.4 * p.radius)
    return state._replace(
        vx=state.vx + share * impulse_x,
        vy=state.vy + share * impulse_y,
        spin_x=state.spin_x + share * (rolling_x - state.spin_x),
        spin_y=state.spin_y + share * (rolling_y - state.spin_y),
        spin_z=state.spin_z - jnp.clip(state.spin_z, -spin_lost, spin_lost),
    )


def _touch_wall(p: BallParameters, state: BallState, x: Scalar, y: Scalar) -> BallState:
    """The wall of the octagon that is nearest pushes the ball out, and rubs along it and on its rolling."""
    nx, ny = nearest_wall(x, y)
    depth = nx * x + ny * y - p.wall_distance
    outwards = nx * state.vx + ny * state.vy
    bounce = -p.wall_recovery * depth / p.sub_step
    pushed = jnp.where(depth > 0.0, jnp.maximum(0.0, outwards - bounce), 0.0)
    along = -ny * state.vx + nx * state.vy
    sliding = along + state.spin_z
    climbing = nx * state.spin_x + ny * state.spin_y
    slip = jnp.sqrt(sliding**2 + climbing**2 + _TINY)
    share = jnp.minimum(1.0 / 3.5, p.wall_friction * pushed / slip)
    along_change, roll_change = -share * sliding, -2.5 * share * climbing
    return state._replace(
        vx=state.vx - pushed * nx - along_change * ny,
        vy=state.vy - pushed * ny + along_change * nx,
        spin_x=state.spin_x + roll_change * nx,
        spin_y=state.spin_y + roll_change * ny,
        spin_z=state.spin_z + 2.5 * along_change,
    )


def nearest_wall(x: Scalar, y: Scalar) -> tuple[Scalar, Scalar]:
    """The outward normal of the octagon's wall that a point is nearest to."""
    half = 2.0**-0.5
    diagonal = half * (jnp.abs(x) + jnp.abs(y))
    nx = jnp.where(jnp.abs(x) >= jnp.abs(y), 1.0, 0.0)
    slanted = diagonal > jnp.maximum(jnp.abs(x), jnp.abs(y))
    nx, ny = jnp.where(slanted, half, nx), jnp.where(slanted, half, 1.0 - nx)
    return nx * jnp.sign(x), ny * jnp.sign(y)
