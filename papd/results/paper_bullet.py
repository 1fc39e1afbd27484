"""Final policies that learned on a twin, played in the real simulator: ``bullet.json`` in each run's folder."""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from papd.envs.bullet_ids import is_installed
from papd.errors import RunError
from papd.results.paper_store import Stored
from papd.runs.files import read_json, write_json

FILE = "bullet.json"

SAY_EVERY = 20
"""Policies between two words about how far it is."""

Say = Callable[[str], None]


def evaluate_in_bullet(runs: Sequence[Stored], episodes: int, workers: int | None, say: Say) -> int:
    """Play the policies that were not played yet, and return how many. Without the simulator, say so."""
    left = [run for run in runs if run.backend == "twin" and not _is_played(run.folder.path, episodes)]
    if left and not is_installed():
        say(f"{len(left)} policies not played in Bullet, which is not installed: pip install 'papd[bullet]'")
        return 0
    done = 0
    for group in _alike(left):
        for path, values in _play(group, episodes, workers):
            write_json(path / FILE, values)
            done += 1
            if done % SAY_EVERY == 0 or done == len(left):
                say(f"{done} of {len(left)} policies played in Bullet")
    return done


def read_evaluation(folder: Path) -> dict[str, Any] | None:
    """The evaluation of a run's last policy in Bullet, if it lies there."""
    if not (folder / FILE).exists():
        return None
    values = read_json(folder / FILE)
    if not isinstance(values, dict) or not isinstance(values.get("episodes"), int):
        raise RunError(f"{folder / FILE} is no evaluation of a policy: remove it")
    is_of_last = values.get("iterations") == read_json(folder / "summary.json").get("iterations")
    return values if is_of_last else None


def _is_played(folder: Path, episodes: int) -> bool:
    values = read_evaluation(folder)
    return values is not None and values["episodes"] >= episodes


def _alike(runs: Sequence[Stored]) -> list[list[Stored]]:
    """Runs whose policies differ in nothing but their numbers: one agent plays them all."""
    groups: dict[str, list[Stored]] = {}
    for run in runs:
        config = run.config.to_json()
        kind = json.dumps([config[name] for name in ("env", "algo", "hyper", "cost_keys", "cost_limit")])
        groups.setdefault(kind, []).append(run)
    return list(groups.values())


def _play(
    runs: Sequence[Stored], episodes: int, workers: int | None
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Each run's folder and what its last policy is worth in Bullet."""
    import equinox as eqx

    from papd.results.evaluation import evaluate
    from papd.runs.agent import from_config
    from papd.runs.checkpoint import load_tree

    with contextlib.closing(from_config(runs[0].config)) as agent:
        template = agent.state.learner.policy
        for run in runs:
            policy, _ = load_tree(run.folder.policy, template)
            agent.state = eqx.tree_at(lambda state: state.learner.networks.policy, agent.state, policy)
            result = evaluate(agent, episodes, "bullet", workers=workers)
            iterations = run.folder.read_summary().get("iterations")
            yield run.folder.path, {**result.to_json(), "iterations": iterations}
