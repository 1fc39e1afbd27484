"""The Car: a bicycle that drives, turns and slips, with what the bicycle leaves over as a small bounded correction.

The axes are the car's: ``u`` forwards, ``v`` to the left, ``r`` the yaw rate, all of the centre of mass. Speed follows
the throttle against drag; the turn follows the steering angle, late and with slip. The correction is a cubic
polynomial, mirror-symmetric like the car, of bounded variables, and clipped itself: no action drives the twin far out
of what was recorded, and its speeds are bounded by construction.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from papd.envs.cmdp import CMDP, Box, Step
from papd.envs.twins.ball import nearest_wall
from papd.envs.twins.tasks import Motion, Number, Scalar, Task, cost_vector

Monomial = tuple[str, Number]
"""A product of variables such as ``"u*u*steering"`` (``"1"``: the constant), and its coefficient."""


KNOTS = (0.0, 0.3, 0.6, 0.9, 1.2, 1.5, 1.8, 2.1, 2.4, 2.7, 3.0)
"""Forward speeds (m/s) of the tables; between them they are straight, beyond the last they stay.

The contacts of a wheel hold more points of its track the slower it rolls, so that friction changes with the speed in
steps that no low polynomial follows.
"""

Table = tuple[Number, ...]


class Drive(NamedTuple):
    """How the forward speed changes in one step (m/s)."""

    motor: Number
    """Per unit of throttle."""
    late_motor: Number
    """Per unit of the throttle of the step before: the rings of the differentials still turn as it told them."""
    turning_drag: Number
    """Per unit of u tan(steering)^2."""
    turning_push: Number
    """Per unit of v r."""
    drag: Table
    """Against the motion, at each of ``KNOTS``."""


class Turn(NamedTuple):
    """The next yaw rate, or sideways speed, of the bicycle."""

    target: Number
    """Per unit of u times the steering's target: the hinges turn during the step."""
    sideways: Number
    """Per m/s of sideways speed."""
    yawing: Number
    """Per rad/s of yaw rate."""
    steering: Table
    """Per unit of u tan(steering), what the wheels lead to, at each of ``KNOTS``."""


class Jitter(NamedTuple):
    """Standard deviation of a contact's process noise: a floor and what raises it."""

    floor: Number
    wheel_slip: Number
    """Per m/s between the wheels' target and the speed."""
    yawing: Number
    """Per rad/s."""
    steering: Number
    """Per rad that the hinges are from their target."""


class CarParameters(NamedTuple):
    """What calibration finds; SI units, a step of the environment at a time."""

    steering_range: Number
    """Radians at action 1."""
    steering_rate: Number
    """Share of the way to its target that the steering goes in a step."""
    steering_jitter: Number
    wheel_speed: Number
    """m/s of the wheels' rim at throttle 1."""
    drive: Drive
    yaw: Turn
    slide: Turn
    drive_correction: tuple[Monomial, ...]
    yaw_correction: tuple[Monomial, ...]
    slide_correction: tuple[Monomial, ...]
    correction_bounds: tuple[Number, Number, Number]
    """Of drive, slide and yaw: m/s, m/s and rad/s a step."""
    speeds: tuple[Number, Number, Number]
    """Bounds of |u|, |v| and |r|."""
    drive_jitter: Jitter
    yaw_jitter: Jitter
    slide_jitter: Jitter
    jitter_correlation: Number
    """Between yaw and slide."""
    landing_steps: int
    """The car falls on its wheels at the start: so many steps without grip."""
    first_steering: Number
    """The two hinges start uniformly within this; the car sees their mean."""
    walls: bool
    wall_distance: Number
    """From the arena's middle to the centre of a car that touches a wall."""
    wall_restitution: Number
    wall_friction: Number
    time_step: Number
    """Seconds."""
    sub_steps: int
    """Of the simulator; they decide how a step's displacement weighs the speeds before and after."""


class CarState(NamedTuple):
    """One car. ``steering`` and ``last_throttle`` are not observed."""

    x: Scalar
    y: Scalar
    heading: Scalar
    u: Scalar
    v: Scalar
    r: Scalar
    steering: Scalar
    last_throttle: Scalar
    step: Int[Array, ""]


