"""The Ball's parameters from recordings: nonlinear least squares on single steps."""

from collections.abc import Callable
from typing import Any, NamedTuple

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

_CONTACT_GUESS: dict[str, Any] = {
    "push_out": 0.8,
    "floor_restitution": 0.3,
    "wall_distance": 11.41,
    "wall_rolling_friction": 0.01,
}

_IN_THE_AIR = 0.1
"""Metres of height between whose ends a step seldom touches the floor."""

_ON_FLOOR = 1e-3
"""Metres and m/s: a ball this close to rolling on the floor does nothing else."""

_NEARLY_ON_FLOOR = 0.01
"""Metres, where no wall can have thrown the ball up."""


def fit_ball(recording: Recording, start: dict[str, Any]) -> BallParameters:
    """All parameters; ``start`` holds the known ones (:data:`papd.envs.twins.calibrate.KNOWN`)."""
    blank = BallParameters(
        acceleration=_GUESS[0],
        radius=RADIUS_OF_BALL,
        linear_damping=_GUESS[1],
        angular_damping=_GUESS[2],
        rolling_friction=_GUESS[3],
        crowding=0.0,
        crowding_speeds=_CROWDING_GUESS[1:],
        **_CONTACT_GUESS,
        **start,
    )
    if not blank.walls:
        return _fit_rolling(recording, blank)
    return _fit_contacts(recording, _fit_floor(recording, _fit_flight(recording, blank)))


class _Steps(NamedTuple):
    """Single steps: the state before, the control, and what came next."""

    before: BallState
    pushes: jax.Array
    after: BallState


def _steps(recording: Recording, kept: np.ndarray) -> _Steps:
    states = real_states(recording)
    before = as_jax(jax.tree.map(lambda leaf: leaf[:, :-1][kept], states))
    after = as_jax(jax.tree.map(lambda leaf: leaf[:, 1:][kept], states))
    return _Steps(before, jnp.asarray(np.clip(recording.action, -1.0, 1.0)[kept], jnp.float32), after)


Errors = Callable[[np.ndarray], np.ndarray]
"""By how much the steps that follow from a vector of parameters miss the recorded ones."""


def _errors(
    steps: _Steps, rebuild: Callable[[Any], BallParameters], names: tuple[str, ...] = ("vx", "vy")
) -> Errors:
    @jax.jit
    def missed(values: jax.Array) -> jax.Array:
        parameters = rebuild(values)
        moved = jax.vmap(lambda state, push: move(parameters, state, push[0], push[1]))(
            steps.before, steps.pushes
        )
        return jnp.concatenate([getattr(moved, name) - getattr(steps.after, name) for name in names])

    return lambda values: np.asarray(missed(jnp.asarray(values, jnp.float32)), np.float64)


def _least_squares(errors: Errors, guess: tuple[float, ...]) -> list[float]:
    """Five digits of the best values; rare large errors count little."""
    scale = np.maximum(np.abs(guess), 1e-3)
    found = least_squares(
        errors, np.array(guess), x_scale=scale, loss="soft_l1", f_scale=1e-3, diff_step=1e-3
    )
    return [float(f"{value:.5g}") for value in found.x]


def _fit_rolling(recording: Recording, blank: BallParameters) -> BallParameters:
    """Force, damping and friction of a ball that does nothing but roll."""

    def rebuild(values: Any) -> BallParameters:
        return blank._replace(
            acceleration=values[0],
            linear_damping=values[1],
            angular_damping=values[2],
            rolling_friction=values[3],
        )

    states = real_states(recording)
    steps = _steps(recording, _rolls(states)[:, :-1])
    return rebuild(_least_squares(_errors(steps, rebuild), _GUESS))


def _fit_flight(recording: Recording, blank: BallParameters) -> BallParameters:
    """Force and damping of a ball in the air, where friction does not hide them."""

    def rebuild(values: Any) -> BallParameters:
        return blank._replace(acceleration=values[0], linear_damping=values[1], angular_damping=values[2])

    states = real_states(recording)
    flies = (states.height > _IN_THE_AIR) & (np.hypot(states.x, states.y) < _FREE)
    steps = _steps(recording, flies[:, :-1] & flies[:, 1:])
    names = ("vx", "vy", "spin_x", "spin_y", "spin_z")
    return rebuild(_least_squares(_errors(steps, rebuild, names), _GUESS[:3]))


def _fit_floor(recording: Recording, known: BallParameters) -> BallParameters:
    """Rolling friction, and how much more of it there is where the contact holds several points."""

    def rebuild(values: Any) -> BallParameters:
        return known._replace(
            rolling_friction=values[0],
            crowding=values[1],
            crowding_speeds=(values[2], values[3], values[4]),
        )

    states = real_states(recording)
    lies = np.abs(states.height) < _ON_FLOOR
    kept = _rolls(states) & lies & (np.hypot(states.x, states.y) < _FREE)
    errors = _errors(_steps(recording, kept[:, :-1]), lambda values: rebuild(values)._replace(walls=False))
    return rebuild(_least_squares(errors, (_GUESS[3], *_CROWDING_GUESS)))


def _rolls(states: BallState) -> np.ndarray:
    slip = np.abs(states.spin_x - states.vx) + np.abs(states.spin_y - states.vy)
    rolls: np.ndarray = (slip < _ON_FLOOR) & (states.height < _NEARLY_ON_FLOOR)
    return rolls


def _fit_contacts(recording: Recording, parameters: BallParameters) -> BallParameters:
    """What walls and floor do to a ball that hits them: the best for single steps near a wall or in the air."""
    states = real_states(recording)
    near = np.hypot(states.x, states.y) > _FREE
    steps = _steps(recording, (near | (np.abs(states.height) > _ON_FLOOR))[:, :-1])
    guess = np.array(list(_CONTACT_GUESS.values()))

    def rebuild(values: Any) -> BallParameters:
        return parameters._replace(**dict(zip(_CONTACT_GUESS, values, strict=True)))

    errors = _errors(steps, rebuild, ("vx", "vy", "vz", "spin_x", "spin_y", "spin_z"))

    def typical(values: np.ndarray) -> float:
        """A mean over sizes, in which an unlucky step (two contacts at once) counts little."""
        return float(np.mean(np.sqrt(np.abs(errors(values)) + 1e-6)))

    best = guess
    for size in (0.1, 0.03, 0.01):
        corners = np.vstack([best, best + np.diag(size * best * np.where(best > 10.0, 0.01, 1.0))])
        options = {"initial_simplex": corners, "maxfev": 600, "xatol": 1e-5, "fatol": 1e-7}
        best = minimize(typical, best, method="Nelder-Mead", options=options).x
    return rebuild([float(f"{value:.5g}") for value in np.abs(best)])
