"""Who drives while a real trajectory is recorded: held random actions, noise, and controllers that imitate policies.

A good policy of these tasks sits at the edge of what costs: the speed limit of Run, the sidelines of Circle. The
controllers put the recordings there, at many speeds, in both directions of travel, with noise of many sizes.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from papd.envs.twins.record import Driver

Act = Callable[[int, np.ndarray], np.ndarray]

_WHEELBASE = 0.975
_STEERING_RANGE = 0.5
_SPEED_AT_FULL_THROTTLE = 4.0


def held(rng: np.random.Generator) -> Act:
    """A uniform random action, held for a random time, again and again."""
    longest = int(rng.choice([2, 6, 15, 40]))
    left, action = 0, np.zeros(2)

    def act(number: int, observation: np.ndarray) -> np.ndarray:
        nonlocal left, action
        if left == 0:
            left = int(rng.integers(1, longest + 1))
            action = rng.uniform(-1.0, 1.0, 2)
        left -= 1
        return action

    return act


def noise(rng: np.random.Generator) -> Act:
    """Gaussian actions around a constant, as an untrained stochastic policy gives them."""
    mean, deviation = rng.uniform(-0.8, 0.8, 2), rng.uniform(0.1, 0.7)
    return lambda number, observation: mean + deviation * rng.normal(size=2)


class Aims(NamedTuple):
    """What a controller is after."""

    speed: float
    line: float
    """y of a straight run, or the radius of a circle."""
    sideline: float
    sense: float
    """1, or -1 for the opposite direction of travel."""
    sharpness: float
    """Of the correction towards the line."""


def _changing(rng: np.random.Generator, draw: Callable[[], Aims]) -> Callable[[], Aims]:
    """Aims that are drawn anew at random times, 50 steps apart on average."""
    aims = draw()

    def current() -> Aims:
        nonlocal aims
        if rng.random() < 0.02:
            aims = draw()
        return aims

    return current


def _course(task: str, position: np.ndarray, aims: Aims) -> float:
    """The direction of travel (angle in the world) that follows a line along x, or a circle within sidelines."""
    x, y = float(position[0]), float(position[1])
    _, line, sideline, sense, sharpness = aims
    if task == "Run":
        along = 0.0 if sense > 0 else math.pi
        return along + sense * math.atan(sharpness * (line - y))
    angle, distance = math.atan2(y, x), math.hypot(x, y)
    radius = min(line, sideline / max(abs(math.cos(angle)), 1e-3))
    return angle - sense * (math.pi / 2 + math.atan(sharpness * (distance - radius)))


def _draw_aims(rng: np.random.Generator, task: str, speeds: tuple[float, float]) -> Aims:
    """At random, in the direction that pays for the most part."""
    line = rng.uniform(-2.3, 2.3) if task == "Run" else rng.uniform(4.0, 8.0)
    sense = 1.0 if rng.random() < 0.85 else -1.0
    return Aims(rng.uniform(*speeds), line, rng.uniform(5.0, 6.5), sense, rng.uniform(0.2, 1.0))


def ball_controller(task: str) -> Driver:
    """Holds a speed along a line (Run) or around the circle (Circle) by pushing towards the wanted velocity."""
    speeds = (1.0, 3.2) if task == "Run" else (1.0, 6.0)

    def driver(rng: np.random.Generator) -> Act:
        current = _changing(rng, lambda: _draw_aims(rng, task, speeds))
        gain, deviation = rng.uniform(0.3, 2.0), rng.choice([0.0, 0.05, 0.2, 0.5])

        def act(number: int, observation: np.ndarray) -> np.ndarray:
            aims = current()
            course = _course(task, 10.0 * observation[0:2], aims)
            wanted = aims.speed * np.array([math.cos(course), math.sin(course)])
            push = gain * (wanted - 5.0 * observation[2:4])
            if task == "Circle":
                towards = -observation[0:2] / max(float(np.linalg.norm(observation[0:2])), 1e-3)
                push = push + towards * aims.speed**2 / max(aims.line, 1.0) / 8.3
            action: np.ndarray = push + deviation * rng.normal(size=2)
            return action

        return act

    return driver


def car_controller(task: str) -> Driver:
    """Holds a speed along a line or around the circle, backwards for the most part, as the reward has it."""
    speeds = (0.6, 2.0) if task == "Run" else (0.5, 4.0)

    def driver(rng: np.random.Generator) -> Act:
        current = _changing(rng, lambda: _draw_aims(rng, task, speeds))
        gear = -1.0 if rng.random() < 0.85 else 1.0
        gain, deviation = rng.uniform(0.1, 1.5), rng.choice([0.0, 0.05, 0.2, 0.5])

        def act(number: int, observation: np.ndarray) -> np.ndarray:
            aims = current()
            heading = math.atan2(observation[4], observation[5])
            speed = observation[2] * math.cos(heading) + observation[3] * math.sin(heading)
            course = _course(task, 10.0 * observation[0:2], aims)
            error = course - heading - (0.0 if gear > 0 else math.pi)
            error = math.atan2(math.sin(error), math.cos(error))
            rolling = gear * max(abs(speed), 0.5)
            steering = math.atan(_WHEELBASE * 1.5 * error / rolling) / _STEERING_RANGE
            throttle = gear * aims.speed / _SPEED_AT_FULL_THROTTLE + gain * (gear * aims.speed - speed)
            action: np.ndarray = np.array([throttle, steering]) + deviation * rng.normal(size=2)
            return action

        return act

    return driver


def full_throttle(rng: np.random.Generator) -> Act:
    """A constant throttle with a slowly changing small turn: the steady speeds."""
    throttle = rng.uniform(-1.0, 1.0)
    turn, deviation = rng.uniform(-0.3, 0.3), rng.choice([0.0, 0.1])
    return lambda number, observation: np.array([throttle, turn]) + deviation * rng.normal(size=2)


def mixture(env_id: str) -> Driver:
    """The driver of calibration: each episode draws one of the behaviours."""
    drivers = (controller(env_id), held, noise, full_throttle)
    chances = np.array([0.55, 0.2, 0.1, 0.15])

    def driver(rng: np.random.Generator) -> Act:
        return drivers[int(rng.choice(len(drivers), p=chances))](rng)

    return driver


def controller(env_id: str) -> Driver:
    """The one that imitates a policy."""
    task = "Run" if "Run" in env_id else "Circle"
    return ball_controller(task) if "Ball" in env_id else car_controller(task)


def following(policy: Callable[[np.ndarray], np.ndarray]) -> Driver:
    """Drives as a trained policy does: ``policy`` gives the action for an observation."""
    return lambda rng: lambda number, observation: policy(observation)


def repeating(actions: np.ndarray) -> Driver:
    """Gives recorded actions [E, T, 2] again, one episode after the other."""
    episodes = iter(actions)

    def driver(rng: np.random.Generator) -> Act:
        episode = next(episodes)
        return lambda number, observation: episode[number]

    return driver
