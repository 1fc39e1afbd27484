"""Many agents trained in one compiled program, for the tests."""

from collections.abc import Sequence

import jax
import numpy as np

from papd.agents.hyper import Hyper
from papd.agents.iteration import Metrics, init_state, iterate
from papd.agents.state import Controls, TrainState, stack
from papd.envs.cmdp import CMDP


def train(
    env: CMDP, hyper: Hyper, controls: Controls, seeds: Sequence[int], iterations: int
) -> tuple[TrainState, Metrics]:
    """The population after so many iterations, and the metrics of each: leading axes (agent, iteration)."""
    population = stack([init_state(env, hyper, controls, seed) for seed in seeds])

    def one_run(state: TrainState) -> tuple[TrainState, Metrics]:
        return jax.lax.scan(lambda s, _: iterate(env, hyper, s), state, None, length=iterations)

    return jax.jit(jax.vmap(one_run))(population)


def tail(values: jax.Array, share: float = 1 / 3) -> np.ndarray:
    """Means over the last iterations of each agent."""
    kept = int(values.shape[1] * share)
    return np.asarray(values[:, -kept:]).mean(axis=1)
