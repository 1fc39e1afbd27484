"""``papd eval``: what a run's policy is worth, on the backend it learned on or another."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from papd.commands.parse import parse
from papd.commands.show import note, print_json, table
from papd.commands.training_table import evaluated, verdict
from papd.errors import ConfigError
from papd.runs.config import from_mapping
from papd.runs.folder import RunFolder

if TYPE_CHECKING:
    from papd.runs.agent import Agent


@dataclass(frozen=True)
class Options:
    """Play episodes with the policy of RUN: return and cost with intervals, and the share within the limit."""

    run: Annotated[
        Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN", help_behavior_hint="(required)")
    ] = Path()
    """The run's directory."""
    backend: Annotated[
        Literal["bullet", "twin"] | None,
        tyro.conf.arg(metavar="{bullet,twin}", help_behavior_hint="(default: where it learned)"),
    ] = None
    """The real simulator, or its calibrated twin."""
    episodes: Annotated[int, tyro.conf.arg(metavar="N")] = 20
    """Episodes, played in parallel."""
    sampled: bool = False
    """Sample the actions as in training, in place of the most likely ones."""
    policy: Literal["last", "best"] = "last"
    """The last policy, or the best of training, feasible first."""
    seed: Annotated[int, tyro.conf.arg(metavar="N")] = 0
    """Seed of the episodes."""
    workers: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: one a core)")] = (
        None
    )
    """Processes that step a real environment; 0 steps it in this one."""
    json: bool = False
    """Print JSON: the means, the intervals and every episode."""
    video: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: none)")] = None
    """Film one episode into a .mp4 or .gif file."""
    require_limit: bool = False
    """Exit with 1 when a mean cost is over its limit."""


def main(words: Sequence[str]) -> int:
    """Run the command."""
    options = parse(Options, words, prog="papd eval", default=Options())
    _check(options)
    if options.video:
        from papd.results.video import check_video_path

        check_video_path(options.video)
    with contextlib.closing(load_policy(options.run, options.policy)) as agent:
        result = _evaluate(agent, options)
        if options.video:
            _film(agent, options)
    if options.json:
        print_json(result)
    else:
        limits = " + ".join(f"{cost['limit']:g}" for cost in result["cost_mean"].values())
        rows = [["", "return", f"cost (limit {limits})"], evaluated(result)]
        print("\n".join([table(rows), "", verdict(result)]))
    return int(options.require_limit and not result["feasible"])


def load_policy(path: Path, which: Literal["last", "best"]) -> "Agent":
    """The agent of a run with one of its policies; nothing else of its train state is needed, or read."""
    folder = RunFolder(path)
    config = from_mapping(folder.read_config(), where=str(folder.config))

    import equinox as eqx

    from papd.runs.agent import from_config
    from papd.runs.checkpoint import load_tree

    agent = from_config(config)
    file = folder.best if which == "best" else folder.policy
    policy, _ = load_tree(file, agent.state.learner.policy)
    agent.state = eqx.tree_at(lambda state: state.learner.networks.policy, agent.state, policy)
    return agent


def _check(options: Options) -> None:
    if options.run == Path():
        raise ConfigError("which run? for example: papd eval runs/SafetyCarRun-v0-twin-ppol-invqua-seed0")
    if options.episodes < 1:
        raise ConfigError(f"episodes={options.episodes}: an evaluation has one episode or more")
    if not 0 <= options.seed < 2**31:
        raise ConfigError(f"seed={options.seed}: a seed is a whole number >= 0 and below 2**31")
    if options.workers is not None and options.workers < 0:
        raise ConfigError(f"workers={options.workers}: workers is a whole number >= 0")


def _evaluate(agent: "Agent", options: Options) -> dict[str, Any]:
    from papd.results.evaluation import evaluate

    result = evaluate(
        agent,
        options.episodes,
        options.backend,
        deterministic=not options.sampled,
        seed=options.seed,
        workers=options.workers,
    )
    return {"run": str(options.run), "policy": options.policy, **result.to_json()}


def _film(agent: "Agent", options: Options) -> None:
    from papd.results.video import record_video

    assert options.video is not None
    frames = record_video(
        agent, options.video, options.backend, deterministic=not options.sampled, seed=options.seed
    )
    note(f"{frames} frames in {options.video}")
