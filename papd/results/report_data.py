"""What the report shows, as plain values: groups of runs, their curves, results, differences and commands."""

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from papd.errors import ConfigError
from papd.results import tables
from papd.results.bands import Curve, band_of, common_grid, on_grid
from papd.results.figures import Look, looks, rule_label
from papd.results.load import Cell, Run, differences
from papd.runs.config import HYPER, MAY_CHANGE, RunConfig, from_mapping

METRICS = {
    "return_mean": "Return",
    "cost_mean": "Cost",
    "multiplier": "Multiplier λ",
    "learning_rate": "Learning rate η",
}

NOT_A_GROUP = (MAY_CHANGE - {"steps"}) | {"seed"}
"""Fields in which the runs of one group may differ: its curve is over them."""

MANY_GROUPS = 12
"""From here on the pairwise comparisons are left out of a report: too many to read."""


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but their seed, on one environment."""

    label: str
    env: str
    look: Look
    runs: tuple[Run, ...]

    @property
    def limits(self) -> tuple[float, ...]:
        """The cost limits of its configuration; none where it names none."""
        limit = self.runs[0].config.get("cost_limit")
        each = limit if isinstance(limit, tuple) else (limit,)
        return tuple(float(d) for d in each if isinstance(d, int | float) and not isinstance(d, bool))


def groups_of(runs: Sequence[Run]) -> list[Group]:
    """The runs by everything but their seed; a label names what tells a group from the others."""
    differing = [
        name for name in differences([run.config for run in runs]) if name not in {*NOT_A_GROUP, "env"}
    ]
    by_key: dict[str, list[Run]] = {}
    for run in runs:
        key = repr([run.config.get("env"), *(run.config.get(name) for name in differing)])
        by_key.setdefault(key, []).append(run)
    named = [(_env(group[0]), _label(group[0], differing), group) for group in by_key.values()]
    look = looks(list(dict.fromkeys(label for _, label, _ in named)))
    return [Group(label, env, look[label], tuple(group)) for env, label, group in named]


def shown_fields(groups: Sequence[Group]) -> list[str]:
    """The configuration fields in which groups differ."""
    every = [run.config for group in groups for run in group.runs]
    return [name for name in differences(every) if name not in NOT_A_GROUP]


def shared_fields(groups: Sequence[Group]) -> dict[str, Cell]:
    """The configuration fields in which all runs agree."""
    every = [run.config for group in groups for run in group.runs]
    differing = set(differences(every))
    return {name: value for name, value in every[0].items() if name not in differing}


def panels(groups: Sequence[Group], points: int) -> list[dict[str, Any]]:
    """One panel an environment: its cost limits, and for each group the steps, bands and single runs."""
    found = []
    names = list(dict.fromkeys(group.label for group in groups))
    for env in dict.fromkeys(group.env for group in groups):
        here = [group for group in groups if group.env == env]
        limits = sorted({limit for group in here for limit in group.limits})
        curves = [{"group": names.index(group.label), **_curves(group, points)} for group in here]
        found.append({"title": env, "limits": limits, "curves": curves})
    return found


def _curves(group: Group, points: int) -> dict[str, Any]:
    steps = [run.metrics["env_steps"].to_numpy() for run in group.runs]
    grid = common_grid(steps, points)
    metrics = {name: _metric(group, name, grid) for name in METRICS}
    return {
        "steps": [round(step) for step in grid],
        "runs": [run.name for run in group.runs],
        "metrics": {name: found for name, found in metrics.items() if found is not None},
    }


def _metric(group: Group, metric: str, grid: np.ndarray) -> dict[str, Any] | None:
    """Centre, band and single runs on the group's grid; None where no run has that metric."""
    if not all(metric in run.metrics.columns for run in group.runs):
        return None
    rows = [(run.metrics["env_steps"].to_numpy(), run.metrics[metric].to_numpy()) for run in group.runs]
    table = np.stack([on_grid(steps, values, grid) for steps, values in rows])
    centre, low, high = _on_whole_grid(band_of(grid, table, whole=False), grid)
    several = len(table) > 1
    ends = {"low": _numbers(low), "high": _numbers(high)} if several else {}
    return {"centre": _numbers(centre), **ends, "single": [_numbers(row) for row in table] if several else []}


