"""``papd fidelity``: how true the twins are to the real simulator."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from papd.commands.eval import load_policy
from papd.commands.parse import parse
from papd.commands.show import note, print_json

if TYPE_CHECKING:
    import numpy as np

    from papd.runs.agent import Agent


@dataclass(frozen=True)
class Options:
    """Compare twins with fresh episodes of the real simulator: single steps, whole episodes, reward and cost."""

    envs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[ENV ...]")] = ()
    """Ids with a twin; all of them by default."""
    episodes: Annotated[int, tyro.conf.arg(metavar="N")] = 20
    """Real episodes for each way of driving."""
    seed: Annotated[int, tyro.conf.arg(metavar="N")] = 9_000
    """Seed of the first episode; calibration uses smaller ones."""
    policies: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="RUN ...")] = ()
    """Drive by the policies of these runs too, each in its own environment."""
    calibrate: bool = False
    """Fit the twins' parameters to recorded trajectories first, and store them in the package."""
    workers: Annotated[int, tyro.conf.arg(metavar="N")] = 2
    """Processes that record."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: none)")] = None
    """Write fidelity.json, fidelity.md and the picture there."""
    json: bool = False
    """Print JSON in place of the table."""


def main(words: Sequence[str]) -> int:
    """Run the command."""
    options = parse(Options, words, prog="papd fidelity", default=Options())

    from papd.envs.twins import TWINS
    from papd.results.fidelity import run_fidelity
    from papd.runs import cache

    cache.enable()
    policies: dict[str, dict[str, Callable[[np.ndarray], np.ndarray]]] = {}
    for path in options.policies:
        agent = load_policy(path, "last")
        policies.setdefault(agent.env.name, {})[path.name] = _driver(agent)
    report = run_fidelity(
        options.envs or tuple(policies) or TWINS,
        episodes=options.episodes,
        seed=options.seed,
        policies=policies,
        calibrate=options.calibrate,
        workers=options.workers,
        say=note,
    )
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        report.write(options.out)
    if options.json:
        print_json(report.to_json())
    else:
        print(report.table(), end="")
    return 0


def _driver(agent: "Agent") -> "Callable[[np.ndarray], np.ndarray]":
    return lambda observation: agent.predict(observation)[0]
