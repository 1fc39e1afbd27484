"""The Ball's parameters from recordings: nonlinear least squares on single steps."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares, minimize

from papd.envs.twins.ball import BallParameters, BallState, move
from papd.envs.twins.record import RADIUS_OF_BALL, Recording
from papd.envs.twins.replay import as_jax, real_states

_FREE = 10.5
"""Metres from the middle where no wall is within a step's reach."""

_GUESS = (10.0, 0.02, 0.02, 0.01)
"""Acceleration, linear and angular damping, rolling friction."""

_CROWDING_GUESS = (0.1, 1.0, 1.5, 2.2)


def fit_ball(recording: Recording, start: dict[str, Any]) -> BallParameters:
    """All parameters; ``start`` holds the known ones: ``sub_step``, ``sub_steps``, ``walls``."""
    blank = BallParameters(
        acceleration=_GUESS[0],
        radius=RADIUS_OF_BALL,
        linear_damping=_GUESS[1],
        angular_damping=_GUESS[2],
        rolling_friction=_GUESS[3],
        crowding=0.0,
        crowding_speeds=_CROWDING_GUESS[1:],
        wall_distance=11.4,
        wall_restitution=0.5,
        wall_friction=0.5,
        **start,
    )
    parameters = _fit_rolling(recording, blank)
    return _fit_walls(recording, parameters) if parameters.walls else parameters


def _steps(recording: Recording, kept: np.ndarray) -> tuple[BallState, jax.Array, BallState]:
    states = real_states(recording)
    before = as_jax(jax.tree.map(lambda leaf: leaf[:, :-1][kept], states))
    after = as_jax(jax.tree.map(lambda leaf: leaf[:, 1:][kept], states))
    return before, jnp.asarray(np.clip(recording.action, -1.0, 1.0)[kept], jnp.float32), after


def _move(parameters: BallParameters, before: BallState, pushes: jax.Array) -> BallState:
    return jax.vmap(lambda state, push: move(parameters, state, push[0], push[1]))(before, pushes)


def _fit_rolling(recording: Recording, blank: BallParameters) -> BallParameters:
    """Damping, friction and force; then, where the contact holds several points, their extra friction."""
    states = real_states(recording)
    kept = (states.flight + np.abs(states.spin_x - states.vx) + np.abs(states.spin_y - states.vy))[
        :, :-1
    ] < 1e-3
    if blank.walls:
        kept &= np.hypot(states.x, states.y)[:, :-1] < _FREE
    before, pushes, after = _steps(recording, kept)
    free = blank._replace(walls=False)

    @jax.jit
    def errors(values: jax.Array) -> jax.Array:
        candidate = free._replace(
            acceleration=values[0],
            linear_damping=values[1],
            angular_damping=values[2],
            rolling_friction=values[3],
            crowding=values[4],
            crowding_speeds=(values[5], values[6], values[7]),
        )
        moved = _move(candidate, before, pushes)
        return jnp.concatenate([moved.vx - after.vx, moved.vy - after.vy])

    def fit(guess: np.ndarray, free_values: int) -> np.ndarray:
        def partial(values: np.ndarray) -> np.ndarray:
            return np.asarray(
                errors(jnp.asarray(np.append(values, guess[free_values:]), jnp.float32)), np.float64
            )

        scale = np.maximum(np.abs(guess[:free_values]), 1e-3)
        found = least_squares(
            partial, guess[:free_values], x_scale=scale, loss="soft_l1", f_scale=1e-3, diff_step=1e-3
        )
        return np.append(found.x, guess[free_values:])

    found = fit(np.array([*_GUESS, 0.0, *_CROWDING_GUESS[1:]]), 4)
    if blank.walls:
        found = fit(np.array([*found[:4], *_CROWDING_GUESS]), 8)
    rounded = [float(f"{value:.5g}") for value in found]
    return blank._replace(
        acceleration=rounded[0],
        linear_damping=rounded[1],
        angular_damping=rounded[2],
        rolling_friction=rounded[3],
        crowding=rounded[4],
        crowding_speeds=(rounded[5], rounded[6], rounded[7]),
    )


def _fit_walls(recording: Recording, parameters: BallParameters) -> BallParameters:
    """Distance, restitution and friction that predict single steps near the walls best (Nelder and Mead)."""
    states = real_states(recording)
    near = (np.hypot(states.x, states.y) > _FREE)[:, :-1]
    before, pushes, after = _steps(recording, near)

    @jax.jit
    def error(wall: jax.Array) -> jax.Array:
        candidate = parameters._replace(
            wall_distance=wall[0], wall_restitution=wall[1], wall_friction=wall[2]
        )
        moved = _move(candidate, before, pushes)
        return jnp.mean((moved.vx - after.vx) ** 2 + (moved.vy - after.vy) ** 2)

    lowest, highest = [11.3, 0.0, 0.0], [11.5, 1.0, 2.0]
    found = minimize(
        lambda wall: float(error(jnp.asarray(np.clip(wall, lowest, highest), jnp.float32))),
        np.array([11.4, 0.3, 0.5]),
        method="Nelder-Mead",
        options={
            "initial_simplex": [[11.4, 0.3, 0.5], [11.45, 0.3, 0.5], [11.4, 0.6, 0.5], [11.4, 0.3, 0.9]]
        },
    ).x
    distance, restitution, friction = (float(f"{value:.5g}") for value in np.clip(found, lowest, highest))
    return parameters._replace(wall_distance=distance, wall_restitution=restitution, wall_friction=friction)
