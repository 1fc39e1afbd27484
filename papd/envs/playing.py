"""Experience by whole stretches: a worker plays its environments by itself, the policy in NumPy beside them.

One message a stretch, not one a step: waking a process costs as much as a step of Bullet's Ball. No JAX here: a
worker process imports this and starts.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

BLOCK = 10
"""Rows that the policy takes at once, always as many: products of other shapes are rounded otherwise, and the number of
workers would change a run. (NumPy's BLAS takes one thread for so few.)"""


Layout = dict[str, tuple[Any, tuple[int, ...]]]
"""Arrays that share a piece of memory: the type and shape of each."""


@dataclass(frozen=True)
class PlaySizes:
    """What the memory of a stretch must hold, and what kind of policy plays it."""

    steps: int
    layers: tuple[int, ...]
    """Widths of the network: its inputs, hidden layers, outputs."""
    low: tuple[float, ...] | None
    """Bounds of the actions; None where an action is the number of the largest output."""
    high: tuple[float, ...] | None
    auto_reset: bool
    """Whether an ended episode is followed by the next one."""


def track_layout(sizes: PlaySizes, environments: int, constraints: int) -> Layout:
    """The arrays of a stretch, time-major."""
    rows, inputs, outputs = (sizes.steps, environments), sizes.layers[0], sizes.layers[-1]
    numbers = sum(i * o + o for i, o in itertools.pairwise(sizes.layers))
    return {
        "weights": (np.float32, (numbers,)),
        "scale": (np.float32, (outputs,)),
        "noise": (np.float32, (*rows, outputs)),
        "next_seeds": (np.int64, rows),
        "lengths": (np.int64, (environments,)),
        "observations": (np.float32, (*rows, inputs)),
        "actions": (np.int64, rows) if sizes.low is None else (np.float32, (*rows, outputs)),
        "rewards": (np.float32, rows),
        "costs": (np.float32, (*rows, constraints)),
        "next_observations": (np.float32, (*rows, inputs)),
        "terminated": (np.bool_, rows),
        "ended": (np.bool_, rows),
    }


class Track:
    """A stretch of experience and what it is played with, one column an environment."""

    weights: np.ndarray
    """Of the policy's network, layer by layer, each with its bias."""
    scale: np.ndarray
    """Of the noise."""
    noise: np.ndarray
    next_seeds: np.ndarray
    """Of the episode that follows one that ends in this row."""
    lengths: np.ndarray
    """Each environment's next row."""
    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    costs: np.ndarray
    next_observations: np.ndarray
    terminated: np.ndarray
    ended: np.ndarray

    def __init__(self, sizes: PlaySizes, arrays: dict[str, np.ndarray]):
        self.sizes = sizes
        for name, array in arrays.items():
            setattr(self, name, array)


class Actor:
    """The policy of a track: what :mod:`papd.agents.networks` computes, without JAX."""

    def __init__(self, track: Track, rows: range):
        self._track, self._rows = track, rows
        self._layers = list(_layers(track))
        self._own = np.arange(rows.start, rows.stop)
        self._first, self._end = rows.start // BLOCK * BLOCK, -(-rows.stop // BLOCK) * BLOCK
        self._inputs = np.zeros((self._end - self._first, track.sizes.layers[0]), np.float32)
        self._results = np.zeros((len(self._inputs), track.sizes.layers[-1]), np.float32)
        self._noise = track.noise * track.scale
        sizes = track.sizes
        if sizes.low is not None and sizes.high is not None:
            low, high = np.array(sizes.low, np.float32), np.array(sizes.high, np.float32)
            self._middle, self._half = (high + low) / 2, (high - low) / 2

    def act(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Exploring actions for the rows: as the policy knows them, and as the environments do.

        ``observations`` are those of all environments; rows of others are computed along where they share a block.
        """
        x, track, own = self._inputs, self._track, self._own
        x[: observations.shape[0] - self._first] = observations[self._first : self._end]
        for at in range(0, len(x), BLOCK):
            self._results[at : at + BLOCK] = self._outputs(x[at : at + BLOCK])
        output = self._results[self._rows.start - self._first :][: len(own)]
        noise = self._noise[np.minimum(track.lengths[own], track.sizes.steps - 1), own]
        if track.sizes.low is None:
            choice = np.argmax(output + noise, axis=1)
            return choice, choice
        action = np.tanh(output)
        action += noise
        return action, self._middle + self._half * np.minimum(np.maximum(action, -1.0), 1.0)

    def _outputs(self, x: np.ndarray) -> np.ndarray:
        for number, (weight, bias) in enumerate(self._layers, start=1):
            x = x @ weight
            x += bias
            if number < len(self._layers):
                np.maximum(x, 0.0, out=x)
        return x


def _layers(track: Track) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    at, widths = 0, track.sizes.layers
    for inputs, outputs in itertools.pairwise(widths):
        weight = track.weights[at : at + inputs * outputs].reshape(inputs, outputs)
        at += inputs * outputs
        yield weight, track.weights[at : at + outputs]
        at += outputs
