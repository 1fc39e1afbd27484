"""How fast environments are stepped: the package's own ``step`` in bare loops against our workers, side by side."""

import contextlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from papd.envs.cmdp import Box
from papd.envs.crews import worker_environment
from papd.envs.host import HostEnv, HostVector, available_cores
from papd.envs.registry import make


@dataclass(frozen=True)
class Comparison:
    """Steps a second of one id, one entry for each round; both halves of a round were measured one after the other."""

    env: str
    bare: tuple[float, ...]
    """The package's ``step`` in bare loops, one process a core, all of them together."""
    workers: tuple[float, ...]
    """Our side: several environments a worker, one worker a core."""

    @property
    def ratio(self) -> float:
        """Median over the rounds of workers / bare: a round's load falls on both."""
        return statistics.median(ours / theirs for ours, theirs in zip(self.workers, self.bare, strict=True))


def compare(
    env_id: str, ours: Callable[[float], float] | None = None, *, seconds: float = 2.0, rounds: int = 3
) -> Comparison:
    """Measure both, ``rounds`` times in turn.

    ``ours`` plays for about so many seconds and returns its steps a second; by default that is :func:`random_player`.
    """
    bare, workers = [], []
    with contextlib.ExitStack() as stack:
        loops = stack.enter_context(_bare_loops(env_id))
        play = ours or stack.enter_context(random_player(env_id))
        for _ in range(rounds):
            bare.append(_rate_of_loops(loops, seconds))
            workers.append(play(seconds))
    return Comparison(env_id, tuple(bare), tuple(workers))


@contextlib.contextmanager
def random_player(env_id: str, num_envs: int = 20) -> Iterator[Callable[[float], float]]:
    """Plays random actions in workers."""
    env = make(env_id)
    assert isinstance(env, HostEnv)
    with env.start(num_envs, workers=available_cores()) as vector:
        yield lambda seconds: _rate_of_vector(vector, seconds)


def _rate_of_vector(vector: HostVector, seconds: float) -> float:
    """Steps a second of whole episodes with random actions."""
    limit, envs = vector.env.max_episode_steps, vector.num_envs
    assert isinstance(vector.env.action_space, Box)
    low, high = vector.env.action_space.bounds()
    drawn = np.random.default_rng(0).uniform(low, high, (limit // 10 + 1, envs, len(low)))
    actions = np.repeat(drawn.astype(np.float32), 10, axis=0)[:limit]
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        vector.reset(np.arange(steps, steps + envs))
        running = np.ones(envs, bool)
        for action in actions:
            result = vector.step(action, running)
            steps += int(running.sum())
            running &= ~(result.terminated | result.truncated)
            if not running.any():
                break
    return steps / (time.perf_counter() - start)


@contextlib.contextmanager
def _bare_loops(env_id: str) -> Iterator[list[subprocess.Popen[str]]]:
    loops = [
        subprocess.Popen(
            [sys.executable, "-P", "-m", "papd.envs.bare", env_id],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=worker_environment(),
            text=True,
        )
        for _ in range(available_cores())
    ]
    try:
        for loop in loops:
            _read(loop)
        yield loops
    finally:
        for loop in loops:
            loop.kill()
            loop.communicate()


def _rate_of_loops(loops: list[subprocess.Popen[str]], seconds: float) -> float:
    for loop in loops:
        assert loop.stdin is not None
        loop.stdin.write(f"{seconds}\n")
        loop.stdin.flush()
    answers = [_read(loop).split() for loop in loops]
    return sum(int(steps) / float(taken) for steps, taken in answers)


def _read(loop: subprocess.Popen[str]) -> str:
    assert loop.stdout is not None
    return loop.stdout.readline()
