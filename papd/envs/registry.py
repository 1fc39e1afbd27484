"""``make``: an environment from an id, an object, a function or ``"package.module:factory"``; ``list_envs``."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium

from papd.envs.adopt import Wish, adopt_function, adopt_named, adopt_object
from papd.envs.bullet_ids import BULLET_IDS, PACKAGE, is_installed
from papd.envs.cmdp import CMDP, Space
from papd.envs.examine import AnyEnv
from papd.envs.host import HostEnv
from papd.envs.sources import Source
from papd.errors import ConfigError, nearest

Backend = Literal["bullet", "twin"]
Env = str | CMDP | HostEnv | AnyEnv | Callable[..., Any]

_LIMITS = ("time_limit", "max_faults")


@dataclass(frozen=True)
class EnvInfo:
    """One line of ``papd envs``."""

    id: str
    backends: tuple[Backend, ...]
    observation_space: Space
    action_space: Space
    max_episode_steps: int
    cost_keys: tuple[str, ...]
    installed: bool
    """Whether the real simulator is."""


def list_envs() -> list[EnvInfo]:
    """Every id that papd knows by itself: those of Bullet-Safety-Gym, with their twins."""
    from papd.envs.twins import TWINS

    installed = is_installed()
    return [
        EnvInfo(
            name,
            ("bullet", "twin") if name in TWINS else ("bullet",),
            known.observation_space,
            known.action_space,
            known.max_episode_steps,
            ("cost", *known.cost_keys),
            installed,
        )
        for name, known in BULLET_IDS.items()
    ]


def make(
    env: Env, backend: Backend = "bullet", *, cost_keys: Sequence[str] | None = None, **options: Any
) -> CMDP | HostEnv:
    """An environment to train in.

    ``env`` is an id (Bullet-Safety-Gym's or any that Gymnasium has), ``"package.module:factory"``, a function that
    returns an environment, a Gymnasium environment, or a :class:`CMDP`. ``backend`` says whether an id means the
    real simulator or its JAX twin. ``cost_keys`` names the entries of ``info`` that are constraints, one each.

    Options: ``time_limit`` (seconds a step may take), ``max_faults`` (in a row), ``max_episode_steps`` where the
    environment has no limit of its own, ``lean=False`` to step a Bullet-Safety-Gym id by the package's own code;
    all others go to the environment's constructor.
    """
    keys = _checked_keys(cost_keys)
    if backend not in ("bullet", "twin"):
        raise ConfigError(f"backend={backend!r}{nearest(str(backend), ('bullet', 'twin'))}")
    if isinstance(env, CMDP | HostEnv):
        return _as_it_is(env, keys, options)
    if backend == "twin":
        return _make_twin(env, keys, options)
    if not isinstance(env, str | gymnasium.Env) and not callable(env):
        raise ConfigError(
            f"{env!r} is no environment: give an id, a Gymnasium environment, a papd CMDP, "
            "or a function that makes one"
        )
    wish = _wish(env, keys, options)
    if isinstance(env, str):
        return _make_bullet(env, wish) if env in BULLET_IDS else adopt_named(env, wish)
    return adopt_object(env, wish) if isinstance(env, gymnasium.Env) else adopt_function(env, wish)


def _checked_keys(cost_keys: Sequence[str] | None) -> tuple[str, ...] | None:
    if cost_keys is None:
        return None
    if isinstance(cost_keys, str):
        raise ConfigError(f"cost_keys={cost_keys!r}: write a tuple, cost_keys=({cost_keys!r},)")
    if not cost_keys or len(set(cost_keys)) < len(cost_keys):
        raise ConfigError(f"cost_keys={tuple(cost_keys)}: name one or more different keys of info")
    return tuple(cost_keys)


def _wish(env: Env, keys: tuple[str, ...] | None, options: dict[str, Any]) -> Wish:
    settings = dict(options)
    limits = {name: settings.pop(name) for name in _LIMITS if name in settings}
    named = {"env": env} if isinstance(env, str) else {}
    given = {**named, "backend": "bullet", "cost_keys": keys and list(keys), **options}
    recipe: dict[str, Any] | None
    try:
        recipe = json.loads(json.dumps(given))
    except TypeError:
        recipe = None
    return Wish(keys, limits, settings.pop("max_episode_steps", None), settings, recipe)


def _as_it_is(env: CMDP | HostEnv, keys: tuple[str, ...] | None, options: dict[str, Any]) -> CMDP | HostEnv:
    if options or keys not in (None, env.cost_names):
        given = next(iter(options), "cost_keys")
        raise ConfigError(
            f"{given} does not apply to {env.name}, which is made already: give it where it is made"
        )
    return env


def _make_twin(env: Env, keys: tuple[str, ...] | None, options: dict[str, Any]) -> CMDP:
    from papd.envs.twins import TWINS, make_twin

    if not isinstance(env, str):
        raise ConfigError(f"{env!r} has no twin: backend='twin' is for ids ({', '.join(TWINS)})")
    if env not in TWINS:
        hint = (
            f": write backend='bullet', or take {', '.join(TWINS)}"
            if env in BULLET_IDS
            else nearest(env, TWINS)
        )
        raise ConfigError(f"{env!r} has no twin{hint}")
    for option in options:
        raise ConfigError(f"a twin has no option {option!r}; its arguments are env, backend and cost_keys")
    return make_twin(env, keys)


def _make_bullet(name: str, wish: Wish) -> CMDP | HostEnv:
    known = BULLET_IDS[name]
    costs = ("cost", *known.cost_keys)
    for key in wish.cost_keys or ():
        if key not in costs:
            raise ConfigError(f"{name} has no cost {key!r}{nearest(key, costs)}")
    settings = dict(wish.settings)
    lean = settings.pop("lean", True)
    for option in settings:
        raise ConfigError(
            f"{name} has no option {option!r}{nearest(option, (*_LIMITS, 'lean', 'cost_keys'))}"
        )
    if wish.max_episode_steps is not None:
        raise ConfigError(
            f"max_episode_steps does not apply to {name}, whose episodes have {known.max_episode_steps} steps"
        )
    if not is_installed():
        raise ConfigError(
            f"{name} needs the real simulator: pip install 'papd[bullet]' (or take backend='twin')"
        )
    source = Source("bullet" if lean else "gymnasium", name if lean else f"{PACKAGE}:{name}", wish.cost_keys)
    return HostEnv(
        name,
        known.observation_space,
        known.action_space,
        wish.cost_keys or ("cost",),
        known.max_episode_steps,
        source,
        recipe=wish.recipe,
        **wish.limits,
    )
