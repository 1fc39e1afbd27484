"""Small sweeps for the tests: a bandit, whose program is compiled in seconds and whose iterations take milliseconds."""

import csv
import math
from pathlib import Path
from typing import Any

from papd.envs.probes import Tabular, bandit
from papd.runs.metrics import TIMINGS
from papd.runs.sweep import Sweep

BANDIT = "papd.envs.probes:bandit"
BROKEN = "tests.runs.sweeps:broken"
EPISODES = 20
SMALL: dict[str, Any] = {
    "env": BANDIT,
    "cost_limit": 0.5,
    "eval_episodes": 0,
    "hidden_sizes": [8],
    "num_envs": EPISODES,
    "episodes_per_iteration": EPISODES,
    "minibatch_size": 10,
}
RULES = ["constant", "invqua"]


def broken() -> Tabular:
    """A bandit that can be made, but whose first cost is no number."""
    return bandit(costs=(math.nan, math.nan))


def small(iterations: int, *, axes: dict[str, list[Any]] | None = None, seeds: int = 2, **base: Any) -> Sweep:
    """A sweep over two rules and so many seeds."""
    fields = {**SMALL, "steps": iterations * EPISODES, **base}
    return Sweep(fields, {"lr": RULES} if axes is None else axes, {}, tuple(range(seeds)))


def untimed(run: Path) -> list[dict[str, str]]:
    """The rows of a run without the columns that a clock filled."""
    with open(run / "metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows, f"{run} has no row"
    return [{name: value for name, value in row.items() if name not in TIMINGS} for row in rows]


def toml(sweep: Sweep) -> str:
    """A sweep as the file that a user writes."""
    lines = [f"seeds = {list(sweep.seeds)}", "[base]"]
    lines += [f"{name} = {_toml(value)}" for name, value in sweep.base.items()]
    lines += ["[axes]", *(f"{name} = {_toml(list(values))}" for name, values in sweep.axes.items())]
    return "\n".join(lines)


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)
