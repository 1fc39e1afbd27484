"""The package's own ``step`` in a bare loop, to measure against: ``python -m papd.envs.bare ID`` in each core.

It answers every line ``SECONDS`` on standard input with the number of steps it made and the seconds it took.
"""

import sys
import time
from typing import Any

import gymnasium
import numpy as np

from papd.envs.bullet import quiet


def main() -> None:
    """Serve measurements until standard input is closed."""
    with quiet():
        env: Any = gymnasium.make(sys.argv[1], disable_env_checker=True).unwrapped
    limit = int(gymnasium.spec(sys.argv[1]).max_episode_steps or 1)
    actions = _held_actions(limit, env.action_space.shape)
    print("ready", flush=True)
    for line in sys.stdin:
        print(*_loop(env, actions, float(line)), flush=True)


def _held_actions(limit: int, shape: tuple[int, ...]) -> np.ndarray:
    """Random actions, each held for ten steps, so that the agent gets somewhere."""
    drawn = np.random.default_rng(0).uniform(-1.0, 1.0, (limit // 10 + 1, *shape))
    return np.repeat(drawn, 10, axis=0)[:limit].astype(np.float32)


def _loop(env: Any, actions: np.ndarray, seconds: float) -> tuple[int, float]:
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        env.reset()
        for action in actions:
            env.step(action)
        steps += len(actions)
    return steps, time.perf_counter() - start


if __name__ == "__main__":
    main()
