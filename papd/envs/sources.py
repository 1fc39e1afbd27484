"""How an environment is made: a description in JSON that a worker process builds from. No JAX, no pickle."""

import contextlib
import importlib
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.envs.registration import registry
from numpy.random import mtrand

from papd.envs.stepping import GymnasiumStepper, Stepper

Kind = Literal["bullet", "gymnasium", "factory"]


@contextlib.contextmanager
def own_generators(seed: int) -> Iterator[None]:
    """Seed NumPy's and Python's global generators, and give them back as they were."""
    keep, state = mtrand.get_bit_generator(), random.getstate()
    mtrand.set_bit_generator(np.random.MT19937(0))
    np.random.seed(seed)
    random.seed(seed)
    try:
        yield
    finally:
        mtrand.set_bit_generator(keep)
        random.setstate(state)


@dataclass(frozen=True)
class Source:
    """An environment that any process can build.

    ``target`` is a Bullet-Safety-Gym id (stepped lean where that is known), any Gymnasium id, or the
    ``"package.module:factory"`` of a function that returns an environment. ``settings`` are its keyword arguments and
    ``registration`` what ``gymnasium.register`` needs where the id is not registered by an import: both JSON objects.
    """

    kind: Kind
    target: str
    cost_keys: tuple[str, ...] | None
    settings: str = "{}"
    registration: str = "null"

    def describe(self) -> dict[str, Any]:
        """What :func:`from_description` makes this from, in JSON's types."""
        return asdict(self)

    def build(self) -> Stepper:
        """A new environment. Global generators are left alone, and what construction draws is the same each time."""
        with own_generators(0):
            return self._build()

    def _build(self) -> Stepper:
        if self.kind == "bullet":
            return _build_bullet(self.target, self.cost_keys)
        return GymnasiumStepper(self.build_env(), self.cost_keys)

    def build_env(self) -> Any:
        """The environment itself, where it is one of Gymnasium's."""
        settings = json.loads(self.settings)
        if self.kind == "factory":
            return find(self.target)(**settings)
        return _build_gymnasium(self.target, settings, json.loads(self.registration))


def from_description(description: dict[str, Any]) -> Source:
    """The inverse of :meth:`Source.describe`, after a trip through JSON."""
    keys = description["cost_keys"]
    return Source(**{**description, "cost_keys": None if keys is None else tuple(keys)})


def find(path: str) -> Any:
    """The function that ``"package.module:factory"`` names."""
    module, _, name = path.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _build_bullet(target: str, cost_keys: Sequence[str] | None) -> Stepper:
    from papd.envs import bullet  # PyBullet is an extra.

    world = bullet.build_world(target)
    if bullet.is_lean(target):
        return bullet.LeanStepper(world, cost_keys or ("cost",))
    return GymnasiumStepper(world, cost_keys)


def _build_gymnasium(target: str, settings: dict[str, Any], registration: dict[str, Any] | None) -> Any:
    if target.startswith("bullet_safety_gym:"):
        from papd.envs import bullet  # noqa: F401  (imports it in silence)
    if registration is not None:
        _register(target, registration)
    return gymnasium.make(target, disable_env_checker=True, **settings)


def _register(target: str, registration: dict[str, Any]) -> None:
    """The package that owns the id may register it when it is imported; otherwise we do."""
    importlib.import_module(registration["entry_point"].partition(":")[0].partition(".")[0])
    if target not in registry:
        gymnasium.register(target, **registration)
