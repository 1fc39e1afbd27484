"""`papd theory`: every statement, every finding, the files, and nothing left behind."""

import io
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

from papd.errors import ConfigError
from papd.results import theory_counterexamples as counterexamples
from papd.results.theory import run_theory
from papd.results.theory_checks import STATEMENTS


def test_every_statement_every_finding_and_the_files(tmp_path: Path) -> None:
    report = run_theory(tmp_path, problems=100, seed=1)
    assert {check.statement for check in report.checks} == {statement for statement, _ in STATEMENTS.values()}
    wrong = [check for check in report.checks if check.holds != check.runs]
    assert wrong == []
    assert max(check.runs for check in report.checks) == 100
    assert [finding.name for finding in report.findings if not finding.shown] == []
    assert len(report.findings) == 12
    assert report.holds
    assumed = {(check.problem, check.statement): (check.holds, check.runs) for check in report.assumptions}
    assert assumed["tabular CMDP", "curvature >= mu"] == (0, 2)  # not convex: the lemma is not checked there
    assert assumed["tabular CMDP", "costs bounded, on the run and off it"] == (2, 2)
    assert assumed["100 QPs, m = 3", "curvature >= mu"] == (300, 300)
    assert assumed["100 QPs, m = 3", "costs bounded, on the run and off it"][0] < 300  # not on all of R^n

    by_sweep = {(row.sweep, row.value): row for row in report.iterations}
    easy, hard = by_sweep["condition number", 2.0], by_sweep["condition number", 50.0]
    assert hard.inv_lin < 20 * easy.inv_lin
    assert hard.inv_qua > 20 * easy.inv_qua
    assert all(
        row.best_constant <= row.whole_inverse and row.inv_lin <= row.inv_qua for row in report.iterations
    )

    written = json.loads((tmp_path / "theory.json").read_text())
    assert written["holds"] is True
    assert len(written["checks"]) == len(report.checks)
    assert "Infinity" not in (tmp_path / "theory.json").read_text()
    for name in ("rates", "promised", "run", "iterations", "overshoot"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
        assert (tmp_path / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    printed = io.StringIO()
    report.show(Console(file=printed, width=200))
    text = printed.getvalue()
    assert "bound_inverse_linear" in text
    assert "false as printed" in text
    assert all(line.rstrip().endswith("all") for line in text.splitlines() if line.startswith("  Theorem 2"))
    assert len((tmp_path / "table.txt").read_text().splitlines()) > 100
    assert jnp.ones(1).dtype == jnp.float32  # float64 ends with the run


def test_spikes_are_the_counterexample_they_claim() -> None:
    sequence = counterexamples.spikes(7)
    mean = np.cumsum(sequence) / np.arange(1, sequence.size + 1)
    assert sequence.min() == 0.0
    assert np.abs(np.diff(sequence)).max() == 1.0
    assert mean.max() < 2.0
    assert sequence.max() == 2.0**7
    assert [sequence[4**j] for j in range(2, 8)] == [2.0**j for j in range(2, 8)]


def test_cubic_rate_never_obeys_while_the_papers_do() -> None:
    with jax.enable_x64(True):
        linear, square, cube = (counterexamples.half_disc(power, steps=1000) for power in (1, 2, 3))
    # By hand: theta 2 -> 2 (lambda is 0), lambda -> 1.5; then the gradient is 1.5 * 2 and L = 2.5.
    np.testing.assert_allclose(cube.theta[:3, 0], [2.0, 2.0, 2.0 - 3.0 / (2 * 2.5**3)], rtol=1e-12)
    np.testing.assert_allclose(cube.multiplier[:2, 0], [0.0, 1.5])
    assert float(cube.theta.min()) > 1.5
    assert float(cube.multiplier[-1, 0]) > 0.5 * 1000
    for kept in (linear, square):
        assert float(kept.costs[-1, 0]) == pytest.approx(0.5, abs=1e-3)


def test_problems_must_be_some() -> None:
    with pytest.raises(ConfigError, match="problems=0"):
        run_theory(problems=0)
    assert jax.config.jax_enable_x64 is False
