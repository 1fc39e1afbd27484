"""`papd theory`: the paper's statements on problems whose constants are known, and what is wrong or missing
in them.

docs/theory.md explains each line of the table and each finding next to its equation.
"""

import io
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from papd.errors import ConfigError
from papd.results import theory_counterexamples as counterexamples
from papd.results import theory_findings as found
from papd.results.theory_assumptions import ASSUMPTIONS
from papd.results.theory_checks import Check, checks
from papd.results.theory_figures import LINES, draw
from papd.results.theory_findings import Finding
from papd.results.theory_iterations import Iterations, iterations
from papd.runs.files import write_atomic, write_json

LIMIT = 20_000
"""Iterations after which a run of the iteration study counts as never settling."""


@dataclass(frozen=True)
class TheoryReport:
    """Everything that `papd theory` found."""

    problems: int
    seed: int
    checks: tuple[Check, ...]
    assumptions: tuple[Check, ...]
    findings: tuple[Finding, ...]
    iterations: tuple[Iterations, ...]
    seconds: float

    @property
    def holds(self) -> bool:
        """Every statement of the table holds on every run, and every finding is still found."""
        return all(check.holds == check.runs for check in self.checks) and all(f.shown for f in self.findings)

    def to_json(self) -> dict[str, Any]:
        """JSON values; null where a number is infinite or there is none."""
        value = _finite({**asdict(self), "holds": self.holds})
        assert isinstance(value, dict)
        return value

    def show(self, console: Console) -> None:
        """Print the statements, the assumptions, the findings and the iterations."""
        for problem in dict.fromkeys(check.problem for check in self.checks):
            console.print(_check_table(problem, [check for check in self.checks if check.problem == problem]))
        console.print(_assumption_table(self.assumptions))
        _show_findings(self.findings, console)
        console.print(_iteration_table(self.iterations))
        console.print(f"{self.problems} problems of each random kind, seed {self.seed}, {self.seconds:.0f} s")


def run_theory(out: Path | None = None, *, problems: int = 1000, seed: int = 0) -> TheoryReport:
    """Check, measure and, with ``out``, write theory.json, table.txt and the figures into that folder.

    JAX is in float64 meanwhile and only meanwhile.
    """
    if problems < 1:
        raise ConfigError(f"problems={problems}: at least 1 random problem is needed")
    begun = time.perf_counter()
    with jax.enable_x64(True):
        stated, assumed = checks(problems, seed)
        peaks = counterexamples.overshoot()
        flaws = _findings(peaks)
        rows = iterations(limit=LIMIT)
        if out is not None:
            draw(out, rows, peaks, LIMIT)
    seconds = round(time.perf_counter() - begun, 1)
    report = TheoryReport(problems, seed, stated, assumed, flaws, rows, seconds)
    if out is not None:
        write_json(out / "theory.json", report.to_json())
        page = io.StringIO()
        report.show(Console(file=page, width=100))
        write_atomic(out / "table.txt", page.getvalue().encode())
    return report


def _findings(peaks: tuple[np.ndarray, np.ndarray]) -> tuple[Finding, ...]:
    """In the order of the paper."""
    return (
        found.bounded_and_convex(),
        counterexamples.one_lipschitz_constant(),
        found.linear_bound_vacuous(),
        found.rates_from_slack(),
        found.bounds_rank_backwards(),
        counterexamples.error_left_open(),
        counterexamples.return_at_finite_steps(),
        counterexamples.feasibility_needs_the_rate(),
        counterexamples.lemma_steps(),
        counterexamples.invqua_overshoot(peaks),
        found.hand_picked_constants(),
        found.loss_divided_twice(),
    )


def _check_table(problem: str, rows: list[Check]) -> Table:
    table = Table(title=f"{problem}: along runs of Algorithm 1", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("left <= right", overflow="fold")
    table.add_column("rule")
    for column in ("left", "right", "least margin", "times", "holds in"):
        table.add_column(column, justify="right", no_wrap=column not in ("least margin", "holds in"))
    previous = ""
    for row in sorted(rows, key=lambda row: [check.statement for check in rows].index(row.statement)):
        name = "" if row.statement == previous else f"{row.equation.split(',')[0]}: {row.statement}"
        sides = (f"{row.left:.3g}", f"{row.right:.3g}", _margin(row), _number(row.slack))
        table.add_row(name, row.rule, *sides, _share(row))
        previous = row.statement
    return table


def _assumption_table(rows: tuple[Check, ...]) -> Table:
    table = Table(title="What the paper assumes, in the same runs", title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("assumption", "problem", "holds in", "where it fails"):
        table.add_column(column, justify="right" if column == "holds in" else "left")
    where_it_fails = {statement: so for statement, _, so in ASSUMPTIONS.values()}
    previous = ""
    for row in sorted(rows, key=lambda row: list(where_it_fails).index(row.statement)):
        name = "" if row.statement == previous else f"{row.equation}: {row.statement}"
        so = "" if row.holds == row.runs else where_it_fails[row.statement]
        table.add_row(name, row.problem, _share(row), so)
        previous = row.statement
    return table


def _margin(row: Check) -> str:
    """The least margin; what rounding left of an equality is 0."""
    at_rest = row.holds == row.runs and row.margin <= 0
    return "0" if at_rest else f"{row.margin:.2g}"


def _share(row: Check) -> str:
    return "all" if row.holds == row.runs else f"{row.holds} of {row.runs}"


def _show_findings(rows: tuple[Finding, ...], console: Console) -> None:
    console.print("Findings: where the print is false, open, loose or left behind by practice", style="bold")
    for row in rows:
        console.print(f"\n{row.name} ({row.equation}): {row.verdict}", style="bold", markup=False)
        console.print(f"  printed: {row.claim}", markup=False)
        found_it = "shown" if row.shown else "NOT FOUND ANY MORE"
        console.print(f"  {found_it}: {row.evidence}", markup=False)
    console.print()


def _iteration_table(rows: tuple[Iterations, ...]) -> Table:
    table = Table(title="Iterations to 1e-3 of the first distance (medians)", title_justify="left")
    table.add_column("sweep")
    for column in ("", *("InvLin", "InvQua", "1/L", "best constant", "one constant"), "that constant"):
        table.add_column(column, justify="right")
    previous = ""
    for row in rows:
        if previous not in ("", row.sweep):
            table.add_section()
        counts = [_number(getattr(row, field)) for field in LINES]
        table.add_row(
            "" if previous == row.sweep else row.sweep,
            f"{row.value:g}",
            *counts,
            f"{row.one_learning_rate:.3g}",
        )
        previous = row.sweep
    return table


def _number(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"> {LIMIT}" if math.isinf(value) else f"{value:.4g}"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
