"""Runs as one tidy table: ``papd.results.load("sweep/")``. Reading executes nothing and imports no JAX."""

import json
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from papd.errors import RunError
from papd.runs.files import read_json, reason
from papd.runs.metrics import read_metrics

CONFIG, METRICS = "config.json", "metrics.csv"
"""The two files that make a folder a run."""

NOT_CONFIGURATION = frozenset({"provenance"})
"""Keys of ``config.json`` that say who made a run and where, not what it is."""

COUNTS = ("iteration", "env_steps", "episodes", "updates", "skipped_updates", "faults")

Cell = str | float | int | bool | None | tuple[Any, ...]


@dataclass(frozen=True)
class Run:
    """One run as read: the configuration flat (``hyper.gamma``), the metrics one row an iteration."""

    name: str
    folder: Path
    config: Mapping[str, Cell]
    metrics: pd.DataFrame
    source: Mapping[str, Any]
    """``config.json`` as it stands."""

    @property
    def seed(self) -> Cell:
        """The seed in its configuration, if there is one."""
        return self.config.get("seed")


def load(*paths: str | os.PathLike[str], keep: Sequence[str] = ()) -> pd.DataFrame:
    """The metrics of all runs under ``paths``, one row an iteration, as a pandas table.

    A path is a run directory or a folder with runs at any depth. Columns: ``run`` (its name), ``seed``, every
    configuration field that differs between the runs or is named in ``keep``, then the metrics. A field that
    has a metric's name becomes ``config.<name>``. What all runs share is in ``frame.attrs["config"]``. A run
    that is still being written counts as far as it is; a damaged one is left out with a warning naming it.
    """
    runs = load_runs(*paths)
    differing = differences([run.config for run in runs])
    axes = [name for name in dict.fromkeys([*differing, *keep]) if name != "seed"]
    metrics = pd.concat([run.metrics for run in runs], ignore_index=True)
    lengths = [len(run.metrics) for run in runs]
    columns: dict[str, list[Cell]] = {"run": [run.name for run in runs], "seed": [run.seed for run in runs]}
    for axis in axes:
        name = f"config.{axis}" if axis in metrics.columns or axis in columns else axis
        columns[name] = [run.config.get(axis) for run in runs]
    of_run = pd.DataFrame({name: _repeated(values, lengths) for name, values in columns.items()})
    frame = pd.concat([of_run, metrics], axis=1)
    frame.attrs["config"] = {k: v for k, v in runs[0].config.items() if k not in differing and k != "seed"}
    return frame


def load_runs(*paths: str | os.PathLike[str]) -> list[Run]:
    """The runs under ``paths``, in natural order; a damaged one is left out with a warning that names it."""
    runs, left_out = read_runs(*paths)
    for words in left_out:
        warnings.warn(words, stacklevel=2)
    return runs


def read_runs(*paths: str | os.PathLike[str]) -> tuple[list[Run], list[str]]:
    """The runs under ``paths``, and a line for each that had to be left out. No run at all is a :class:`RunError`."""
    runs, left_out = [], []
    for name, folder in _named([Path(path) for path in paths]):
        try:
            runs.append(read_run(folder, name))
        except RunError as error:
            left_out.append(f"left out run {name!r}: {error}")
    if not runs:
        shown = ", ".join(str(path) for path in paths) or "no path"
        raise RunError(
            f"no run to read in {shown}: a run is a folder with {CONFIG} and a {METRICS} of at least one row"
            + "".join(f"; {words}" for words in left_out[:3])
        )
    return runs, left_out


def read_run(folder: Path, name: str | None = None) -> Run:
    """One run directory; what is missing or damaged in it is a :class:`RunError`."""
    config = read_json(folder / CONFIG)
    if not isinstance(config, dict):
        raise RunError(f"{folder / CONFIG} holds no table of names and values")
    rows = read_metrics(folder / METRICS)
    if not rows:
        raise RunError(f"{folder / METRICS} holds no finished iteration yet")
    missing = [column for column in ("iteration", "env_steps") if column not in rows[0]]
    if missing:
        raise RunError(f"{folder / METRICS} has no column {missing[0]}")
    metrics = pd.DataFrame(rows)
    for column in COUNTS:
        if column in metrics.columns and np.isfinite(metrics[column]).all():
            metrics[column] = metrics[column].astype(np.int64)
    flat = {key: value for key, value in _flat(config) if key.split(".")[0] not in NOT_CONFIGURATION}
    return Run(name or folder.resolve().name, folder, flat, metrics, config)


def differences(configs: Sequence[Mapping[str, Cell]]) -> list[str]:
    """The fields that are not the same in all of ``configs``, in the order in which they appear."""
    names = dict.fromkeys(name for config in configs for name in config)
    return [name for name in names if len({_same(config, name) for config in configs}) > 1]


def find_runs(path: Path) -> list[Path]:
    """Every run directory at or under ``path``, begun ones too, in natural order. No link is followed below it."""
    if not path.exists():
        raise RunError(f"{path} does not exist")
    return sorted(_walk(path), key=lambda folder: natural(str(folder)))


def natural(text: str) -> list[tuple[int, int, str]]:
    """A sort key under which seed2 comes before seed10."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", text)]


def _walk(path: Path) -> Iterator[Path]:
    def stop(error: OSError) -> None:
        raise RunError(f"cannot read {error.filename}: {reason(error)}")

    for folder, subfolders, files in os.walk(path, onerror=stop):
        if CONFIG in files and (METRICS in files or "checkpoints" in subfolders):
            subfolders.clear()
            yield Path(folder)


def _named(paths: Sequence[Path]) -> list[tuple[str, Path]]:
    """Each run once, named by its way from the path that was given; whole paths where names would clash."""
    named: dict[Path, tuple[str, Path]] = {}
    for path in paths:
        for folder in find_runs(path):
            inside = folder.relative_to(path).as_posix()
            name = path.resolve().name if inside == "." else inside
            named.setdefault(folder.resolve(), (name, folder))
    names = [name for name, _ in named.values()]
    return [(folder.as_posix() if names.count(name) > 1 else name, folder) for name, folder in named.values()]


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Cell]]:
    for name, value in config.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _cell(value)


def _cell(value: Any) -> Cell:
    """A list of one value is that value, longer ones are tuples; anything deeper is its JSON text."""
    if isinstance(value, list) and all(not isinstance(item, list | dict) for item in value):
        return value[0] if len(value) == 1 else tuple(value)
    return json.dumps(value) if isinstance(value, list | dict) else value


def _same(config: Mapping[str, Cell], name: str) -> str:
    return repr(config[name]) if name in config else ""


def _repeated(values: Sequence[Cell], lengths: Sequence[int]) -> pd.Series:
    cells = pd.Series(values, dtype=object).infer_objects()
    return cells.repeat(lengths).reset_index(drop=True)
