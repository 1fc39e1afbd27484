"""The Car's parameters from recordings: least squares on single steps, then on short runs of the twin by itself."""

import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy.optimize import minimize, nnls

from papd.envs.twins.car import KNOTS, CarParameters, CarState, Drive, Jitter, Monomial, Turn, move, terms
from papd.envs.twins.record import Recording
from papd.envs.twins.replay import as_jax, real_states

_STEERING_RANGE = 0.5
_WHEEL_SPEED = 6.0
_FIRST_STEERING = 0.1
_SPEEDS = (4.0, 1.5, 2.5)
_MIRRORED = {"v", "r", "steering", "target"}
"""What changes its sign in a mirror, and with it sideways speed and yaw rate, but not the forward speed."""
_DEGREE = 3
_MONOMIALS = 24
"""Of each correction."""
_SETTLED = 4
"""Steps after which the car stands on its wheels and hinges have met."""
_FREE = 10.0
"""Metres from the middle where no wall is near."""
_MEAN_OF_GAUSSIAN = (np.pi / 2.0) ** 0.5


def fit_car(recording: Recording, start: dict[str, Any], refinements: int = 300) -> CarParameters:
    """All parameters; ``start`` holds the known ones: ``time_step``, ``sub_steps``, ``walls``, ``landing_steps``."""
    data = _Steps(recording, bool(start["walls"]))
    parameters = _single_steps(data, start)
    parameters = _refine(recording, parameters, refinements)
    parameters = _measure_jitter(data, parameters)
    return _fit_walls(recording, parameters) if parameters.walls else parameters


class _Steps:
    """Single steps away from walls: the state before, the control, and what came next."""

    def __init__(self, recording: Recording, walls: bool):
        states = real_states(recording)
        free = np.hypot(states.x, states.y) < _FREE if walls else np.ones_like(states.x, bool)
        kept = free[:, :-1].copy()
        kept[:, :_SETTLED] = False
        before = jax.tree.map(lambda leaf: leaf[:, :-1][kept], states)
        self.after = jax.tree.map(lambda leaf: leaf[:, 1:][kept], states)
        control = np.clip(recording.action, -1.0, 1.0)[kept]
        self.before, self.throttle = before, control[:, 0]
        self.target = _STEERING_RANGE * control[:, 1]


def _single_steps(data: _Steps, start: dict[str, Any]) -> CarParameters:
    """The physics first, then what it leaves to the correction."""
    before, after = data.before, data.after
    way = data.target - before.steering
    rate = float(way @ (after.steering - before.steering) / (way @ way))
    blank = _blank(start, rate, float(np.std(after.steering - before.steering - rate * way)))
    controls = (jnp.asarray(data.throttle, jnp.float32), jnp.asarray(data.target, jnp.float32))
    found = jax.vmap(functools.partial(terms, blank))(as_jax(before), *controls)
    given = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), found)
    knots = np.stack(given.knots, axis=1)
    drag, lead = given.drag[:, None] * knots, given.lead[:, None] * knots
    turn = np.concatenate([np.stack(given.turn, axis=1), lead], axis=1)
    pushes, left_u = _regress(
        np.concatenate([np.stack(given.drive, axis=1), drag], axis=1), after.u - before.u
    )
    slides, left_v = _regress(turn, after.v)
    yaws, left_r = _regress(turn, after.r)
    variables = given.variables
    corrections = [
        _select(variables, left, odd) for left, odd in ((left_u, False), (left_v, True), (left_r, True))
    ]
    return blank._replace(
        drive=Drive(pushes[0], pushes[1], pushes[2], pushes[3], tuple(pushes[4:])),
        slide=Turn(slides[0], slides[1], slides[2], tuple(slides[3:])),
        yaw=Turn(yaws[0], yaws[1], yaws[2], tuple(yaws[3:])),
        drive_correction=corrections[0][0],
        slide_correction=corrections[1][0],
        yaw_correction=corrections[2][0],
        correction_bounds=(corrections[0][1], corrections[1][1], corrections[2][1]),
    )


def _blank(start: dict[str, Any], rate: float, jitter: float) -> CarParameters:
    still, level = Jitter(0.0, 0.0, 0.0, 0.0), (0.0,) * len(KNOTS)
    return CarParameters(
        steering_range=_STEERING_RANGE,
        steering_rate=rate,
        steering_jitter=jitter,
        wheel_speed=_WHEEL_SPEED,
        drive=Drive(0.0, 0.0, 0.0, 0.0, level),
        yaw=Turn(0.0, 0.0, 0.0, level),
        slide=Turn(0.0, 0.0, 0.0, level),
        drive_correction=(),
        yaw_correction=(),
        slide_correction=(),
        correction_bounds=(0.0, 0.0, 0.0),
        speeds=_SPEEDS,
        drive_jitter=still,
        yaw_jitter=still,
        slide_jitter=still,
        jitter_correlation=0.0,
        first_steering=_FIRST_STEERING,
        wall_distance=11.0,
        wall_restitution=0.2,
        wall_friction=0.5,
        **start,
    )


