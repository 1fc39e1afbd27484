"""The raw metrics of an experiment as two small files: a row a run, and its thinned curves. Pages need nothing else.

NAME.runs.csv       one row a run: where training ended, how steadily, what the final policy is worth, and who ran it
NAME.curves.csv.gz  return, cost, multiplier and rate of each run at no more than 100 points
"""

import gzip
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from papd.errors import RunError
from papd.results import tables
from papd.results.bands import on_grid
from papd.results.load import read_run
from papd.results.paper_bullet import read_evaluation
from papd.results.paper_experiments import EXPERIMENTS, Plan
from papd.results.paper_store import Stored, engine_of
from papd.runs.files import read_bytes, reason, write_atomic

POINTS = 100
"""Points of a run's curve that are kept: means over even parts of training."""

METRICS = ("return_mean", "cost_mean", "multiplier", "learning_rate")

KEYS = ["cell", "backend", "seed"]
"""What names a run."""

RUNS = (
    *KEYS,
    "identity",
    "steps",
    "env_steps",
    "iterations",
    *METRICS,
    "return_whole",
    "return_fluctuation",
    "cost_fluctuation",
    "policy_return",
    "policy_cost",
    "policy_episodes",
    "bullet_return",
    "bullet_cost",
    "bullet_episodes",
    "wall_seconds",
    "engine",
    "started",
    "papd",
    "commit",
    "jax",
    "processor",
    "cores",
)
"""Columns of a row a run. ``policy_*`` is the final policy where it learned, ``bullet_*`` a twin's policy in Bullet;
``identity`` names the whole configuration, so that a row of another one is not taken for this one's."""

CURVES = (*KEYS, "env_steps", *METRICS)


class Data(NamedTuple):
    """The metrics of an experiment, as its two files have them."""

    runs: pd.DataFrame
    curves: pd.DataFrame


def read_data(folder: Path, plan: Plan) -> Data:
    """What the files of a folder know of a plan's cells; empty tables where none is.

    Experiments share cells: a run counts wherever it stands, its own experiment's file first.
    """
    runs = _known(folder, plan, ".runs.csv", RUNS)
    curves = _known(folder, plan, ".curves.csv.gz", CURVES)
    identities = _identities(plan, runs)
    runs = runs[runs["identity"].to_numpy() == identities]
    told = pd.MultiIndex.from_frame(runs[KEYS])
    curves = curves[pd.MultiIndex.from_frame(curves[KEYS]).isin(told)]
    return Data(_in_order(runs, plan), _in_order(curves, plan))


def update_data(folder: Path, plan: Plan, stored: Sequence[Stored]) -> Data:
    """Put the runs of the store over what the files hold of the plan's cells, and write them.

    Rows of other cells, as of a spec that was changed, stay in the file.
    """
    names = {cell.name for cell in plan.cells}
    fresh = [measure(run) for run in stored if run.cell in names]
    known = read_data(folder, plan)
    runs = pd.DataFrame([row for row, _ in fresh], columns=list(RUNS))
    curves = pd.concat([curve for _, curve in fresh], ignore_index=True) if fresh else known.curves
    for ending, columns, new, old in (
        (".runs.csv", RUNS, runs, known.runs),
        (".curves.csv.gz", CURVES, curves, known.curves),
    ):
        path = folder / f"{plan.experiment.spec}{ending}"
        rows = _over(_over(read_table(path, columns), old), new)
        if len(rows):
            write_table(path, _in_order(rows, plan))
    return read_data(folder, plan)


def _known(folder: Path, plan: Plan, ending: str, columns: Sequence[str]) -> pd.DataFrame:
    """The rows of a plan's cells from every file of one kind; its own file's where others have them too."""
    own = folder / f"{plan.experiment.spec}{ending}"
    others = sorted(path for path in folder.glob(f"*{ending}") if path.name in _files(ending) and path != own)
    names = {cell.name for cell in plan.cells}
    rows = read_table(own, columns)
    for path in others:
        rows = _over(read_table(path, columns), rows)
    return rows[rows["cell"].isin(names)]


def _files(ending: str) -> set[str]:
    """The files of experiments whose rows are runs."""
    return {f"{each.spec}{ending}" for each in EXPERIMENTS.values() if not each.timed}


def _identities(plan: Plan, runs: pd.DataFrame) -> np.ndarray:
    """What the identity of each row has to be."""
    cells = {cell.name: cell for cell in plan.cells}
    keys = zip(*(runs[name] for name in KEYS), strict=True)
    return np.array([cells[cell].run(backend, int(seed)).identity() for cell, backend, seed in keys], object)


def measure(run: Stored) -> tuple[dict[str, Any], pd.DataFrame]:
    """A run's row and its thinned curve."""
    metrics = read_run(run.folder.path).metrics
    own: dict[str, Any] = {"cell": run.cell, "backend": run.backend, "seed": run.seed}
    return {**own, **_row(run, metrics)}, thinned(metrics).assign(**own)[list(CURVES)]


