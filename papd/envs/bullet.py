"""Bullet-Safety-Gym's worlds, built by the package from its own assets, stepped by us.

A motor keeps its last command through the package's reset, which steps the world once: that alone is why a used
Car or Drone does not repeat what a fresh one does. :class:`World` releases the motors before, as they were when
built, and every episode is a function of its seed and its actions (docs/environments.md names the exceptions).
"""

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from papd.envs.sources import own_generators
from papd.envs.stepping import Transition


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Nothing reaches the screen. The engine's banner is printed by C, behind Python's back."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    try:
        with os.fdopen(null, "w") as sink, contextlib.redirect_stdout(sink), contextlib.redirect_stderr(sink):
            yield
    finally:
        ctypes.CDLL(None).fflush(None)
        for number, descriptor in enumerate(saved, start=1):
            os.dup2(descriptor, number)
            os.close(descriptor)


with quiet():
    import bullet_safety_gym  # noqa: F401
    import gymnasium
    import pybullet as pb
    from bullet_safety_gym.envs.builder import EnvironmentBuilder

    from papd.envs import bullet_agents as agents
    from papd.envs import bullet_tasks as tasks


class Client:
    """The package's PyBullet client, blind: what is only to be looked at is not loaded, most of a Car's 150 ms."""

    def __init__(self, client: Any):
        self._package_client = client
        self._client = client._client

    def loadURDF(self, *args: Any, flags: int = 0, **options: Any) -> int:  # noqa: N802
        """``pybullet.loadURDF`` without visual shapes."""
        flags |= pb.URDF_IGNORE_VISUAL_SHAPES
        body: int = self._package_client.loadURDF(*args, flags=flags, **options)
        return body

    def __getattr__(self, name: str) -> Any:
        return getattr(self._package_client, name)


def release_motors(env: EnvironmentBuilder) -> None:
    """Every joint of the agent turns freely, as when it was built."""
    body, client = env.agent.body_id, env.bullet_client_id
    for joint in range(env.agent.num_joints):
        pb.setJointMotorControl2(body, joint, pb.VELOCITY_CONTROL, force=0, physicsClientId=client)


class World(EnvironmentBuilder):  # type: ignore[misc]
    """The package's environment, whose every episode equals one on a fresh environment."""

    def _setup_client_and_physics(self, graphics: bool = False) -> Client:
        return Client(super()._setup_client_and_physics(graphics))

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """The package's reset, after the motors have let go."""
        release_motors(self)
        observation, info = super().reset(seed, options)
        return observation, info


BODIES: dict[str, Callable[[Any], agents.Body]] = {"Ball": agents.Ball, "RaceCar": agents.Car}
TASKS: dict[str, Callable[[Any, agents.Body], tasks.Task]] = {
    "RunTask": tasks.Run,
    "CircleTask": tasks.Circle,
    "ReachGoalTask": tasks.Reach,
    "GatherTask": tasks.Gather,
}


def build_world(name: str) -> World:
    """The world of a registered id: the same one each time, though obstacles draw where they are built."""
    with quiet(), own_generators(0):
        return World(**gymnasium.spec(name).kwargs)


def is_lean(name: str) -> bool:
    """Whether :class:`LeanStepper` knows this id's agent and task."""
    settings = gymnasium.spec(name).kwargs
    return settings["agent"] in BODIES and settings["task"] in TASKS


def remove_scenery(world: World) -> None:
    """Take away what nothing can touch and nobody looks at: each body costs the engine time, an eighth of Circle's.

    That is the agent's warning light, and the lines and zones of tasks that never ask where they are.
    """
    client, task = world.bullet_client_id, world.task
    drawn = [getattr(task, name).body_id for name in ("circle", "bound_1", "bound_2") if name in vars(task)]
    for body in (world.agent.violation_body_id, *drawn):
        pb.removeBody(body, physicsClientId=client)


class LeanStepper:
    """One environment: the package's reset, our step."""

    def __init__(self, world: World, cost_keys: Sequence[str] = ("cost",)):
        self._world, self._client = world, world.bullet_client_id
        remove_scenery(world)
        settings = world.input_parameters
        self._body = BODIES[settings["agent"]](world)
        self._task = TASKS[settings["task"]](world, self._body)
        names = ("cost", *self._task.costs)
        self._columns = [names.index(key) for key in cost_keys]

    def reset(self, seed: int) -> list[float]:
        """The first observation. The package draws from the global generator, which the caller has seeded."""
        self._world.reset(seed)
        self._body.read()
        self._task.reset()
        return self._body.observe() + self._task.observe()

    def step(self, action: np.ndarray) -> Transition:
        """``EnvironmentBuilder.step``."""
        self._body.act(action)
        self._task.before_physics()
        pb.stepSimulation(self._client)
        self._body.read()
        reward, costs, done = self._task.evaluate()
        chosen = tuple([costs[column] for column in self._columns])
        return self._body.observe() + self._task.observe(), reward, chosen, done, False

    def close(self) -> None:
        """Let go of the physics engine."""
        self._world.close()