def _regress(terms: np.ndarray, values: np.ndarray) -> tuple[list[float], np.ndarray]:
    weights = np.linalg.lstsq(terms, values, rcond=None)[0]
    return weights.tolist(), values - terms @ weights


def _select(
    variables: dict[str, np.ndarray], values: np.ndarray, odd: bool
) -> tuple[tuple[Monomial, ...], float]:
    """Orthogonal matching pursuit over the monomials of the right symmetry; the bound holds for 99.9% of the data."""
    products = {"1": np.ones_like(values)} if not odd else {}
    for degree in range(1, _DEGREE + 1):
        for names in itertools.combinations_with_replacement(variables, degree):
            if sum(name in _MIRRORED for name in names) % 2 == odd:
                products["*".join(names)] = functools.reduce(np.multiply, [variables[name] for name in names])
    labels = list(products)
    terms = np.stack([products[label] for label in labels], axis=1)
    size = terms.std(axis=0) + 1e-9
    chosen: list[int] = []
    weights, left = np.zeros(0), values
    for _ in range(_MONOMIALS):
        promise = np.abs((terms / size).T @ left)
        promise[chosen] = -1.0
        chosen.append(int(promise.argmax()))
        found, left = _regress(terms[:, chosen], values)
        weights = np.array(found)
    bound = float(np.quantile(np.abs(terms[:, chosen] @ weights), 0.999))
    return tuple((labels[index], float(weight)) for index, weight in zip(chosen, weights, strict=True)), bound


def _refine(recording: Recording, parameters: CarParameters, refinements: int) -> CarParameters:
    """Adam on runs of some 15 steps: an error that single steps forgive adds up in them."""
    horizon = 15
    starts, controls, goals, weight = _windows(recording, horizon, parameters.walls)
    unit = jnp.array([0.02, 0.02, 0.03, 0.01])
    vector, rebuild = _vectorise(parameters)
    scale = jnp.abs(vector) + 1e-3

    def run(candidate: CarParameters, state: CarState, control: jax.Array) -> jax.Array:
        def advance(state: CarState, control: jax.Array) -> tuple[CarState, jax.Array]:
            moved = move(candidate, state, control[0], control[1], jnp.zeros(4))
            return moved, jnp.stack([moved.u, moved.v, moved.r, moved.heading])

        return jax.lax.scan(advance, state, control)[1]

    def loss(change: jax.Array, batch: jax.Array) -> jax.Array:
        candidate = rebuild(vector + scale * change)
        first = jax.tree.map(lambda leaf: leaf[batch], starts)
        reached = jax.vmap(functools.partial(run, candidate))(first, controls[batch])
        error = jnp.abs((reached - goals[batch]) / unit[None, None, :])
        return jnp.mean(
            weight[batch][:, None, None] * jnp.where(error < 3.0, 0.5 * error**2, 3.0 * error - 4.5)
        )

    optimizer = optax.adam(optax.cosine_decay_schedule(3e-3, refinements))

    @jax.jit
    def improve(change: jax.Array, state: optax.OptState, key: jax.Array) -> tuple[jax.Array, optax.OptState]:
        batch = jax.random.randint(key, (1024,), 0, weight.shape[0])
        updates, state = optimizer.update(jax.grad(loss)(change, batch), state)
        return jnp.asarray(optax.apply_updates(change, updates)), state

    change = jnp.zeros_like(vector)
    state = optimizer.init(change)
    for key in jax.random.split(jax.random.key(0), refinements):
        change, state = improve(change, state, key)
    return rebuild(np.asarray(vector + scale * change, np.float64).tolist())