class Car(CMDP):
    """SafetyCarRun-v0 or SafetyCarCircle-v0 as a JAX CMDP."""

    env_id: str = eqx.field(static=True)
    task: Task = eqx.field(static=True)
    length: int = eqx.field(static=True)
    parameters: CarParameters = eqx.field(static=True)
    cost_keys: tuple[str, ...] = eqx.field(static=True)

    @property
    def name(self) -> str:
        """The id of the real environment."""
        return self.env_id

    @property
    def observation_space(self) -> Box:
        """Position / 10, velocity, sine and cosine of the yaw, yaw rate / 10, and the task's own."""
        size = 7 + self.task.extra_observations
        return Box((-1000.0,) * size, (1000.0,) * size)

    @property
    def action_space(self) -> Box:
        """Throttle and steering."""
        return Box((-1.0, -1.0), (1.0, 1.0))

    @property
    def cost_names(self) -> tuple[str, ...]:
        """The keys of ``info`` that are constraints."""
        return self.cost_keys

    @property
    def max_episode_steps(self) -> int:
        """As registered by the package."""
        return self.length

    def reset(self, key: PRNGKeyArray) -> tuple[CarState, Float[Array, " observation"]]:
        """At rest, facing away from the direction that pays, the steering a little off."""
        place, hinges = jax.random.split(key)
        x, y = self.task.first_position(place)
        spread = self.parameters.first_steering
        steering = jax.random.uniform(hinges, (2,), minval=-spread, maxval=spread).mean()
        zero = jnp.zeros(())
        heading = self.task.first_heading(x, y)
        state = CarState(x, y, heading, zero, zero, zero, steering, zero, jnp.zeros((), jnp.int32))
        return state, self.observe(state)

    def step(self, key: PRNGKeyArray, state: CarState, action: Float[Array, " action"]) -> Step:
        """Throttle and steering for one step; ``key`` draws the contacts' jitter."""
        control = jnp.clip(action, -1.0, 1.0)
        moved = move(self.parameters, state, control[0], control[1], jax.random.normal(key, (4,)))
        vx, vy = world_velocity(moved)
        motion = Motion(moved.x, moved.y, moved.x - state.x, moved.y - state.y, vx, vy, jnp.zeros(()))
        cost = cost_vector(self.task.violations(motion), self.task.cost_parts, self.cost_keys)
        ended = moved.step >= self.length
        return Step(
            moved, self.observe(moved), self.task.reward(motion), cost, jnp.zeros((), bool), truncated=ended
        )

    def observe(self, state: CarState) -> Float[Array, " observation"]:
        """The observation of a state."""
        vx, vy = world_velocity(state)
        place = (0.1 * state.x, 0.1 * state.y, vx, vy)
        turn = (jnp.sin(state.heading), jnp.cos(state.heading), 0.1 * state.r)
        return jnp.stack(place + turn + self.task.observation(state.x, state.y))


def world_velocity(state: CarState) -> tuple[Scalar, Scalar]:
    """The velocity in the world's axes."""
    sine, cosine = jnp.sin(state.heading), jnp.cos(state.heading)
    return cosine * state.u - sine * state.v, sine * state.u + cosine * state.v


def move(
    p: CarParameters, state: CarState, throttle: Scalar, steer: Scalar, noise: Float[Array, " 4"]
) -> CarState:
    """One step of the environment; ``noise`` is standard normal."""
    target = p.steering_range * steer
    steering = state.steering + p.steering_rate * (target - state.steering) + p.steering_jitter * noise[3]
    u, v, r = _next_velocities(p, state, throttle, target)
    u, v, r = _jitter(p, state, throttle, target, noise, (u, v, r))
    grip = state.step >= p.landing_steps
    u, v, r = (jnp.where(grip, after, before) for after, before in ((u, state.u), (v, state.v), (r, state.r)))
    u, v, r = (jnp.clip(speed, -bound, bound) for speed, bound in zip((u, v, r), p.speeds, strict=True))
    moved = _displace(p, state, u, v, r)._replace(
        steering=steering, last_throttle=throttle, step=state.step + 1
    )
    return _touch_wall(p, moved) if p.walls else moved


class Terms(NamedTuple):
    """What the next velocities are sums of; the order within a part is that of its parameters."""

    variables: dict[str, Scalar]
    """Of the corrections."""
    drive: tuple[Scalar, ...]
    drag: Scalar
    """The sign of the table of drag."""
    turn: tuple[Scalar, ...]
    lead: Scalar
    """The factor of the table of steering."""
    knots: tuple[Scalar, ...]
    """How much of each knot of the tables counts: hats over |u|, which sum to 1."""


def terms(p: CarParameters, state: CarState, throttle: Scalar, target: Scalar) -> Terms:
    """The terms for a state and a control."""
    u, v, r = (
        jnp.clip(speed, -bound, bound)
        for speed, bound in zip((state.u, state.v, state.r), p.speeds, strict=True)
    )
    steering = jnp.clip(state.steering, -p.steering_range, p.steering_range)
    lead = jnp.tan(steering)
    return Terms(
        variables={
            "u": u,
            "v": v,
            "r": r,
            "steering": steering,
            "throttle": throttle,
            "target": target,
            "last": state.last_throttle,
        },
        drive=(throttle, state.last_throttle, -u * lead * lead, v * r),
        drag=-jnp.sign(u),
        turn=(u * target, v, r),
        lead=u * lead,
        knots=_hats(jnp.abs(u)),
    )


