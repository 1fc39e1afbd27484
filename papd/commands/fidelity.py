"""``papd fidelity``: how true the twins are to the real simulator."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from papd.commands.eval import load_policy
from papd.commands.parse import parse
from papd.commands.show import note, print_json
from papd.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np

    from papd.results.fidelity import Report
    from papd.results.transfer import TransferReport
    from papd.runs.agent import Agent

_EPISODES = 20


@dataclass(frozen=True)
class Options:
    """Compare twins with fresh episodes of the real simulator: single steps, whole episodes, reward and cost."""

    envs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[ENV ...]")] = ()
    """Ids with a twin; all of them by default."""
    episodes: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: 20, or 50)")] = (
        None
    )
    """Real episodes for each way of driving; with --transfer, of each evaluation."""
    seed: Annotated[int, tyro.conf.arg(metavar="N")] = 9_000
    """Seed of the first episode; calibration uses smaller ones."""
    policies: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="RUN ...")] = ()
    """Drive by the policies of these runs too, each in its own environment."""
    calibrate: bool = False
    """Fit the twins' parameters to recorded trajectories first, and store them in the package."""
    transfer: bool = False
    """Train agents on the twins (PPOL, InvQua, 5 seeds, the paper's steps) and play them in Bullet, in its place."""
    store: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/transfer")
    """Where the agents of --transfer lie; what is there is not trained again."""
    seeds: Annotated[int, tyro.conf.arg(metavar="N")] = 5
    """Agents of --transfer for each environment."""
    steps: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: the paper's)")] = (
        None
    )
    """Training steps of each agent of --transfer."""
    workers: Annotated[int, tyro.conf.arg(metavar="N")] = 2
    """Processes that record, or train."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: none)")] = None
    """Write the JSON, the table and the picture there."""
    json: bool = False
    """Print JSON in place of the table."""


def main(words: Sequence[str]) -> int:
    """Run the command."""
    options = parse(Options, words, prog="papd fidelity", default=Options())

    from papd.runs import cache

    cache.enable()
    report = _transfer(options) if options.transfer else _fidelity(options)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        report.write(options.out)
    if options.json:
        print_json(report.to_json())
    else:
        print(report.table(), end="")
    return 0


def _fidelity(options: Options) -> "Report":
    from papd.envs.twins import TWINS
    from papd.results.fidelity import run_fidelity

    policies: dict[str, dict[str, Callable[[np.ndarray], np.ndarray]]] = {}
    for path in options.policies:
        agent = load_policy(path, "last")
        drivers = policies.setdefault(agent.env.name, {})
        drivers["policy" if not drivers else path.name] = _driver(agent)
    return run_fidelity(
        options.envs or tuple(policies) or TWINS,
        episodes=_EPISODES if options.episodes is None else options.episodes,
        seed=options.seed,
        policies=policies,
        calibrate=options.calibrate,
        workers=options.workers,
        say=note,
    )


def _transfer(options: Options) -> "TransferReport":
    from papd.envs.twins import TWINS
    from papd.results.transfer import EPISODES, run_transfer

    if options.calibrate or options.policies:
        raise ConfigError("--transfer trains its own policies: leave --calibrate and --policies out")
    return run_transfer(
        options.envs or TWINS,
        options.store,
        seeds=options.seeds,
        episodes=EPISODES if options.episodes is None else options.episodes,
        steps=options.steps,
        workers=options.workers,
        quiet=options.json,
        say=note,
    )


def _driver(agent: "Agent") -> "Callable[[np.ndarray], np.ndarray]":
    return lambda observation: agent.predict(observation)[0]
