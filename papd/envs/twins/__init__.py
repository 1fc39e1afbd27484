"""JAX twins of Bullet-Safety-Gym's Ball and Car on the tasks Run and Circle, calibrated against it."""

import functools
import json
from typing import Any

from papd.envs.twins.ball import Ball, BallParameters
from papd.envs.twins.car import Car, CarParameters
from papd.envs.twins.parameters import FILE, from_json
from papd.envs.twins.tasks import Circle, Run, Task
from papd.errors import ConfigError, nearest

__all__ = ["TWINS", "Ball", "BallParameters", "Car", "CarParameters", "make_twin", "twin_with"]

Twin = Ball | Car

_LENGTHS = {
    "SafetyBallRun-v0": 100,
    "SafetyCarRun-v0": 200,
    "SafetyBallCircle-v0": 200,
    "SafetyCarCircle-v0": 300,
}
_SPEED_LIMITS = {"Ball": 2.5, "Car": 1.5}

TWINS: tuple[str, ...] = tuple(_LENGTHS)
"""The ids of Bullet-Safety-Gym that have a twin."""


def make_twin(env_id: str, cost_keys: tuple[str, ...] | None = None) -> Twin:
    """The twin of a Bullet-Safety-Gym id; ``cost_keys`` are keys of its ``info``, ``("cost",)`` by default."""
    if env_id not in _LENGTHS:
        raise ConfigError(f"{env_id!r} has no twin{nearest(env_id, TWINS)}")
    return twin_with(env_id, from_json(env_id, _stored()["twins"][env_id]["parameters"]), cost_keys)


def twin_with(
    env_id: str, parameters: BallParameters | CarParameters, cost_keys: tuple[str, ...] | None = None
) -> Twin:
    """A twin with given physics."""
    agent = "Ball" if "Ball" in env_id else "Car"
    task: Task = Run(_SPEED_LIMITS[agent]) if "Run" in env_id else Circle()
    keys = ("cost",) if cost_keys is None else tuple(cost_keys)
    known = ("cost", *task.cost_parts)
    for key in keys:
        if key not in known:
            raise ConfigError(f"cost_keys={keys!r}: {env_id} has no {key!r}{nearest(key, known)}")
    if not keys:
        raise ConfigError(f"cost_keys=(): name at least one of {', '.join(known)}")
    if isinstance(parameters, BallParameters):
        return Ball(env_id, task, _LENGTHS[env_id], parameters, keys)
    return Car(env_id, task, _LENGTHS[env_id], parameters, keys)


@functools.cache
def _stored() -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(FILE.read_text())
    return stored
