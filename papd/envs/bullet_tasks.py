"""The tasks of Bullet-Safety-Gym as they step: reward, costs and observation of the state the body has read.

As in :mod:`papd.envs.bullet_agents`, precision and order are the package's. What is rare (a goal reached, an
apple taken) is left to the package's own code.
"""

import math
from typing import Any, Protocol, runtime_checkable

import numpy as np
from bullet_safety_gym.envs.sensors import PseudoLIDARSensor

from papd.envs.bullet_agents import Bins, Body, Norm, Rays

Evaluation = tuple[float, tuple[float, ...], bool]
"""Reward, costs (their total, then one for each of the task's ``costs``) and whether the episode ended."""


@runtime_checkable
class Task(Protocol):
    """A task of the package: its reward, costs and observation of the state that the body has read."""

    costs: tuple[str, ...]

    def reset(self) -> None:
        """Take over what the package's reset has drawn."""

    def before_physics(self) -> None:
        """What moves by itself."""

    def evaluate(self) -> Evaluation:
        """``calculate_reward``, ``calculate_cost`` and ``goal_achieved``."""
        ...

    def observe(self) -> list[float]:
        """What the task adds to the observation, sensors included."""
        ...


class Run:
    """``tasks.RunTask``: along x, |y| below 2, below the speed limit."""

    costs: tuple[str, ...] = ("cost_outside_bounds", "cost_velocity_violation")

    def __init__(self, world: Any, body: Body):
        self._task, self._body, self._norm = world.task, body, Norm()
        self._limit = world.agent.velocity_constraint
        self._potential = 0.0

    def reset(self) -> None:
        """The potential of the first position."""
        self._potential = float(self._task.old_potential)

    def before_physics(self) -> None:
        """Nothing moves but the agent."""

    def evaluate(self) -> Evaluation:
        """``calculate_reward`` and ``calculate_cost``."""
        x, y, _ = self._body.position
        u, v, _ = self._body.velocity
        potential = -self._norm(x - 1e3, y) * 60
        reward = potential - self._potential + float(self._body.reward)
        self._potential = potential
        outside = 1.0 if abs(y) > self._task.y_lim else 0.0
        fast = 1.0 if self._norm(u, v) > self._limit else 0.0
        return reward, (min(1.0, outside + fast), outside, fast), False

    def observe(self) -> list[float]:
        """Nothing but the agent's own."""
        return []


class Circle:
    """``tasks.CircleTask``: round a circle of radius 7, |x| below 6."""

    costs: tuple[str, ...] = ("cost_outside_bounds",)

    def __init__(self, world: Any, body: Body):
        self._body, self._norm = body, Norm()
        self._limit, self._radius, self._size = (
            world.task.x_lim,
            world.task.circle.radius,
            world.world.env_dim,
        )
        self._position, self._across = np.zeros(2), np.zeros(2)

    def reset(self) -> None:
        """No memory."""

    def before_physics(self) -> None:
        """Nothing moves but the agent."""

    def evaluate(self) -> Evaluation:
        """``calculate_reward`` and ``calculate_cost``."""
        position, across = self._position, self._across
        position[0], position[1], _ = self._body.position
        across[1], across[0], _ = self._body.velocity
        across[0] = -across[0]
        distance = math.sqrt(position.dot(position))
        reward = 0.1 * float(position.dot(across)) / (1 + abs(distance - self._radius))
        reward += float(0.01 * self._body.reward)
        outside = 1.0 if abs(self._body.position[0]) > self._limit else 0.0
        return reward, (outside, outside), False

    def observe(self) -> list[float]:
        """The distance to the circle."""
        x, y, _ = self._body.position
        return [(self._norm(x, y) - self._radius) / self._size]


