"""The agents of Bullet-Safety-Gym and what they sense: each number is read once, in the package's arithmetic.

The package spends most of a Ball's step in wrappers: it reads the same state up to nine times, moves a camera
nobody looks through and a warning light nobody sees. The arithmetic here has the package's precision and order
(dot products go through NumPy, because BLAS may fuse what Python rounds twice), so that observations, rewards
and costs are equal bit for bit (tests/envs/test_bullet.py).
"""

import math
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pybullet as pb

Vector = tuple[float, float, float]


@runtime_checkable
class Body(Protocol):
    """An agent of the package: its action, its state (``position``, ``velocity``) and its own observation."""

    position: Vector
    velocity: Vector
    reward: Any
    """``agent.specific_reward()`` of the last action, in the precision of the action."""

    def act(self, action: np.ndarray) -> None:
        """``apply_action``: what the next physics step will feel."""

    def read(self) -> None:
        """Read the state, once a step."""

    def observe(self) -> list[float]:
        """``agent_specific_observation``."""
        ...


def _clipped(action: np.ndarray) -> tuple[np.ndarray, float, float]:
    x, y = action.tolist()
    if -1.0 <= x <= 1.0 and -1.0 <= y <= 1.0:
        return action, x, y
    action = np.clip(action, -1.0, 1.0)
    x, y = action.tolist()
    return action, x, y


class Norm:
    """``numpy.linalg.norm`` of a pair: BLAS' dot product, then a correctly rounded root."""

    def __init__(self) -> None:
        self._pair = np.zeros(2)

    def __call__(self, x: float, y: float) -> float:
        """The length of (x, y)."""
        pair = self._pair
        pair[0] = x
        pair[1] = y
        return math.sqrt(pair.dot(pair))


class Ball:
    """``agents.Ball``: a force on the centre."""

    def __init__(self, world: Any):
        self._id, self._client = world.agent.body_id, world.bullet_client_id
        self._force = world.agent.max_force
        self.reward: Any = 0.0
        self.read()

    def act(self, action: np.ndarray) -> None:
        """Clip, push."""
        action, x, y = _clipped(action)
        self.reward = -0.5 * np.sqrt(action.dot(action))
        force = (x * self._force, y * self._force, 0.0)
        pb.applyExternalForce(self._id, -1, force, self.position, pb.WORLD_FRAME, self._client)

    def read(self) -> None:
        """Position and velocities, once a step."""
        self.position, _ = pb.getBasePositionAndOrientation(self._id, self._client)
        self.velocity, self.spin = pb.getBaseVelocity(self._id, self._client)

    def observe(self) -> list[float]:
        """``agent_specific_observation``."""
        x, y, _ = self.position
        u, v, _ = self.velocity
        p, q, r = self.spin
        return [0.1 * x, 0.1 * y, 0.2 * u, 0.2 * v, 0.1 * p, 0.1 * q, 0.1 * r]


class Car:
    """``agents.RaceCar``: two driven wheels, two steered ones."""

    def __init__(self, world: Any):
        agent = world.agent
        self._id, self._client = agent.body_id, world.bullet_client_id
        self._force, self._speed, self._steering = (
            agent.max_force,
            agent.speed_multiplier,
            agent.steering_multiplier,
        )
        self._wheels, self._steered = agent.motorized_wheels, agent.steering_links
        self.reward = 0.0
        self.read()

    def act(self, action: np.ndarray) -> None:
        """Target speed of the wheels, target angle of the steering."""
        action, _, _ = _clipped(action)
        speed, angle = action[0] * self._speed, action[1] * self._steering
        for wheel in self._wheels:
            pb.setJointMotorControl2(
                self._id,
                wheel,
                pb.VELOCITY_CONTROL,
                targetVelocity=speed,
                force=self._force,
                physicsClientId=self._client,
            )
        for link in self._steered:
            pb.setJointMotorControl2(
                self._id, link, pb.POSITION_CONTROL, targetPosition=angle, physicsClientId=self._client
            )

    def read(self) -> None:
        """Position, orientation and velocities, once a step."""
        self.position, self.quaternion = pb.getBasePositionAndOrientation(self._id, self._client)
        self.velocity, self.spin = pb.getBaseVelocity(self._id, self._client)

    def observe(self) -> list[float]:
        """``agent_specific_observation``."""
        x, y, _ = self.position
        u, v, _ = self.velocity
        yaw = np.float64(pb.getEulerFromQuaternion(self.quaternion)[2])
        return [0.1 * x, 0.1 * y, u, v, float(np.sin(yaw)), float(np.cos(yaw)), 0.1 * self.spin[2]]


class Bins:
    """``sensors.PseudoLIDARSensor``: the nearest obstacle in each sector. Obstacles stay where they are."""

    def __init__(self, sensor: Any, body: Body):
        self._obstacles, self._body, self._norm = sensor.obstacles, body, Norm()
        self._rays, self._reach = sensor.number_rays, sensor.ray_length
        self._sector = 2 * np.pi / self._rays

    def reset(self) -> None:
        """Where the obstacles lie in this episode, seen from the first position."""
        self._x, self._y = np.array([obstacle.get_position()[:2] for obstacle in self._obstacles]).T
        self.measure()

    def measure(self) -> None:
        """Offsets and distances from where the body is now."""
        x, y, _ = self._body.position
        self._east, self._north = x - self._x, y - self._y
        self.distances = list(map(self._norm, self._east, self._north))

    def observe(self) -> list[float]:
        """0 (out of reach) to 1 (here) for each sector."""
        sectors = (np.arctan2(self._east, self._north) + np.pi) // self._sector
        bins = [0.0] * self._rays
        for sector, distance in zip(sectors.tolist(), self.distances, strict=True):
            if distance <= self._reach:
                bins[int(sector)] = max(bins[int(sector)], 1 - distance / self._reach)
        return bins


class Rays:
    """``sensors.LIDARSensor`` that does not turn with its agent: rays cast in the physics engine."""

    def __init__(self, sensor: Any, body: Body, client: int):
        self._body, self._client = body, client
        angles = [2.0 * math.pi * float(ray) / sensor.number_rays for ray in range(sensor.number_rays)]
        self._ends = np.array(
            [[sensor.ray_length * math.sin(a), sensor.ray_length * math.cos(a), 0.0] for a in angles]
        )

    def observe(self) -> list[float]:
        """0 (nothing hit) to 1 (here) for each ray."""
        start = np.array(self._body.position)
        starts = [start.tolist()] * len(self._ends)
        hits = pb.rayTestBatch(starts, (start + self._ends).tolist(), physicsClientId=self._client)
        return [1.0 - hit[2] for hit in hits]
