"""papd: adaptive primal-dual safe reinforcement learning; the learning rate follows the Lagrange multiplier."""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from papd.core.multiplier import PID as PID
    from papd.core.multiplier import Fixed as Fixed
    from papd.core.multiplier import GradientAscent as GradientAscent
    from papd.core.rates import Constant as Constant
    from papd.core.rates import InvLin as InvLin
    from papd.core.rates import InvQua as InvQua
    from papd.envs.checker import check_env as check_env
    from papd.envs.registry import list_envs as list_envs
    from papd.envs.registry import make as make
    from papd.results.evaluation import evaluate as evaluate
    from papd.runs.agent import DDPGLag as DDPGLag
    from papd.runs.agent import PPOLag as PPOLag
    from papd.runs.agent import load as load

_HOMES = {
    "PPOLag": "papd.runs.agent",
    "DDPGLag": "papd.runs.agent",
    "load": "papd.runs.agent",
    "evaluate": "papd.results.evaluation",
    "make": "papd.envs.registry",
    "list_envs": "papd.envs.registry",
    "check_env": "papd.envs.checker",
    "Constant": "papd.core.rates",
    "InvLin": "papd.core.rates",
    "InvQua": "papd.core.rates",
    "PID": "papd.core.multiplier",
    "GradientAscent": "papd.core.multiplier",
    "Fixed": "papd.core.multiplier",
}
"""Where each public name lives: imported when first used, so that the command starts fast."""

__all__ = [*sorted(_HOMES), "__version__"]


_ROOMS = ("core", "envs", "agents", "runs", "results", "integrations")


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"papd.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'papd' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
