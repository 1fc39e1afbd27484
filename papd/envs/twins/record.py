"""Real trajectories of Bullet-Safety-Gym: what the package returned, and the rigid-body state behind it.

The simulator is imported only when something is recorded; everything else here is NumPy.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from papd.errors import ConfigError

Driver = Callable[[np.random.Generator], Callable[[int, np.ndarray], np.ndarray]]
"""Draws the behaviour of one episode: a function of the step's number and the observation that gives the action."""

_STEERING_JOINTS = (0, 2)
"""The steering hinges of the package's race car."""
_JOINTS_OF_CAR = 20

RADIUS_OF_BALL = 0.5
"""Metres."""


@dataclass(frozen=True)
class Recording:
    """Whole episodes; axis 0 is the episode, axis 1 the time (T steps, T + 1 states), all float64."""

    env_id: str
    position: np.ndarray
    """[E, T+1, 3] centre of mass of the base."""
    rotation: np.ndarray
    """[E, T+1, 3] roll, pitch, yaw."""
    velocity: np.ndarray
    """[E, T+1, 3] of the base, in the world's axes."""
    spin: np.ndarray
    """[E, T+1, 3] angular velocity, in the world's axes."""
    steering: np.ndarray
    """[E, T+1, 2] angles of the steering hinges (a Car; nothing for a Ball: [E, T+1, 0])."""
    observation: np.ndarray
    """[E, T+1, observation]."""
    action: np.ndarray
    """[E, T, 2] as given to ``step`` (unclipped)."""
    reward: np.ndarray
    """[E, T]."""
    costs: dict[str, np.ndarray]
    """Every ``cost*`` key of ``info``: [E, T]; 0 where the package left the key out."""

    @property
    def episodes(self) -> int:
        """How many episodes."""
        return int(self.action.shape[0])

    @classmethod
    def joined(cls, parts: list["Recording"]) -> "Recording":
        """The episodes of several recordings of one environment."""
        arrays = {
            field.name: np.concatenate([getattr(part, field.name) for part in parts])
            for field in dataclasses.fields(cls)
            if field.name not in ("env_id", "costs")
        }
        keys = sorted({key for part in parts for key in part.costs})
        costs = {
            key: np.concatenate([part.costs.get(key, np.zeros_like(part.reward)) for part in parts])
            for key in keys
        }
        return cls(env_id=parts[0].env_id, costs=costs, **arrays)

    def distance_travelled(self) -> np.ndarray:
        """[E] length of each path in the plane."""
        lengths: np.ndarray = np.linalg.norm(np.diff(self.position[..., :2], axis=1), axis=-1)
        total: np.ndarray = lengths.sum(axis=1)
        return total


def make_real(env_id: str) -> Any:
    """The package's own environment, without Gymnasium's wrappers, and its episode length as ``(env, steps)``."""
    try:
        import gymnasium

        from papd.envs.bullet import quiet
    except ImportError as error:
        raise ConfigError(
            f"{env_id} is recorded from Bullet-Safety-Gym: pip install 'papd[bullet]'"
        ) from error
    with quiet():
        env = gymnasium.make(env_id).unwrapped
    return env, int(gymnasium.spec(env_id).max_episode_steps or 0)


def record(env_id: str, driver: Driver, episodes: int, seed: int, *, warm_up: int = 0) -> Recording:
    """Drive the real environment for whole episodes. One environment is used throughout, as training would.

    ``warm_up`` steps of another episode come before each: they change nothing but what the simulator remembers.
    """
    env, length = make_real(env_id)
    rng = np.random.default_rng(seed)
    try:
        recorded = []
        for number in range(episodes):
            if warm_up:
                _episode(env, lambda number, observation: np.ones(2), warm_up, seed)
            recorded.append(_episode(env, driver(rng), length, seed * 100_003 + number))
    finally:
        env.close()
    stacked = {
        name: np.stack([episode[name] for episode in recorded]) for name in recorded[0] if name != "info"
    }
    keys = sorted(
        {key for episode in recorded for info in episode["info"] for key in info if key.startswith("cost")}
    )
    costs = {
        key: np.array([[float(info.get(key, 0.0)) for info in episode["info"]] for episode in recorded])
        for key in keys
    }
    return Recording(env_id=env_id, costs=costs, **stacked)


def _episode(
    env: Any, act: Callable[[int, np.ndarray], np.ndarray], length: int, seed: int
) -> dict[str, Any]:
    np.random.seed(seed % 2**32)
    observation, _ = env.reset()
    states, observations = [_rigid_state(env)], [observation]
    actions, rewards, infos = [], [], []
    for number in range(length):
        action = np.asarray(act(number, observation), np.float64)
        observation, reward, _, _, info = env.step(action)
        states.append(_rigid_state(env))
        observations.append(observation)
        actions.append(action)
        rewards.append(reward)
        infos.append(info)
    state = np.array(states)
    return {
        "position": state[:, 0:3],
        "velocity": state[:, 3:6],
        "rotation": state[:, 6:9],
        "spin": state[:, 9:12],
        "steering": state[:, 12:],
        "observation": np.array(observations),
        "action": np.array(actions),
        "reward": np.array(rewards),
        "info": infos,
    }


def _rigid_state(env: Any) -> np.ndarray:
    """Position, velocity, roll-pitch-yaw and angular velocity of the base, then the steering angles of a Car."""
    agent = env.agent
    base = _base_state(env)
    if agent.num_joints != _JOINTS_OF_CAR:
        return base
    steering = [env.bc.getJointState(agent.body_id, joint)[0] for joint in _STEERING_JOINTS]
    return np.concatenate([base, steering])


def _base_state(env: Any) -> np.ndarray:
    """The 12 numbers of the base link, as the package's ``Body.get_state``."""
    position, quaternion = env.bc.getBasePositionAndOrientation(env.agent.body_id)
    velocity, spin = env.bc.getBaseVelocity(env.agent.body_id)
    return np.concatenate([position, velocity, env.bc.getEulerFromQuaternion(quaternion), spin])
