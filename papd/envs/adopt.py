"""A stranger's environment as ours: a registered id, ``"package.module:factory"``, a function or an object."""

import difflib
import importlib
import inspect
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium
from gymnasium.envs.registration import registry

from papd.envs.bullet_ids import BULLET_IDS
from papd.envs.cmdp import CMDP
from papd.envs.examine import AnyEnv, Facts, examine
from papd.envs.host import HostEnv
from papd.envs.sources import Source, find
from papd.envs.stepping import GymnasiumStepper, Stepper, in_one_line
from papd.errors import ConfigError


@dataclass(frozen=True)
class Wish:
    """What was asked for besides the environment."""

    cost_keys: tuple[str, ...] | None
    limits: dict[str, Any] = field(default_factory=dict)
    """Options of :class:`HostEnv`: ``time_limit``, ``max_faults``."""
    max_episode_steps: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    """Arguments of the environment's own constructor."""
    recipe: dict[str, Any] | None = None
    """The arguments of ``papd.make``, where they are JSON values; without ``env`` where that is no name."""


def adopt_named(name: str, wish: Wish) -> CMDP | HostEnv:
    """A registered id, ``"module:id"``, or ``"package.module:factory"``."""
    module, colon, rest = name.partition(":")
    if not colon:
        return _adopt_registered(name, wish)
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(f"{name!r}: cannot import {module!r} ({error})") from error
    except (
        Exception
    ) as error:  # A stranger's module may raise anything, and a word that names none a ValueError.
        raise ConfigError(f"{name!r}: cannot import {module!r} ({in_one_line(error)})") from error
    if rest in registry:
        return _adopt_registered(rest, wish)
    try:
        function = find(name)
    except AttributeError as error:
        raise ConfigError(f"{name!r}: {error}") from error
    return _adopt_path(name, function, wish)


def adopt_function(function: Callable[..., Any], wish: Wish) -> CMDP | HostEnv:
    """A function or class; workers are used where they can import it."""
    path = _import_path(function)
    if path is not None:
        recipe = None if wish.recipe is None else {**wish.recipe, "env": path}
        return _adopt_path(path, function, replace(wish, recipe=recipe))
    name = function.__name__ if inspect.isroutine(function) or inspect.isclass(function) else repr(function)
    return _adopt_made(name, lambda: function(**wish.settings), wish, source=None)


def adopt_object(env: AnyEnv, wish: Wish) -> HostEnv:
    """One environment object. It is reset and tried for a few steps."""
    if wish.settings:
        option = next(iter(wish.settings))
        raise ConfigError(f"{option!r} does not apply to an environment object: give it to its constructor")
    name = type(env.unwrapped).__name__ if env.spec is None else env.spec.id
    facts = examine(env, name, wish.cost_keys, wish.max_episode_steps)
    stepper = GymnasiumStepper(env, wish.cost_keys)
    return _host(name, facts, lambda: stepper, wish, only_one=True)


def _adopt_registered(name: str, wish: Wish) -> CMDP | HostEnv:
    if name not in registry:
        raise ConfigError(_unknown(name))
    settings = dict(wish.settings)
    if wish.max_episode_steps is not None:
        settings["max_episode_steps"] = wish.max_episode_steps
    registration = _registration(gymnasium.spec(name))
    source = None
    if registration is not None:
        source = Source("gymnasium", name, wish.cost_keys, _as_json(settings), json.dumps(registration))
    return _adopt_made(
        name, lambda: gymnasium.make(name, disable_env_checker=True, **settings), wish, source=source
    )


def _adopt_path(path: str, function: Any, wish: Wish) -> CMDP | HostEnv:
    if not callable(function):
        raise ConfigError(
            f"{path!r} is a {type(function).__name__}: name a function that returns an environment"
        )
    source = Source("factory", path, wish.cost_keys, _as_json(wish.settings))
    return _adopt_made(path, lambda: function(**wish.settings), wish, source=source)


def _adopt_made(name: str, build: Callable[[], Any], wish: Wish, *, source: Source | None) -> CMDP | HostEnv:
    """Make one, to see what it is."""
    try:
        env = build()
    except Exception as error:  # A stranger's constructor may raise anything.
        raise ConfigError(f"{name} cannot be made: {in_one_line(error)}") from error
    if isinstance(env, CMDP):
        if wish.cost_keys not in (None, env.cost_names):
            raise ConfigError(f"cost_keys={wish.cost_keys}: {name} has the costs {env.cost_names}")
        return env
    if not isinstance(env, gymnasium.Env):
        raise ConfigError(f"{name} made a {type(env).__name__}, no gymnasium.Env and no papd CMDP")
    facts = examine(env, name, wish.cost_keys, wish.max_episode_steps)
    env.close()  # type: ignore[no-untyped-call]
    here = lambda: GymnasiumStepper(build(), wish.cost_keys)  # noqa: E731
    return _host(name, facts, source or here, wish)


def _host(
    name: str, facts: Facts, source: Source | Callable[[], Stepper], wish: Wish, *, only_one: bool = False
) -> HostEnv:
    return HostEnv(
        name,
        facts.observation_space,
        facts.action_space,
        facts.cost_names,
        facts.max_episode_steps,
        source,
        only_one=only_one,
        recipe=wish.recipe if wish.recipe is not None and "env" in wish.recipe else None,
        **wish.limits,
    )


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name, {*BULLET_IDS, *registry}, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}?" if close else "'papd envs' lists what there is"
    return f"unknown environment {name!r}: {hint} (your own: 'package.module:factory', or the object itself)"


def _registration(spec: Any) -> dict[str, Any] | None:
    """What another process needs to register the id; None where it cannot."""
    entry_point = spec.entry_point if isinstance(spec.entry_point, str) else _import_path(spec.entry_point)
    if entry_point is None or entry_point.startswith("__main__"):
        return None
    try:
        kwargs = json.loads(json.dumps(spec.kwargs))
    except TypeError:
        return None
    return {"entry_point": entry_point, "kwargs": kwargs, "max_episode_steps": spec.max_episode_steps}


def _import_path(function: Any) -> str | None:
    """``"package.module:name"`` if that is how another process finds the function."""
    if not (inspect.isfunction(function) or inspect.isclass(function)) or function.__module__ == "__main__":
        return None
    path = f"{function.__module__}:{function.__qualname__}"
    if "<" in path or function.__module__ not in sys.modules:
        return None
    return path if find(path) is function else None


def _as_json(settings: dict[str, Any]) -> str:
    for name, value in settings.items():
        try:
            json.dumps(value)
        except TypeError:
            raise ConfigError(
                f"{name}={value!r} cannot be sent to a worker process: give numbers, words, lists or "
                "dictionaries of them, or bind it in a function and give that"
            ) from None
    return json.dumps(settings)
