"""What counts about a twin: agents trained on it, evaluated unchanged in the real simulator.

Each task, PPO-Lagrangian, InvQua (0.015, 6), the paper's budget. Runs and evaluations lie in a folder; what is there
already is not made again, unless the twin it was trained on has changed since: that is refused.
"""

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from papd.envs.twins import TWINS
from papd.envs.twins.parameters import FILE
from papd.errors import ConfigError, RunError, nearest
from papd.results.evaluation import Evaluation, evaluate
from papd.runs.agent import load
from papd.runs.config import RunConfig
from papd.runs.files import read_json, write_json
from papd.runs.sweep import run_sweep, sweep_of

SEEDS = 5
EPISODES = 50
"""Of each evaluation."""

STEPS = {"SafetyCarCircle-v0": 2_000_000}
"""The paper's budget, where it is not a million."""

RETURN_WITHIN = 0.02
"""The aim: the share by which a return may differ."""
COST_WITHIN = 1.5

_TWINS = "twins.json"


@dataclass(frozen=True)
class Transfer:
    """One agent on the twin that it learned on, and in the real simulator: means over the episodes."""

    env: str
    seed: int
    episodes: int
    twin_return: float
    twin_cost: float
    bullet_return: float
    bullet_cost: float

    @property
    def return_change(self) -> float:
        """The real return less the twin's, as a share of the twin's."""
        return (self.bullet_return - self.twin_return) / abs(self.twin_return)

    @property
    def cost_change(self) -> float:
        """The real cost less the twin's."""
        return self.bullet_cost - self.twin_cost


@dataclass(frozen=True)
class TransferReport:
    """What ``papd fidelity --transfer`` reports."""

    rows: tuple[Transfer, ...]

    def to_json(self) -> list[dict[str, Any]]:
        """JSON values, a row each."""
        return [
            {**dataclasses.asdict(row), "return_change": row.return_change, "cost_change": row.cost_change}
            for row in self.rows
        ]

    def means(self) -> list[Transfer]:
        """One row for each environment: the means over its agents. Its seed is their number."""
        found = []
        for env in dict.fromkeys(row.env for row in self.rows):
            rows = [row for row in self.rows if row.env == env]
            values = {
                name: float(np.mean([getattr(row, name) for row in rows]))
                for name in ("twin_return", "twin_cost", "bullet_return", "bullet_cost")
            }
            found.append(Transfer(env, len(rows), rows[0].episodes, **values))
        return found

    def table(self) -> str:
        """Two Markdown tables: means over the agents, and each agent."""
        head = "| Environment | {} | Twin: return | cost | Bullet: return | cost | Return | Cost | Within |\n"
        rule = "|---|--:|--:|--:|--:|--:|--:|--:|---|\n"
        means, each = ("".join(map(_line, rows)) for rows in (self.means(), self.rows))
        return head.format("Agents") + rule + means + "\n" + head.format("Seed") + rule + each

    def write(self, out: Path) -> list[Path]:
        """``transfer.json`` and ``transfer.md``."""
        write_json(out / "transfer.json", self.to_json())
        (out / "transfer.md").write_text(self.table())
        return [out / "transfer.json", out / "transfer.md"]


def within(row: Transfer) -> bool:
    """Whether a row reaches the aim."""
    return abs(row.return_change) <= RETURN_WITHIN and abs(row.cost_change) <= COST_WITHIN


def _line(row: Transfer) -> str:
    return (
        f"| {row.env} | {row.seed} | {row.twin_return:.1f} | {row.twin_cost:.2f} | {row.bullet_return:.1f} "
        f"| {row.bullet_cost:.2f} | {100.0 * row.return_change:+.2f}% | {row.cost_change:+.2f} "
        f"| {'yes' if within(row) else 'no'} |\n"
    )


def run_transfer(
    ids: Sequence[str] = TWINS,
    store: Path = Path("runs/transfer"),
    *,
    seeds: int = SEEDS,
    episodes: int = EPISODES,
    steps: int | None = None,
    workers: int | None = None,
    quiet: bool = False,
    say: Callable[[str], object] = print,
) -> TransferReport:
    """Train what is not trained yet, evaluate what is not evaluated yet, and compare.

    ``steps`` stands for the paper's budget in a quick look. ``workers`` is how many runs are trained side by side.
    """
    for env_id in ids:
        if env_id not in TWINS:
            raise ConfigError(f"{env_id!r} has no twin{nearest(env_id, TWINS)}")
    for name, value in (("seeds", seeds), ("episodes", episodes)):
        if value < 1:
            raise ConfigError(f"{name}={value}: at least one is needed")
    configs = {
        run_name(env_id, seed): RunConfig(
            env=env_id, backend="twin", seed=seed, steps=steps or STEPS.get(env_id, 1_000_000)
        ).resolved()
        for env_id in ids
        for seed in range(seeds)
    }
    _check_twins(store, ids)
    result = run_sweep(
        sweep_of(configs, name="transfer"),
        store,
        engine="processes",
        resume=True,
        workers=workers,
        quiet=quiet,
        command=("papd", "fidelity", "--transfer"),
    )
    if not result.finished:
        reasons = "; ".join(f"{run}: {why}" for run, why in result.failed.items())
        raise RunError(f"{store}: not every run is finished{f' ({reasons})' if reasons else ''}")
    rows = []
    for name, config in configs.items():
        say(f"{name}: {episodes} episodes on the twin and in Bullet")
        rows.append(_compare(store / name, config, episodes))
    return TransferReport(tuple(rows))


def run_name(env_id: str, seed: int) -> str:
    """The folder of a run."""
    return f"{env_id.removeprefix('Safety').removesuffix('-v0')}-seed{seed}"


def _check_twins(store: Path, ids: Sequence[str]) -> None:
    """Agents belong to the twin that they were trained on."""
    parameters = json.loads(FILE.read_text())["twins"]
    now = {
        env_id: hashlib.sha256(json.dumps(parameters[env_id]["parameters"]).encode()).hexdigest()
        for env_id in ids
    }
    file = store / _TWINS
    before: dict[str, str] = read_json(file) if file.exists() else {}
    for env_id in ids:
        if before.get(env_id, now[env_id]) != now[env_id]:
            raise RunError(
                f"{store}: its agents of {env_id} were trained on a twin with other parameters: move them away, or "
                "choose another --store"
            )
    store.mkdir(parents=True, exist_ok=True)
    write_json(file, {**before, **now})


def _compare(folder: Path, config: RunConfig, episodes: int) -> Transfer:
    file = folder / "transfer.json"
    kept: dict[str, Any] = read_json(file) if file.exists() else {}
    if kept.get("episodes") != episodes:
        with contextlib.closing(load(folder)) as agent:
            twin, bullet = evaluate(agent, episodes, "twin"), evaluate(agent, episodes, "bullet")
        kept = {"episodes": episodes, "twin": _means(twin), "bullet": _means(bullet)}
        write_json(file, kept)
    (twin_return, twin_cost), (bullet_return, bullet_cost) = kept["twin"], kept["bullet"]
    return Transfer(config.env, config.seed, episodes, twin_return, twin_cost, bullet_return, bullet_cost)


def _means(evaluation: Evaluation) -> tuple[float, float]:
    return float(evaluation.returns.mean()), float(evaluation.costs.mean())
