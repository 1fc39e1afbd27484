"""How much of a Car twin's single-step error a better model of its state could take away.

    python -m benchmarks.twin_floor SafetyCarRun-v0 --episodes 200

A neural network is fitted to what the twin misses on three quarters of the recorded episodes; what is left on the other
quarter is the contacts' jitter, as far as the state can tell. Steps near a wall are left out. JSON on standard output.
"""

import argparse
import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from papd.envs.twins import make_twin
from papd.envs.twins.calibrate import record_in_pieces
from papd.envs.twins.record import Recording
from papd.envs.twins.replay import one_step, real_path, real_states

SEED = 77
HIDDEN, UPDATES, BATCH = 96, 1500, 512
SETTLED, FREE = 5, 10.0


def main() -> None:
    """Record, fit, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("env", choices=["SafetyCarRun-v0", "SafetyCarCircle-v0"])
    parser.add_argument("--episodes", type=int, default=200)
    words = parser.parse_args()
    recording = record_in_pieces(words.env, words.episodes, SEED, 1)
    missed, known, more = steps(recording)
    test = np.arange(words.episodes) % 4 == 0
    kept = free(recording)
    train, held = kept & ~test[:, None], kept & test[:, None]
    found = {
        "twin": size(missed[held]),
        "network on the twin's state": size(fit(known, missed, train, held)),
        "network on that, the suspension and the step before": size(
            fit(np.concatenate([known, more], axis=-1), missed, train, held)
        ),
    }
    print(json.dumps({"env": words.env, "episodes": words.episodes, "root mean square of u, v, r": found}))


def steps(recording: Recording) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[E, T, ...]: the twin's errors in u, v, r; what the twin knows before a step; what it does not."""
    states, path = real_states(recording), real_path(recording)
    stepped = one_step(make_twin(recording.env_id), recording)
    missed = np.stack(
        [
            getattr(stepped, name) - getattr(path, name)[:, 1:]
            for name in ("forwards", "sideways", "yaw_rate")
        ],
        axis=-1,
    )
    action = np.clip(recording.action, -1.0, 1.0)
    now = np.stack([states.u, states.v, states.r, states.steering], axis=-1)[:, :-1]
    known = np.concatenate([now, action, states.last_throttle[:, :-1, None]], axis=-1)
    hinges = recording.steering[:, :-1, :1] - recording.steering[:, :-1, 1:]
    suspension = [recording.position[..., 2:], recording.rotation[..., :2], recording.velocity[..., 2:]]
    hidden = [part[:, :-1] for part in (*suspension, recording.spin[..., :2])]
    return missed, known, np.concatenate([hinges, *hidden, before(now) - now, before(action)], axis=-1)


def before(values: np.ndarray) -> np.ndarray:
    """[E, T, n] of the step before; the first one is its own."""
    return np.concatenate([values[:, :1], values[:, :-1]], axis=1)


def free(recording: Recording) -> np.ndarray:
    """[E, T]: on its wheels, and away from walls."""
    away = np.hypot(recording.position[..., 0], recording.position[..., 1])[:, :-1] < FREE
    kept: np.ndarray = away if "Circle" in recording.env_id else np.ones_like(away)
    kept[:, :SETTLED] = False
    return kept


def size(errors: np.ndarray) -> list[float]:
    """Root mean squares, to a tenth of a millimetre a second."""
    return [round(float(value), 4) for value in np.sqrt(np.mean(errors**2, axis=0))]


def fit(inputs: np.ndarray, missed: np.ndarray, train: np.ndarray, held: np.ndarray) -> np.ndarray:
    """What two hidden layers leave of the held-out errors."""
    mean, scale, unit = (
        inputs[train].mean(axis=0),
        inputs[train].std(axis=0) + 1e-9,
        missed[train].std(axis=0),
    )
    given, wanted = (
        jnp.asarray((inputs[train] - mean) / scale, jnp.float32),
        jnp.asarray(missed[train] / unit, jnp.float32),
    )
    weights = first_weights(given.shape[1])
    optimizer = optax.adamw(optax.cosine_decay_schedule(3e-3, UPDATES), weight_decay=1e-4)

    @jax.jit
    def improve(weights: Any, state: Any, key: jax.Array) -> tuple[Any, Any]:
        batch = jax.random.randint(key, (BATCH,), 0, given.shape[0])

        def loss(weights: Any) -> jax.Array:
            return jnp.mean(optax.huber_loss(network(weights, given[batch]), wanted[batch], delta=3.0))

        updates, state = optimizer.update(jax.grad(loss)(weights), state, weights)
        return optax.apply_updates(weights, updates), state

    state = optimizer.init(weights)
    for key in jax.random.split(jax.random.key(1), UPDATES):
        weights, state = improve(weights, state, key)
    predicted = network(weights, jnp.asarray((inputs[held] - mean) / scale, jnp.float32))
    left: np.ndarray = missed[held] - np.asarray(predicted) * unit
    return left


def first_weights(inputs: int) -> list[tuple[jax.Array, jax.Array]]:
    """A last layer that begins by predicting next to nothing."""
    sizes, gains = (inputs, HIDDEN, HIDDEN, 3), (1.0, 1.0, 0.01)
    keys = jax.random.split(jax.random.key(0), len(gains))
    return [
        (gain * jax.random.normal(key, (n, m)) / n**0.5, jnp.zeros(m))
        for key, n, m, gain in zip(keys, sizes, sizes[1:], gains, strict=False)
    ]


def network(weights: list[tuple[jax.Array, jax.Array]], inputs: jax.Array) -> jax.Array:
    """Two hidden layers of tanh."""
    for matrix, offset in weights[:-1]:
        inputs = jnp.tanh(inputs @ matrix + offset)
    matrix, offset = weights[-1]
    return inputs @ matrix + offset


if __name__ == "__main__":
    main()