def _windows(
    recording: Recording, horizon: int, walls: bool
) -> tuple[CarState, jax.Array, jax.Array, jax.Array]:
    """First states, controls [W, H, 2], goals [W, H, 4], and 0 for the windows that come near a wall."""
    states = real_states(recording)
    control = np.clip(recording.action, -1.0, 1.0)
    begins = range(_SETTLED, control.shape[1] - horizon, horizon // 2)

    def cut(leaf: np.ndarray, shift: int, length: int) -> np.ndarray:
        windows = np.stack([leaf[:, begin + shift : begin + shift + length] for begin in begins], axis=1)
        return windows.reshape(-1, *windows.shape[2:])

    first = as_jax(jax.tree.map(lambda leaf: cut(leaf, 0, 1)[:, 0], states))
    goals = np.stack(
        [cut(leaf, 1, horizon) for leaf in (states.u, states.v, states.r, states.heading)], axis=-1
    )
    far = np.hypot(cut(states.x, 0, horizon), cut(states.y, 0, horizon)).max(axis=1)
    free = (far < _FREE).astype(np.float32) if walls else np.ones(len(far), np.float32)
    return (
        first,
        jnp.asarray(cut(control, 0, horizon), jnp.float32),
        jnp.asarray(goals, jnp.float32),
        jnp.asarray(free),
    )


def _vectorise(parameters: CarParameters) -> tuple[jax.Array, Callable[[Any], CarParameters]]:
    """Every weight of the physics and the corrections as one vector, and the way back."""
    groups = ("drive", "slide", "yaw")
    corrections = tuple(f"{group}_correction" for group in groups)
    weights = [getattr(parameters, group) for group in groups]
    weights += [tuple(weight for _, weight in getattr(parameters, name)) for name in corrections]
    numbers, structure = jax.tree.flatten(weights)

    def rebuild(vector: Any) -> CarParameters:
        parts = jax.tree.unflatten(structure, list(vector))
        changed = dict(zip(groups, parts[:3], strict=True))
        for name, piece in zip(corrections, parts[3:], strict=True):
            labels = [label for label, _ in getattr(parameters, name)]
            changed[name] = tuple(zip(labels, piece, strict=True))
        return parameters._replace(**changed)

    return jnp.asarray(numbers, jnp.float32), rebuild


def _predict(
    parameters: CarParameters, before: CarState, throttle: np.ndarray, target: np.ndarray
) -> CarState:
    """The next states, without noise and walls."""
    quiet = parameters._replace(walls=False)

    def one(state: CarState, throttle: jax.Array, target: jax.Array) -> CarState:
        return move(quiet, state, throttle, target / _STEERING_RANGE, jnp.zeros(4))

    moved = jax.jit(jax.vmap(one))(
        as_jax(before), jnp.asarray(throttle, jnp.float32), jnp.asarray(target, jnp.float32)
    )
    predicted: CarState = jax.tree.map(np.asarray, moved)
    return predicted


def _measure_jitter(data: _Steps, parameters: CarParameters) -> CarParameters:
    """How the spread of single-step errors grows with its causes (non-negative least squares on their sizes)."""
    predicted = _predict(parameters, data.before, data.throttle, data.target)
    errors = [getattr(data.after, name) - getattr(predicted, name) for name in ("u", "v", "r")]
    causes = np.stack(
        [
            np.ones_like(data.throttle),
            np.abs(_WHEEL_SPEED * data.throttle - data.before.u),
            np.abs(data.before.r),
            np.abs(data.target - data.before.steering),
        ],
        axis=1,
    )
    drive, slide, yaw = (
        Jitter(*nnls(causes, _MEAN_OF_GAUSSIAN * np.abs(error))[0].tolist()) for error in errors
    )
    return parameters._replace(
        drive_jitter=drive,
        slide_jitter=slide,
        yaw_jitter=yaw,
        jitter_correlation=float(np.corrcoef(errors[1], errors[2])[0, 1]),
    )


def _fit_walls(recording: Recording, parameters: CarParameters) -> CarParameters:
    """Distance, restitution and friction that predict single steps near the walls best (Nelder and Mead)."""
    states = real_states(recording)
    near = np.hypot(states.x, states.y)[:, :-1] > _FREE
    if near.sum() < 100:
        return parameters
    before = as_jax(jax.tree.map(lambda leaf: leaf[:, :-1][near], states))
    after = as_jax(jax.tree.map(lambda leaf: leaf[:, 1:][near], states))
    control = jnp.asarray(np.clip(recording.action, -1.0, 1.0)[near], jnp.float32)

    @jax.jit
    def error(wall: jax.Array) -> jax.Array:
        candidate = parameters._replace(
            wall_distance=wall[0], wall_restitution=wall[1], wall_friction=wall[2]
        )
        moved = jax.vmap(lambda state, act: move(candidate, state, act[0], act[1], jnp.zeros(4)))(
            before, control
        )
        missed = [jnp.abs(getattr(moved, name) - getattr(after, name)) for name in ("x", "y", "u", "v")]
        return jnp.mean(jnp.stack(missed))

    found = minimize(
        lambda wall: float(
            error(jnp.asarray(np.clip(wall, [10.0, 0.0, 0.0], [12.0, 1.0, 2.0]), jnp.float32))
        ),
        np.array([11.0, 0.2, 0.5]),
        method="Nelder-Mead",
        options={"initial_simplex": [[11.0, 0.2, 0.5], [11.6, 0.2, 0.5], [11.0, 0.5, 0.5], [11.0, 0.2, 1.0]]},
    ).x
    distance, restitution, friction = np.clip(found, [10.0, 0.0, 0.0], [12.0, 1.0, 2.0]).tolist()
    return parameters._replace(wall_distance=distance, wall_restitution=restitution, wall_friction=friction)
