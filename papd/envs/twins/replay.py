"""A twin beside a recording: its state where the real one was, one step from there, and whole episodes on its own."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from papd.envs.twins.ball import Ball, BallState
from papd.envs.twins.ball import move as move_ball
from papd.envs.twins.car import Car, CarState
from papd.envs.twins.car import move as move_car
from papd.envs.twins.record import RADIUS_OF_BALL, Recording


class Path(NamedTuple):
    """Where an agent was and how fast: NumPy arrays [E, T + 1], or [E, T] for single steps."""

    x: np.ndarray
    y: np.ndarray
    forwards: np.ndarray
    """Velocity along the heading (a Car) or along x (a Ball)."""
    sideways: np.ndarray
    yaw_rate: np.ndarray
    """Zero for a Ball."""


def real_path(recording: Recording) -> Path:
    """The recorded path."""
    state = real_states(recording)
    return _path(state)


def real_states(recording: Recording) -> Any:
    """The twin's state (:class:`BallState`, :class:`CarState`) at every recorded moment: NumPy arrays [E, T + 1]."""
    x, y, z = np.moveaxis(recording.position, -1, 0)
    vx, vy, vz = np.moveaxis(recording.velocity, -1, 0)
    steps = np.broadcast_to(np.arange(x.shape[1]), x.shape)
    if "Ball" in recording.env_id:
        spin, height = RADIUS_OF_BALL * recording.spin, z - RADIUS_OF_BALL
        ball: Any = BallState
        return ball(x, y, height, vx, vy, vz, spin[..., 1], -spin[..., 0], spin[..., 2], steps)
    heading = np.unwrap(recording.rotation[..., 2], axis=1)
    sine, cosine = np.sin(heading), np.cos(heading)
    u, v = cosine * vx + sine * vy, cosine * vy - sine * vx
    throttle = np.clip(recording.action[..., 0], -1.0, 1.0)
    last = np.concatenate([np.zeros_like(throttle[:, :1]), throttle], axis=1)
    car: Any = CarState
    return car(x, y, heading, u, v, recording.spin[..., 2], recording.steering.mean(axis=-1), last, steps)


def one_step(twin: Ball | Car, recording: Recording) -> Path:
    """The twin's next state from every recorded state, without noise: arrays [E, T] beside the recording's [:, 1:]."""
    states = jax.tree.map(lambda leaf: leaf[:, :-1], as_jax(real_states(recording)))
    moved = jax.jit(jax.vmap(jax.vmap(_mover(twin))))(states, jnp.asarray(recording.action, jnp.float32))
    return _path(jax.tree.map(np.asarray, moved))


def open_loop(twin: Ball | Car, recording: Recording) -> Path:
    """The twin's whole episodes from the first recorded state under the recorded actions, without noise: [E, T + 1]."""
    first = jax.tree.map(lambda leaf: leaf[:, 0], as_jax(real_states(recording)))
    mover = _mover(twin)

    def episode(state: Any, actions: jax.Array) -> Any:
        def advance(state: Any, action: jax.Array) -> tuple[Any, Any]:
            moved = mover(state, action)
            return moved, moved

        _, states = jax.lax.scan(advance, state, actions)
        return jax.tree.map(lambda start, rest: jnp.concatenate([start[None], rest]), state, states)

    states = jax.jit(jax.vmap(episode))(first, jnp.asarray(recording.action, jnp.float32))
    return _path(jax.tree.map(np.asarray, states))


def _mover(twin: Ball | Car) -> Any:
    if isinstance(twin, Ball):
        ball = twin.parameters

        def roll(state: BallState, action: jax.Array) -> BallState:
            push = jnp.clip(action, -1.0, 1.0)
            return move_ball(ball, state, push[0], push[1])

        return roll
    car = twin.parameters

    def drive(state: CarState, action: jax.Array) -> CarState:
        control = jnp.clip(action, -1.0, 1.0)
        return move_car(car, state, control[0], control[1], jnp.zeros(4))

    return drive


def as_jax(state: Any) -> Any:
    """The state in the twin's own precision."""

    def convert(leaf: np.ndarray) -> jax.Array:
        return jnp.asarray(leaf, jnp.int32 if leaf.dtype.kind == "i" else jnp.float32)

    return jax.tree.map(convert, state)


def _path(state: Any) -> Path:
    if isinstance(state, BallState):
        return Path(
            *(np.asarray(leaf) for leaf in (state.x, state.y, state.vx, state.vy, 0.0 * np.asarray(state.x)))
        )
    return Path(*(np.asarray(leaf) for leaf in (state.x, state.y, state.u, state.v, state.r)))
