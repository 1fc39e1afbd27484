"""What the runs of a cell ended with, as one reads it: in training or by final policies, on Bullet or on the twin."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from papd.results import statistics
from papd.results.paper_data import Data
from papd.results.paper_experiments import Cell, Plan
from papd.results.paper_verdicts import Scores
from papd.runs.config import Backend

FEW = 5
"""The paper's number of seeds."""


NUMBERS = frozenset(
    {"seed", "seconds", "per_million", "return_whole", "return_fluctuation", "cost_fluctuation"}
).union(f"{where}_{what}" for where in ("policy", "bullet") for what in ("return", "cost")) | {
    "return_mean",
    "cost_mean",
}
"""Columns of a row a run that results are read from."""


class Reading(NamedTuple):
    """Where a result is read from."""

    name: str
    title: str
    backend: Backend
    kind: Literal["training", "policy", "time"]
    """The mean over the last tenth of training, as the paper's curves; the final policy, as its tables; or seconds."""
    seeds: int | None = FEW
    """Only seeds below this; None for all there are."""

    @property
    def columns(self) -> tuple[str, str]:
        """What must be known of a row a run: return and cost."""
        if self.kind == "time":
            return "seconds", "seconds"
        if self.kind == "training":
            return "return_mean", "cost_mean"
        return (
            ("policy_return", "policy_cost") if self.backend == "bullet" else ("bullet_return", "bullet_cost")
        )

    def with_all_seeds(self, least: int, most: int) -> "Reading":
        """The same over every seed there is, which may be more of one case than of another."""
        said = f"{most} seeds" if least == most else f"{least} to {most} seeds"
        return self._replace(name=f"{self.name}-{most}", title=f"{self.title}, {said}", seeds=None)


READINGS = (
    Reading("bullet", "Bullet, training", "bullet", "training"),
    Reading("bullet-policy", "Bullet, final policy", "bullet", "policy"),
    Reading("twin", "twin, training", "twin", "training"),
    Reading("twin-policy", "twin's final policy, in Bullet", "twin", "policy"),
)
TIMES = (Reading("bullet", "Bullet", "bullet", "time"), Reading("twin", "twin", "twin", "time"))


@dataclass(frozen=True)
class Results:
    """The data of an experiment, and of others that its claims refer to."""

    plan: Plan
    data: Data
    others: Mapping[str, "Results"] = field(default_factory=dict)

    def readings(self) -> list[Reading]:
        """Those that some run has a result in; with all seeds too where there are more than the paper's."""
        found = []
        for reading in TIMES if self.plan.experiment.timed else READINGS:
            whole = reading._replace(seeds=None)
            counts = [len(self.column(cell, whole, "seed")) for cell in self.plan.cells]
            least, most = min(filter(None, counts), default=0), max(counts)
            if most:
                found += [reading] if most <= FEW else [reading, reading.with_all_seeds(least, most)]
        return found

    def scores(self, cell: Cell, reading: Reading) -> Scores | None:
        """What a cell's runs ended with; nothing where none was run."""
        returns, costs = (self.column(cell, reading, name) for name in reading.columns)
        return Scores(returns, costs, self.plan.limit) if returns.size else None

    def values(self, cell: Cell, reading: Reading, column: str) -> np.ndarray | None:
        """Another column of a cell's runs, without those that have no number there."""
        values = self.column(cell, reading, column)
        known = values[np.isfinite(values)]
        return known if known.size else None

    def column(self, cell: Cell, reading: Reading, name: str) -> np.ndarray:
        """A column of a cell's runs that have a result in a reading."""
        own = self._by_cell.get((cell.name, reading.backend))
        if own is None:
            return np.zeros(0)
        kept = np.all([np.isfinite(own[each]) for each in reading.columns], axis=0)
        return own[name][kept if reading.seeds is None else kept & (own["seed"] < reading.seeds)]

    @cached_property
    def _by_cell(self) -> dict[tuple[str, str], dict[str, np.ndarray]]:
        """The numbers of every cell and backend."""
        return {
            key: {name: rows[name].to_numpy(float) for name in rows if name in NUMBERS}
            for key, rows in self.data.runs.groupby(["cell", "backend"], sort=False)
        }


@dataclass(frozen=True)
class View:
    """An experiment in one reading: what a claim is put to."""

    results: Results
    reading: Reading

    def cells(self, env: str | None = None, kind: str | None = None) -> list[Cell]:
        """The cells of an environment (in the paper's words) and a kind of rule."""
        return [
            cell for cell in self.results.plan.cells if env in (None, cell.env) and kind in (None, cell.kind)
        ]

    def find(
        self,
        env: str | None = None,
        kind: str | None = None,
        *,
        h1: float | None = None,
        held: float | None = None,
        factor: float | None = None,
    ) -> Cell | None:
        """The one cell of that description, if the spec has one."""
        found = [
            cell
            for cell in self.cells(env, kind)
            if h1 in (None, cell.config.h1) and held in (None, cell.held) and factor in (None, cell.factor)
        ]
        return found[0] if len(found) == 1 else None

    def scores(self, cell: Cell | None) -> Scores | None:
        """What its runs ended with."""
        return None if cell is None else self.results.scores(cell, self.reading)

    def values(self, cell: Cell | None, column: str) -> np.ndarray | None:
        """Another column of its runs."""
        return None if cell is None else self.results.values(cell, self.reading, column)

    def environments(self) -> list[str]:
        """In the order of the spec, as the paper calls them."""
        return list(dict.fromkeys(cell.env for cell in self.results.plan.cells))

    def constants(self, env: str | None = None) -> list[Cell]:
        """The constant rates, from the smallest on."""
        return sorted(self.cells(env, "constant"), key=lambda cell: cell.config.h1 or 0.0)

    def best(self, cells: list[Cell]) -> Cell | None:
        """The best of cells by their means, feasible first; none while one of them is not run."""
        scored = [(cell, self.scores(cell)) for cell in cells]
        known = [(cell, scores) for cell, scores in scored if scores is not None]
        if len(known) < len(scored) or not known:
            return None
        return max(known, key=lambda pair: _rank(pair[1]))[0]

    def other(self, experiment: str) -> "View | None":
        """Another experiment in the same reading, if it is known."""
        found = self.results.others.get(experiment)
        return None if found is None else View(found, self.reading)


def _rank(scores: Scores) -> tuple[float, float]:
    """Feasible first, of a mean return and a mean cost."""
    excess = statistics.violation(np.array([scores.costs.mean()]), scores.limit)[0]
    return -float(excess), float(scores.returns.mean())