def _on_whole_grid(curve: Curve, grid: np.ndarray) -> list[np.ndarray]:
    """Centre and band, with NaN at the steps of the grid that no run is at."""
    places = np.searchsorted(grid, curve.steps)
    whole = [np.full(grid.shape, np.nan) for _ in range(3)]
    for values, part in zip(whole, (curve.centre, curve.low, curve.high), strict=True):
        values[places] = part
    return whole


def _numbers(values: np.ndarray) -> list[float | None]:
    """Four digits are more than a screen shows; what is no number is a gap."""
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in values]


def final_results(groups: Sequence[Group]) -> pd.DataFrame:
    """One row a run: its group and environment, and what it ended with (docs/statistics.md)."""
    rows = []
    for group in groups:
        for run in group.runs:
            own = pd.DataFrame({"run": run.name}, index=run.metrics.index)
            frame = pd.concat([own, run.metrics], axis=1)
            fits = len(group.limits) in (1, len(tables.cost_columns(frame)))
            row = tables.final_scores(frame, group.limits if fits else float("nan")).iloc[0].to_dict()
            rows.append({**row, "seed": run.seed, "group": group.label, "env": group.env})
    return pd.DataFrame(rows)


def comparisons(final: pd.DataFrame) -> pd.DataFrame:
    """Every pair of groups that share an environment, in the feasible-first order; empty for one group or many."""
    names = list(final["group"].drop_duplicates())
    known = final[np.isfinite(final["violation"]) & np.isfinite(final["return_mean"])]
    if not 1 < len(names) <= MANY_GROUPS:
        return pd.DataFrame()
    environments = {name: set(known.loc[known["group"] == name, "env"]) for name in names}
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if environments[a] & environments[b]]
    rows = [tables.comparisons(known[known["group"].isin(pair)], "group") for pair in pairs]
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame()


def command(run: Run) -> str:
    """The command that repeats a run: ``papd train`` with every field that is no default.

    A configuration that ``papd train`` does not know is repeated from its file.
    """
    try:
        config = from_mapping(run.source)
    except ConfigError:
        return shlex.join(["papd", "train", "--config", str(run.folder / "config.json")])
    default = RunConfig(algo=config.algo, hyper=HYPER[config.algo]())
    words = [
        word for name in _names(config) for word in _flag(name, getattr(config, name), getattr(default, name))
    ]
    words += [
        word
        for name in _names(config.hyper)
        for word in _flag(name, getattr(config.hyper, name), getattr(default.hyper, name))
    ]
    algo = [] if config.algo == "ppol" else ["--algo", config.algo]
    return shlex.join(["papd", "train", config.env, *algo, *words])


def provenance(runs: Sequence[Run]) -> dict[str, list[str]]:
    """What ``config.json`` says of where the runs come from: each distinct value once."""
    found: dict[str, dict[str, None]] = {}
    for run in runs:
        origin = run.source.get("provenance")
        for name in ("papd", "git_commit", "python", "platform", "processor"):
            value = origin.get(name) if isinstance(origin, dict) else None
            if value is not None:
                found.setdefault(name, {})[str(value)] = None
    return {name: list(values) for name, values in found.items()}


def _names(config: Any) -> list[str]:
    return [f.name for f in dataclasses.fields(config) if f.name not in ("env", "algo", "hyper")]


def _flag(name: str, value: Any, default: Any) -> list[str]:
    if value == default or value is None:
        return []
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{flag}" if value else f"--no-{flag}"]
    return [f"--{flag}", *(str(item) for item in (value if isinstance(value, tuple) else (value,)))]


def _env(run: Run) -> str:
    return str(run.config.get("env", "environment not named"))


def _label(run: Run, differing: Sequence[str]) -> str:
    """The rule in the paper's words, then every other field that differs and is something in this group."""
    config: Mapping[str, Cell] = run.config
    rule, h1, h2 = config.get("lr"), config.get("h1"), config.get("h2")
    parts, told = [], set()
    if isinstance(rule, str) and isinstance(h1, float) and isinstance(h2, float | None):
        parts, told = [rule_label(rule, h1, h2)], {"lr", "h1", "h2"}
    named = {name: config.get(name) for name in differing if name not in told}
    parts += [f"{name}={text_of(value)}" for name, value in named.items() if value not in (None, ())]
    return ", ".join(parts) or str(config.get("algo", "all runs"))


def text_of(value: Any) -> str:
    """A configuration value as a person writes it."""
    if value is None or value == ():
        return "–"
    return " ".join(map(text_of, value)) if isinstance(value, tuple) else str(value)