def _row(run: Stored, metrics: pd.DataFrame) -> dict[str, Any]:
    summary = run.folder.read_summary()
    named = pd.concat([pd.Series("run", index=metrics.index, name="run"), metrics], axis=1)
    final = tables.final_scores(named, run.config.cost_limit).iloc[0]
    return {
        "identity": run.config.identity(),
        "steps": run.config.steps,
        "env_steps": int(summary["env_steps"]),
        "iterations": int(summary["iterations"]),
        **{name: float(final[name]) for name in METRICS},
        "return_whole": float(metrics["return_mean"].mean()),
        "return_fluctuation": fluctuation(metrics["return_mean"].to_numpy(float)),
        "cost_fluctuation": fluctuation(metrics["cost_mean"].to_numpy(float)),
        **_worth("policy", summary.get("evaluation")),
        **_worth("bullet", read_evaluation(run.folder.path) if run.backend == "twin" else None),
        "wall_seconds": float(summary["wall_seconds"]),
        **_origin(run),
    }


def _worth(prefix: str, evaluation: dict[str, Any] | None) -> dict[str, float]:
    """Mean return and cost of an evaluation's episodes."""
    if not evaluation:
        return {f"{prefix}_return": math.nan, f"{prefix}_cost": math.nan, f"{prefix}_episodes": 0}
    costs = [cost["estimate"] for cost in evaluation["cost_mean"].values()]
    return {
        f"{prefix}_return": evaluation["return_mean"]["estimate"],
        f"{prefix}_cost": sum(costs),
        f"{prefix}_episodes": evaluation["episodes"],
    }


def _origin(run: Stored) -> dict[str, Any]:
    """Who ran it, and when."""
    told = run.folder.read_config()["provenance"]
    return {
        "engine": engine_of(told.get("command")),
        "started": str(told.get("started", ""))[:10],
        "papd": told.get("papd", ""),
        "commit": str(told.get("git_commit") or ""),
        "jax": told.get("versions", {}).get("jax", ""),
        "processor": told.get("processor", ""),
        "cores": told.get("cores", 0),
    }


def fluctuation(values: np.ndarray) -> float:
    """The standard deviation around a straight line over the last half of training; NaN for fewer than four values."""
    last = values[len(values) // 2 :]
    known = np.flatnonzero(np.isfinite(last))
    if known.size < 4:
        return math.nan
    line = np.polynomial.Polynomial.fit(known, last[known], 1)
    return float(np.sqrt(np.sum((last[known] - line(known)) ** 2) / (known.size - 2)))


def thinned(metrics: pd.DataFrame, points: int = POINTS) -> pd.DataFrame:
    """The curves of a run at no more than so many points, each the mean over its part of training."""
    steps = metrics["env_steps"].to_numpy(float)
    if len(steps) <= points:
        return metrics[["env_steps", *METRICS]].reset_index(drop=True)
    grid = np.linspace(steps[0], steps[-1], points)
    curves = {name: on_grid(steps, metrics[name].to_numpy(float), grid) for name in METRICS}
    return pd.DataFrame({"env_steps": np.rint(grid).astype(int), **curves})


def _over(known: pd.DataFrame, fresh: pd.DataFrame) -> pd.DataFrame:
    """The rows of ``fresh``, and those of ``known`` that are of other runs."""
    if not (len(known) and len(fresh)):
        return known if len(known) else fresh
    taken = pd.MultiIndex.from_frame(fresh[KEYS]).unique()
    kept = known[~pd.MultiIndex.from_frame(known[KEYS]).isin(taken)]
    return pd.concat([kept, fresh], ignore_index=True) if len(kept) else fresh


def _in_order(frame: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """By cell as the plan has them, other cells last, then backend, seed and step."""
    place = {cell.name: index for index, cell in enumerate(plan.cells)}
    keys = [name for name in ("place", "backend", "seed", "env_steps") if name in frame or name == "place"]
    ordered = frame.assign(place=frame["cell"].map(place)).sort_values(keys, kind="stable")
    return ordered.drop(columns="place").reset_index(drop=True)


def write_table(path: Path, frame: pd.DataFrame) -> None:
    """Write a table of metrics, atomically; equal tables give equal bytes."""
    text = frame.to_csv(index=False, lineterminator="\n", float_format="%.5g").encode()
    if path.suffix == ".gz":
        buffer = io.BytesIO()
        with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=9, mtime=0) as file:
            file.write(text)
        text = buffer.getvalue()
    write_atomic(path, text)


def read_table(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """Read one; empty where no file is, a :class:`RunError` where it is something else."""
    if not path.exists():
        return pd.DataFrame({name: pd.Series(dtype=object) for name in columns})
    data = read_bytes(path)
    try:
        text = gzip.decompress(data) if path.suffix == ".gz" else data
        frame = pd.read_csv(io.BytesIO(text), dtype={"jax": str, "papd": str, "commit": str, "started": str})
    except (OSError, EOFError, ValueError) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise RunError(f"{path} is no table of metrics: {why}") from error
    if list(frame.columns) != list(columns):
        raise RunError(f"{path} has other columns than this papd writes: run `papd paper` again")
    return frame
