"""What a Gymnasium environment is, found by looking at it and stepping it a little; or what is wrong with it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from papd.envs.cmdp import Box, Discrete, Space
from papd.envs.sources import own_generators
from papd.envs.stepping import in_one_line
from papd.errors import ConfigError

AnyEnv = gymnasium.Env[Any, Any]

TRIAL_STEPS = 20
"""Random steps that a stranger's environment is tried for."""


@dataclass(frozen=True)
class Facts:
    """What a :class:`papd.envs.host.HostEnv` needs to know."""

    observation_space: Box
    action_space: Space
    cost_names: tuple[str, ...]
    max_episode_steps: int


def examine(
    env: AnyEnv, name: str, cost_keys: tuple[str, ...] | None, max_episode_steps: int | None
) -> Facts:
    """The facts of an environment that has no problem; the first problem of another as a :class:`ConfigError`."""
    for problem in problems(env, name, cost_keys, max_episode_steps):
        raise ConfigError(problem)
    observation: Any = env.observation_space
    action: Any = env.action_space
    limit = max_episode_steps or known_limit(env)
    assert limit is not None
    return Facts(
        Box(tuple(observation.low.tolist()), tuple(observation.high.tolist())),
        Discrete(int(action.n))
        if isinstance(action, spaces.Discrete)
        else Box(tuple(action.low.tolist()), tuple(action.high.tolist())),
        ("cost",) if cost_keys is None else cost_keys,
        limit,
    )


def known_limit(env: AnyEnv) -> int | None:
    """The episode length that the environment was registered with, or that a ``TimeLimit`` around it gives."""
    if env.spec is not None and env.spec.max_episode_steps is not None:
        return int(env.spec.max_episode_steps)
    layer: Any = env
    wrappers: Any = gymnasium.wrappers
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, wrappers.TimeLimit):
            return int(layer._max_episode_steps)
        layer = layer.env
    return None


def problems(
    env: AnyEnv, name: str, cost_keys: tuple[str, ...] | None, max_episode_steps: int | None
) -> Iterator[str]:
    """What keeps papd from training in the environment, one line each. What cannot be tried is not."""
    wrong_spaces = list(_space_problems(env, name))
    yield from wrong_spaces
    if max_episode_steps is not None and max_episode_steps < 1:
        yield f"max_episode_steps={max_episode_steps}: must be >= 1"
    elif max_episode_steps is None and known_limit(env) is None:
        yield (
            f"{name} has no episode length: wrap it in gymnasium.wrappers.TimeLimit, register it with "
            "max_episode_steps, or write papd.make(..., max_episode_steps=1000)"
        )
    if not wrong_spaces:
        with own_generators(0):
            yield from _trial_problems(env, name, cost_keys)


def _space_problems(env: AnyEnv, name: str) -> Iterator[str]:
    try:
        observation: Any = env.observation_space
        action: Any = env.action_space
    except AttributeError as error:
        yield f"{name}: {error}: set observation_space and action_space in its constructor"
        return
    if not isinstance(observation, spaces.Box) or len(observation.shape) != 1:
        yield (
            f"{name}: the observation space {observation} is no vector: wrap the environment in "
            "gymnasium.wrappers.FlattenObservation"
        )
    if isinstance(action, spaces.Discrete):
        return
    if not isinstance(action, spaces.Box) or len(action.shape) != 1 or np.dtype(action.dtype).kind != "f":
        yield (
            f"{name}: the action space {action} is neither a vector of real numbers nor Discrete: "
            "wrap the environment in a gymnasium.ActionWrapper that offers one of them"
        )
    elif not (np.isfinite(action.low).all() and np.isfinite(action.high).all()):
        yield (
            f"{name}: the action space {action} is not bounded: wrap the environment in "
            "gymnasium.wrappers.RescaleAction, or give the Box finite bounds"
        )


def _trial_problems(env: AnyEnv, name: str, cost_keys: tuple[str, ...] | None) -> Iterator[str]:
    """Reset and step; the first thing that goes wrong ends the trial."""
    where = "reset(seed=0)"
    seen: dict[str, Any] = {}
    try:
        env.action_space.seed(0)
        started = env.reset(seed=0)
        problem = _reset_problem(env, started)
        for step in range(TRIAL_STEPS):
            if problem is not None:
                break
            where = f"step {step + 1}"
            result = env.step(env.action_space.sample())
            problem, info = _step_problem(env, result, cost_keys)
            seen.update(info)
            if problem is None and (result[-3] or result[-2]):
                where = "the second reset(seed=0)"
                problem = _reset_problem(env, env.reset(seed=0))
    except Exception as error:  # A stranger's environment may raise anything.
        problem = f"raised {in_one_line(error)}"
    if problem is None:
        where = f"the first {TRIAL_STEPS} steps"
        problem = _cost_problem(seen, cost_keys)
    if problem is not None:
        yield f"{name}: {where} {problem}"


def _reset_problem(env: AnyEnv, started: Any) -> str | None:
    if not isinstance(started, tuple) or len(started) != 2:
        return "returned no (observation, info): Gymnasium's reset returns both"
    return _observation_problem(env, started[0])


def _observation_problem(env: AnyEnv, observation: Any) -> str | None:
    array, shape = np.asarray(observation), env.observation_space.shape
    if array.shape != shape:
        return f"gave an observation of shape {array.shape}, its space says {shape}: mend one of them"
    if array.dtype.kind not in "fiub":
        return f"gave an observation of {array.dtype} ({array.tolist()}): it must be numbers"
    if not np.isfinite(array).all():
        return f"gave a non-finite observation {array.tolist()}: papd stops at the first one"
    return None


def _step_problem(
    env: AnyEnv, result: Any, cost_keys: tuple[str, ...] | None
) -> tuple[str | None, Mapping[str, Any]]:
    if not isinstance(result, tuple) or len(result) not in (5, 6):
        return (
            "returned no (observation, reward, terminated, truncated, info), with a cost after the reward "
            "or in info",
            {},
        )
    observation, reward, *cost, terminated, truncated, info = result
    if not isinstance(info, Mapping):
        return f"returned the info {info!r}: it must be a dictionary", {}
    if np.shape(terminated) != () or np.shape(truncated) != ():
        return f"returned terminated={terminated!r}, truncated={truncated!r}: each must be one bool", {}
    if cost and cost_keys is None:
        info = {**info, "cost": cost[0]}
    problem = _observation_problem(env, observation)
    for what, value in {
        "reward": reward,
        **{key: info.get(key, 0.0) for key in cost_keys or ("cost",)},
    }.items():
        problem = problem or _number_problem(what, value)
    return problem, info


def _number_problem(what: str, value: Any) -> str | None:
    array = np.asarray(value)
    if array.shape != () or array.dtype.kind not in "fiub":
        return f"gave the {what} {value!r}: it must be one number"
    return None if np.isfinite(array) else f"gave the {what} {value!r}: papd stops at a non-finite one"


def _cost_problem(seen: Mapping[str, Any], cost_keys: tuple[str, ...] | None) -> str | None:
    missing = [key for key in cost_keys or ("cost",) if key not in seen]
    if not missing:
        return None
    keys = ", ".join(sorted(key for key, value in seen.items() if _number_problem(key, value) is None))
    found = f"info has the numbers {keys}" if keys else "info has no numbers"
    return (
        f"reported no {missing[0]!r} ({found}): put info[{missing[0]!r}] = 0.0 or more in every step, "
        "or name other keys with cost_keys=(...)"
    )