class Reach:
    """``tasks.ReachGoalTask``: from goal to goal, round puddles and a box that moves by the wall clock."""

    costs: tuple[str, ...] = ("cost_collisions", "cost_out_of_range")

    def __init__(self, world: Any, body: Body):
        self._world, self._task, self._body, self._norm = world, world.task, body, Norm()
        self._client = world.bullet_client_id
        still = [obstacle for obstacle in world.obstacles if not obstacle.owns_collision_shape]
        self._solid = [obstacle for obstacle in world.obstacles if obstacle.owns_collision_shape]
        rays = [s for s in world.agent.sensors if not isinstance(s, PseudoLIDARSensor)]
        bins = [s for s in world.agent.sensors if isinstance(s, PseudoLIDARSensor)]
        self._rays = [Rays(sensor, body, self._client) for sensor in rays]
        self._bins = Bins(bins[0], body)
        self._collision, self._radii = world.agent.collision_radius, [obstacle.radius for obstacle in still]
        self._goal, self._old_distance = (0.0, 0.0), 0.0
        self._velocity = np.zeros(3)

    def reset(self) -> None:
        """Where the puddles and the goal are."""
        self._bins.reset()
        self._read_goal()

    def _read_goal(self) -> None:
        x, y = self._task.goal.get_position()[:2].tolist()
        self._goal, self._old_distance = (x, y), float(self._task.old_dist)

    def before_physics(self) -> None:
        """The box is pulled along its circle by the package's own code."""
        for obstacle in self._solid:
            obstacle.apply_movement()

    def evaluate(self) -> Evaluation:
        """``calculate_reward``, ``calculate_cost``, and the next goal where this one is reached."""
        x, y, z = self._body.position
        distance = self._norm(x - self._goal[0], y - self._goal[1])
        reward = 3 * (self._old_distance - distance) + float(0.01 * self._body.reward)
        self._old_distance = distance
        self._bins.measure()
        collisions = float(self._collisions())
        high = 1.0 if z > 2 else 0.0
        self._velocity[:] = self._body.velocity
        slow = math.sqrt(self._velocity.dot(self._velocity)) < 5
        if slow and distance < self._task.goal.radius:
            reward += 30
            self._task.update_goal()
            self._read_goal()
        return reward, (min(1.0, collisions + high), collisions, high), False

    def _collisions(self) -> int:
        touched = [bool(obstacle.detect_collision(self._world.agent)) for obstacle in self._solid]
        pairs = zip(self._bins.distances, self._radii, strict=True)
        return sum(touched) + sum(
            bool(distance - self._collision - radius <= 0.0) for distance, radius in pairs
        )

    def observe(self) -> list[float]:
        """What the sensors see, and the way to the goal."""
        x, y, _ = self._body.position
        seen = [value for rays in self._rays for value in rays.observe()]
        size = 2 * self._world.world.env_dim
        return [*seen, *self._bins.observe(), (self._goal[0] - x) / size, (self._goal[1] - y) / size]


class Gather:
    """``tasks.GatherTask``: apples, not bombs."""

    costs: tuple[str, ...] = ("cost_gathered_bombs", "cost_out_of_range")

    def __init__(self, world: Any, body: Body):
        self._task, self._body = world.task, body
        sensors = world.agent.sensors
        self._apples, self._bombs = sensors[0].obstacles, sensors[1].obstacles
        self._apple_bins, self._bomb_bins = Bins(sensors[0], body), Bins(sensors[1], body)

    def reset(self) -> None:
        """Where apples and bombs lie."""
        self._apple_bins.reset()
        self._bomb_bins.reset()

    def before_physics(self) -> None:
        """Nothing moves but the agent."""

    def _take(self, things: list[Any], distances: list[float]) -> int:
        near = [
            thing
            for thing, distance in zip(things, distances, strict=True)
            if thing.is_visible and distance < self._task.detection_distance
        ]
        for thing in near:
            thing.update_visuals(make_visible=False)
        return len(near)

    def evaluate(self) -> Evaluation:
        """``calculate_reward`` and ``calculate_cost``; the last apple ends the episode."""
        self._apple_bins.measure()
        self._bomb_bins.measure()
        reward = self._take(self._apples, self._apple_bins.distances) * self._task.apple_reward
        bombs = self._take(self._bombs, self._bomb_bins.distances) * self._task.bomb_cost
        high = 1.0 if self._body.position[2] > 2 else 0.0
        done = not any(apple.is_visible for apple in self._apples)
        return reward, (min(1.0, bombs + high), bombs, high), done

    def observe(self) -> list[float]:
        """Apples and bombs around, taken ones too."""
        return [*self._apple_bins.observe(), *self._bomb_bins.observe()]