def _hats(speed: Scalar) -> tuple[Scalar, ...]:
    gap = KNOTS[1] - KNOTS[0]
    place = jnp.minimum(speed, KNOTS[-1]) / gap
    return tuple(jnp.maximum(0.0, 1.0 - jnp.abs(place - number)) for number in range(len(KNOTS)))


def polynomial(monomials: tuple[Monomial, ...], variables: dict[str, Scalar]) -> Scalar:
    """The sum of the monomials."""
    total = jnp.zeros(())
    for product, coefficient in monomials:
        term = jnp.full((), coefficient)
        for name in product.split("*"):
            term = term if name == "1" else term * variables[name]
        total = total + term
    return total


def _next_velocities(
    p: CarParameters, state: CarState, throttle: Scalar, target: Scalar
) -> tuple[Scalar, Scalar, Scalar]:
    given = terms(p, state, throttle, target)
    variables = given.variables

    def corrected(core: Scalar, monomials: tuple[Monomial, ...], bound: Number) -> Scalar:
        return core + jnp.clip(polynomial(monomials, variables), -bound, bound)

    bounds = p.correction_bounds
    drag = given.drag * _weigh(p.drive.drag, given.knots)
    u = corrected(variables["u"] + _weigh(p.drive[:-1], given.drive) + drag, p.drive_correction, bounds[0])
    slide, yaw = (
        _weigh(part[:-1], given.turn) + given.lead * _weigh(part.steering, given.knots)
        for part in (p.slide, p.yaw)
    )
    v = corrected(slide, p.slide_correction, bounds[1])
    r = corrected(yaw, p.yaw_correction, bounds[2])
    return u, v, r


def _weigh(weights: tuple[Number, ...], terms: tuple[Scalar, ...]) -> Scalar:
    total = weights[0] * terms[0]
    for weight, term in zip(weights[1:], terms[1:], strict=True):
        total = total + weight * term
    return total


def _jitter(
    p: CarParameters,
    state: CarState,
    throttle: Scalar,
    target: Scalar,
    noise: Float[Array, " 4"],
    mean: tuple[Scalar, Scalar, Scalar],
) -> tuple[Scalar, Scalar, Scalar]:
    causes = (
        jnp.ones(()),
        jnp.abs(p.wheel_speed * throttle - state.u),
        jnp.abs(state.r),
        jnp.abs(target - state.steering),
    )
    common, own = p.jitter_correlation, (1.0 - p.jitter_correlation**2) ** 0.5
    u, v, r = mean
    return (
        u + _weigh(p.drive_jitter, causes) * noise[0],
        v + _weigh(p.slide_jitter, causes) * noise[1],
        r + _weigh(p.yaw_jitter, causes) * (common * noise[1] + own * noise[2]),
    )


def _displace(p: CarParameters, state: CarState, u: Scalar, v: Scalar, r: Scalar) -> CarState:
    """Semi-implicit sub-steps along a straight change of speed weigh the new speed (n + 1) / 2n, the old the rest."""
    new = (p.sub_steps + 1) / (2 * p.sub_steps)
    old = 1.0 - new
    turned = p.time_step * (old * state.r + new * r)
    forwards = p.time_step * (old * state.u + new * u)
    sideways = p.time_step * (old * state.v + new * v)
    middle = state.heading + (p.sub_steps - 1) / (2 * p.sub_steps) * turned
    sine, cosine = jnp.sin(middle), jnp.cos(middle)
    return state._replace(
        x=state.x + cosine * forwards - sine * sideways,
        y=state.y + sine * forwards + cosine * sideways,
        heading=state.heading + turned,
        u=u,
        v=v,
        r=r,
    )


def _touch_wall(p: CarParameters, state: CarState) -> CarState:
    """A wall stops the car's centre, returns some of its speed and rubs off some along it."""
    nx, ny = nearest_wall(state.x, state.y)
    vx, vy = world_velocity(state)
    outwards, along = nx * vx + ny * vy, -ny * vx + nx * vy
    depth = nx * state.x + ny * state.y - p.wall_distance
    pushed = jnp.where(depth > 0.0, jnp.maximum(0.0, (1.0 + p.wall_restitution) * outwards), 0.0)
    rubbed = jnp.clip(along, -p.wall_friction * pushed, p.wall_friction * pushed)
    vx, vy = vx - pushed * nx + rubbed * ny, vy - pushed * ny - rubbed * nx
    sine, cosine = jnp.sin(state.heading), jnp.cos(state.heading)
    inside = jnp.maximum(depth, 0.0)
    return state._replace(
        x=state.x - inside * nx,
        y=state.y - inside * ny,
        u=cosine * vx + sine * vy,
        v=-sine * vx + cosine * vy,
    )
