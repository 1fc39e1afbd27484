"""What a policy is worth: many episodes in parallel, on the environment it learned on or on another backend of it."""

import abc
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, final

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from papd.envs import registry
from papd.envs.cmdp import CMDP
from papd.envs.host import HostEnv, HostVector, available_cores
from papd.errors import ConfigError, EnvironmentFault
from papd.results.statistics import Interval, mean, stratified_interval

if TYPE_CHECKING:
    from papd.runs.agent import Agent

MOST_TOGETHER = 256
"""Episodes on a JAX environment that are played side by side."""

PER_WORKER = 4
"""Episodes that a real environment's worker has in hand: making one may take a second."""

FIRST_SEED = 1_000_000
"""Episodes of an evaluation are seeded from here on, away from training's small numbers."""


class Moment(NamedTuple):
    """One step of a batch, as numpy arrays."""

    observation: Float[np.ndarray, "N o"]
    reward: Float[np.ndarray, " N"]
    cost: Float[np.ndarray, "N m"]
    ended: Bool[np.ndarray, " N"]
    restarted: Bool[np.ndarray, " N"]


@dataclass(frozen=True)
class Evaluation:
    """The episodes of one policy: what each returned and cost, and what that says about its mean."""

    env: str
    backend: str
    deterministic: bool
    seed: int
    cost_names: tuple[str, ...]
    limits: Float[np.ndarray, " m"]
    returns: Float[np.ndarray, " n"]
    costs: Float[np.ndarray, "n m"]
    lengths: Int[np.ndarray, " n"]

    @cached_property
    def return_mean(self) -> Interval:
        """Mean return with its bootstrap interval."""
        return stratified_interval([self.returns], mean)

    @cached_property
    def cost_mean(self) -> tuple[Interval, ...]:
        """Mean cost of an episode with its bootstrap interval, one per constraint."""
        return tuple(stratified_interval([cost], mean) for cost in self.costs.T)

    @property
    def within_limit(self) -> float:
        """The share of episodes whose every cost is within its limit."""
        return float((self.costs <= self.limits[None, :]).all(axis=1).mean())

    @property
    def feasible(self) -> bool:
        """Whether every mean cost is within its limit: what the constraint asks for."""
        return bool((self.costs.mean(axis=0) <= self.limits).all())

    def to_json(self) -> dict[str, Any]:
        """JSON values: the means with their intervals, and every episode."""
        return {
            "env": self.env,
            "backend": self.backend,
            "episodes": len(self.returns),
            "deterministic": self.deterministic,
            "seed": self.seed,
            "return_mean": self.return_mean._asdict(),
            "cost_mean": {
                name: {**interval._asdict(), "limit": float(limit)}
                for name, interval, limit in zip(self.cost_names, self.cost_mean, self.limits, strict=True)
            },
            "within_limit": self.within_limit,
            "feasible": self.feasible,
            "returns": self.returns.tolist(),
            "costs": self.costs.tolist(),
            "lengths": self.lengths.tolist(),
        }


def evaluate(
    agent: "Agent",
    episodes: int = 20,
    backend: Literal["bullet", "twin"] | None = None,
    *,
    deterministic: bool = True,
    seed: int = 0,
    workers: int | None = None,
) -> Evaluation:
    """Play ``episodes`` with the agent's policy; ``backend`` names another one than it learned on."""
    if isinstance(episodes, bool) or episodes < 1:
        raise ConfigError(f"episodes={episodes!r}: an evaluation has one episode or more")
    env = environment_of(agent, backend)
    with players(env, episodes, workers) as vector:
        returns, costs, lengths = _play_all(agent, vector, episodes, deterministic, seed)
    return Evaluation(
        env=env.name,
        backend=backend or agent.config()["backend"],
        deterministic=deterministic,
        seed=seed,
        cost_names=env.cost_names,
        limits=np.asarray(agent.state.controls.limits, float),
        returns=returns,
        costs=costs,
        lengths=lengths,
    )


def environment_of(agent: "Agent", backend: Literal["bullet", "twin"] | None) -> CMDP | HostEnv:
    """The agent's environment, or its counterpart on another backend, which must speak the same language."""
    config = agent.config()
    if backend is None or backend == config["backend"]:
        return agent.env
    env: CMDP | HostEnv = registry.make(config["env"], backend, cost_keys=config["cost_keys"] or None)
    if (env.observation_space.shape, env.action_space) != (
        agent.env.observation_space.shape,
        agent.env.action_space,
    ):
        raise ConfigError(f"backend={backend!r}: {env.name} has other observations or actions there")
    return env


class Vector(abc.ABC):
    """Environments played side by side; a step is for those in the mask."""

    num_envs: int
    costs: int

    @abc.abstractmethod
    def reset(self, seeds: Int[np.ndarray, " N"]) -> Float[np.ndarray, "N o"]:
        """Begin an episode in each."""

    @abc.abstractmethod
    def step(self, actions: np.ndarray, mask: Bool[np.ndarray, " N"]) -> Moment:
        """One step of each in the mask."""

    @abc.abstractmethod
    def close(self) -> None:
        """Let go of them."""

    def __enter__(self) -> "Vector":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def players(env: CMDP | HostEnv, episodes: int, workers: int | None = None) -> Vector:
    """Enough environments for so many episodes."""
    return HostPlayers(env, episodes, workers) if isinstance(env, HostEnv) else TwinPlayers(env, episodes)


