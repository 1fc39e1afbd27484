"""Tables over runs: final scores, summaries of groups, verdicts between methods."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from papd.errors import ConfigError
from papd.results import load, tables
from papd.results.statistics import Bootstrap
from tests.synthetic_runs import write_sweep

QUICK = Bootstrap(resamples=300)


def frame_of(values: dict[str, list[float]]) -> pd.DataFrame:
    """Two runs of twenty iterations each, whose last two rows have the given return and cost."""
    rows = []
    for run, (value, cost) in values.items():
        for iteration in range(1, 21):
            late = iteration > 18
            rows.append(
                {
                    "run": run,
                    "seed": 0,
                    "iteration": iteration,
                    "env_steps": 100 * iteration,
                    "return_mean": value + (iteration - 19.5) if late else -1e6,
                    "cost_mean": cost if late else 1e6,
                }
            )
    return pd.DataFrame(rows)


def test_final_scores_are_means_over_the_last_tenth() -> None:
    final = tables.final_scores(frame_of({"a": [500.0, 9.0], "b": [600.0, 12.0]}), 10.0)
    assert final["run"].tolist() == ["a", "b"]
    assert final["return_mean"].tolist() == [500.0, 600.0]
    assert final["violation"].tolist() == [0.0, 2.0]
    assert final["feasible"].tolist() == [True, False]
    assert final["env_steps"].tolist() == [2000, 2000]


def test_final_scores_skip_rows_without_a_finished_episode() -> None:
    frame = frame_of({"a": [500.0, 9.0], "b": [500.0, 9.0]})
    frame.loc[(frame["run"] == "a") & (frame["iteration"] == 20), ["return_mean", "cost_mean"]] = np.nan
    frame.loc[(frame["run"] == "b") & (frame["iteration"] > 18), ["return_mean", "cost_mean"]] = np.nan
    final = tables.final_scores(frame, 10.0)
    assert final["return_mean"].iloc[0] == 499.5
    assert np.isnan(final["return_mean"].iloc[1])
    assert not final["feasible"].iloc[1]


def test_several_constraints_are_bounded_each_by_its_own_limit() -> None:
    frame = frame_of({"a": [1.0, 12.0], "b": [1.0, 12.0]})
    frame["cost_mean_edge"] = np.where(frame["run"] == "a", 4.0, 7.0)
    frame["cost_mean_speed"] = np.where(frame["run"] == "a", 8.0, 5.0)
    final = tables.final_scores(frame, (5.0, 10.0))
    assert final["violation"].tolist() == [0.0, 2.0]


def test_summary_of_a_sweep(tmp_path: Path) -> None:
    write_sweep(tmp_path, seeds=5)
    final = tables.final_scores(load(tmp_path), 10.0)
    table = tables.summary(final, ["env", "lr"], QUICK)
    assert len(table) == 6
    assert (table["runs"] == 5).all()
    assert (table["return_low"] <= table["return_iqm_low"] + 1e-6).all()
    assert (table["return_iqm_low"] <= table["return_iqm"]).all()
    one = table[(table["env"] == "SafetyCarRun-v0") & (table["lr"] == "invlin")].iloc[0]
    runs = final[(final["env"] == "SafetyCarRun-v0") & (final["lr"] == "invlin")]["return_mean"]
    assert one["return_mean"] == pytest.approx(runs.mean())
    assert one["return_deviation"] == pytest.approx(runs.std())


def test_summary_names_runs_without_a_result_and_counts_them_nowhere_else() -> None:
    final = tables.final_scores(frame_of({"a": [500.0, 9.0], "b": [np.nan, np.nan]}), 10.0)
    row = tables.summary(final, "seed", QUICK).iloc[0]
    assert (row["runs"], row["without"]) == (1, 1)
    assert row["return_mean"] == 500.0
    assert row["feasible_share"] == 1.0


def final_of(method: str, returns: list[float], costs: list[float], env: str = "e") -> pd.DataFrame:
    excess = np.maximum(np.array(costs) - 10.0, 0.0)
    return pd.DataFrame(
        {"method": method, "env": env, "return_mean": returns, "cost_mean": costs, "violation": excess}
    )


def test_feasible_runs_are_better_whatever_the_return() -> None:
    safe = final_of("safe", [10.0, 11.0, 12.0, 13.0, 14.0], [9.0] * 5)
    greedy = final_of("greedy", [510.0, 511.0, 512.0, 513.0, 514.0], [12.0] * 5)
    row = tables.comparisons(pd.concat([safe, greedy]), "method", how=QUICK).iloc[0]
    assert (row["method"], row["against"], row["tasks"], row["seeds"]) == ("safe", "greedy", 1, 5)
    assert row["improvement"] == 1.0
    assert row["return_improvement"] == 0.0
    assert row["cost_improvement"] == 1.0
    assert row["verdict"] == "better"


def test_overlapping_methods_cannot_be_told() -> None:
    first = final_of("a", [1.0, 3.0, 5.0, 7.0, 9.0], [5.0] * 5)
    second = final_of("b", [2.0, 4.0, 6.0, 8.0, 0.0], [5.0] * 5)
    row = tables.comparisons(pd.concat([first, second]), "method", how=QUICK).iloc[0]
    assert row["verdict"] == "cannot be told at 5 seeds"
    assert row["improvement_low"] < 0.5 < row["improvement_high"]


def test_comparisons_against_one_over_the_tasks_both_have() -> None:
    parts = [final_of(m, [v, v + 1, v + 2], [5.0] * 3, e) for m, v in (("a", 0), ("b", 9)) for e in "xy"]
    alone = final_of("a", [0.0, 0.0], [5.0, 5.0], "z")
    table = tables.comparisons(pd.concat([*parts, alone]), "method", against="b", how=QUICK)
    assert table[["method", "against", "tasks", "verdict"]].to_numpy().tolist() == [["a", "b", 2, "worse"]]


def test_the_notebook_of_the_docs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text()
    block = text.split("```python\n")[1].split("```")[0]
    write_sweep(tmp_path / "runs" / "sweep", seeds=2, iterations=10)
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {}
    exec(compile(block, "docs/statistics.md", "exec"), space)
    assert isinstance(space["final"], pd.DataFrame)
    assert len(space["final"]) == 12


def test_mistakes_are_told() -> None:
    final = final_of("a", [1.0], [1.0])
    with pytest.raises(ConfigError, match=r"no column 'methods'; did you mean 'method'"):
        tables.summary(final, "methods")
    with pytest.raises(ConfigError, match="against='b'"):
        tables.comparisons(final, "method", against="b")
    with pytest.raises(ConfigError, match="share no task"):
        tables.comparisons(pd.concat([final, final_of("b", [1.0], [1.0], "other")]), "method")
    with pytest.raises(ConfigError, match="fraction=0"):
        tables.final_scores(frame_of({"a": [1.0, 1.0]}), 10.0, 0.0)
    with pytest.raises(ConfigError, match="2 cost limits for 1 costs"):
        tables.final_scores(frame_of({"a": [1.0, 1.0]}), (1.0, 2.0))
