"""What Bullet-Safety-Gym registers: sizes, episode lengths and cost keys of its ids, known without importing it.

tests/envs/test_bullet.py compares this table with the package.
"""

import importlib.util
from dataclasses import dataclass

from papd.envs.cmdp import Box

PACKAGE = "bullet_safety_gym"


@dataclass(frozen=True)
class BulletId:
    """One id. Its environments report ``cost`` and, in a step that has one, each of ``cost_keys``."""

    observation_space: Box
    action_space: Box
    max_episode_steps: int
    cost_keys: tuple[str, ...]


_COST_KEYS = {
    "Run": ("cost_outside_bounds", "cost_velocity_violation"),
    "Circle": ("cost_outside_bounds",),
    "Reach": ("cost_collisions", "cost_out_of_range"),
    "Push": ("cost_collisions",),
    "Gather": ("cost_gathered_bombs", "cost_out_of_range"),
}

_TABLE = """
    Ball Run 7 2 100        Car Run 7 2 200        Drone Run 17 4 200        Ant Run 33 8 200
    Ball Circle 8 2 200     Car Circle 8 2 300     Drone Circle 18 4 300     Ant Circle 34 8 500
    Ball Reach 57 2 250     Car Reach 33 2 500     Drone Reach 67 4 500      Ant Reach 83 8 1000
    Ball Gather 39 2 250    Car Gather 39 2 500    Drone Gather 49 4 500     Ant Gather 65 8 1000
    Ball Push 9 2 250       Car Push 9 2 500
"""


def _read_table() -> dict[str, BulletId]:
    words = _TABLE.split()
    ids = {}
    for agent, task, *numbers in zip(*[iter(words)] * 5, strict=True):
        observation, action, steps = map(int, numbers)
        ids[f"Safety{agent}{task}-v0"] = BulletId(
            Box((-1000.0,) * observation, (1000.0,) * observation),
            Box((-1.0,) * action, (1.0,) * action),
            steps,
            _COST_KEYS[task],
        )
    return ids


BULLET_IDS: dict[str, BulletId] = _read_table()


def is_installed() -> bool:
    """Whether the extra ``papd[bullet]`` is."""
    return all(importlib.util.find_spec(module) is not None for module in (PACKAGE, "pybullet"))