@final
class HostPlayers(Vector):
    """Environments outside JAX, in worker processes."""

    def __init__(self, env: HostEnv, episodes: int, workers: int | None):
        self.num_envs = 1 if env.only_one else min(episodes, PER_WORKER * (workers or available_cores()))
        self.costs = len(env.cost_names)
        self._name = env.name
        self._vector: HostVector = env.start(self.num_envs, workers=workers)

    def reset(self, seeds: Int[np.ndarray, " N"]) -> Float[np.ndarray, "N o"]:
        """Each episode is a function of its seed."""
        return self._vector.reset(seeds).copy()

    def step(self, actions: np.ndarray, mask: Bool[np.ndarray, " N"]) -> Moment:
        """One step of each in the mask; the others' values mean nothing."""
        step = self._vector.step(actions, mask)
        ended = step.terminated | step.truncated
        return Moment(step.observation.copy(), step.reward, step.cost, ended, step.restarted)

    def close(self) -> None:
        """Stop the workers."""
        self._vector.close()


@final
class TwinPlayers(Vector):
    """A JAX environment, vectorised."""

    def __init__(self, env: CMDP, episodes: int):
        self.num_envs = min(episodes, MOST_TOGETHER)
        self.costs = len(env.cost_names)
        self._env = env
        self._keys: Any = None
        self._states: Any = None

    def reset(self, seeds: Int[np.ndarray, " N"]) -> Float[np.ndarray, "N o"]:
        """Each episode's key comes from its seed."""
        self._keys, self._states, observation = _reset_all(self._env, np.asarray(seeds, np.uint32))
        return np.array(observation)

    def step(self, actions: np.ndarray, mask: Bool[np.ndarray, " N"]) -> Moment:
        """One step of each; those outside the mask have ended and their values mean nothing."""
        self._keys, step = _step_all(self._env, self._keys, self._states, actions)
        self._states = step.state
        ended = step.terminated | step.truncated
        observation, reward, cost, ended = jax.device_get((step.observation, step.reward, step.cost, ended))
        return Moment(observation, reward, cost, ended, restarted=np.zeros(self.num_envs, bool))

    def close(self) -> None:
        """Nothing to let go of."""


@eqx.filter_jit
def _reset_all(env: CMDP, seeds: Any) -> Any:
    def one(seed: Any) -> Any:
        key, first = jax.random.split(jax.random.key(seed))
        return key, *env.reset(first)

    return jax.vmap(one)(seeds)


@eqx.filter_jit
def _step_all(env: CMDP, keys: Any, states: Any, actions: Any) -> Any:
    def one(key: Any, state: Any, action: Any) -> Any:
        key, now = jax.random.split(key)
        return key, env.step(now, state, action)

    return jax.vmap(one)(keys, states, actions)


def _play_all(
    agent: "Agent", vector: Vector, episodes: int, deterministic: bool, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rounds of as many episodes as there are environments, until all are played."""
    count = vector.num_envs
    key = jax.random.key(seed)
    played = []
    for first in range(0, episodes, count):
        seeds = FIRST_SEED * (seed + 1) + first + np.arange(count)
        alive = first + np.arange(count) < episodes
        key, round_key = jax.random.split(key)
        played.append(
            [part[alive] for part in _play_round(agent, vector, seeds, alive, deterministic, round_key)]
        )
    returns, costs, lengths = (np.concatenate(parts) for parts in zip(*played, strict=True))
    if not (np.isfinite(returns).all() and np.isfinite(costs).all()):
        raise EnvironmentFault(
            f"{agent.env.name}: the reward or cost of an evaluated episode is no finite number"
        )
    return returns, costs, lengths


def _play_round(
    agent: "Agent",
    vector: Vector,
    seeds: Int[np.ndarray, " N"],
    alive: Bool[np.ndarray, " N"],
    deterministic: bool,
    key: jax.Array,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One episode in each environment of the mask."""
    going = alive.copy()
    returns, costs = np.zeros(len(alive)), np.zeros((len(alive), vector.costs))
    lengths = np.zeros(len(alive), int)
    observation = vector.reset(seeds % 2**31)
    while going.any():
        key, action_key = jax.random.split(key)
        actions, _ = agent.predict(observation, deterministic, key=action_key)
        step = vector.step(actions, going)
        again = going & step.restarted
        counted = going & ~step.restarted
        returns[counted] += step.reward[counted]
        costs[counted] += step.cost[counted]
        lengths[counted] += 1
        returns[again], costs[again], lengths[again] = 0.0, 0.0, 0
        observation[going] = step.observation[going]
        going &= ~(counted & step.ended)
    return returns, costs, lengths
