"""``papd envs``: the environments that papd knows by itself."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from papd.commands.parse import parse
from papd.commands.show import note, print_json, table

if TYPE_CHECKING:
    from papd.envs.registry import EnvInfo


@dataclass(frozen=True)
class Options:
    """List the environments: backends, size of observation and action, episode length, cost keys."""

    pattern: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="[PART]")] = ""
    """Only ids that contain this, in any case."""
    json: bool = False
    """Print JSON."""


def main(words: Sequence[str]) -> int:
    """Run the command."""
    options = parse(Options, words, prog="papd envs", default=Options())

    from papd.envs.registry import list_envs

    part = re.escape(options.pattern)
    known = list_envs()
    shown = [info for info in known if re.search(part, info.id, re.IGNORECASE)]
    if options.json:
        print_json([_as_json(info) for info in shown])
        return 0
    head = ["environment", "backends", "observation", "action", "steps", "cost keys"]
    print(table([head, *map(_row, shown)], left=(0, 1, 5)))
    if not known[0].installed:
        note("the real simulator is not installed (pip install 'papd[bullet]'); twins need nothing")
    note('any other Gymnasium id, or "package.module:factory", can be trained on too')
    return 0


def _row(info: "EnvInfo") -> list[str]:
    values = _as_json(info)
    sizes = [str(values[name]) for name in ("observation", "action", "max_episode_steps")]
    return [info.id, ", ".join(info.backends), *sizes, ", ".join(info.cost_keys)]


def _as_json(info: "EnvInfo") -> dict[str, Any]:
    return {
        "id": info.id,
        "backends": list(info.backends),
        "observation": _size(info.observation_space),
        "action": _size(info.action_space),
        "max_episode_steps": info.max_episode_steps,
        "cost_keys": list(info.cost_keys),
        "installed": info.installed,
    }


def _size(space: Any) -> str:
    return f"Box({len(space.low)})" if space.shape else f"Discrete({space.n})"
