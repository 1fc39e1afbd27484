"""From finished runs to the two small files of an experiment, and back; what is stored is not run again."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from papd.errors import RunError
from papd.results.paper_data import fluctuation, read_data, read_table, thinned, update_data, write_table
from papd.results.paper_experiments import EXPERIMENTS, Plan, make_plan, run_name
from papd.results.paper_store import engine_of, is_finished, missing, stored_runs, wanted
from papd.runs.folder import RunFolder
from tests.synthetic_paper import plain, write_paper_run, write_store


@pytest.fixture
def plan() -> Plan:
    return make_plan(EXPERIMENTS["motivation"])


@pytest.fixture
def store(plan: Plan, tmp_path: Path) -> Path:
    write_store(tmp_path / "store", plan, "twin", (0, 1))
    write_store(tmp_path / "store", plan, "bullet", (0,))
    return tmp_path / "store"


def test_a_row_a_run_with_what_its_training_and_its_policy_came_to(
    plan: Plan, store: Path, tmp_path: Path
) -> None:
    data = update_data(tmp_path / "results", plan, stored_runs(store, [plan]))
    assert len(data.runs) == 4 * 3
    row = data.runs[(data.runs["backend"] == "twin") & (data.runs["seed"] == 1)].iloc[0]
    folder = store / run_name(str(row["cell"]), "twin", 1)
    metrics = pd.read_csv(folder / "metrics.csv")
    assert row["return_mean"] == pytest.approx(metrics["return_mean"].iloc[-3:].mean(), rel=1e-4)
    assert row["return_whole"] == pytest.approx(metrics["return_mean"].mean(), rel=1e-4)
    value, cost = plain(plan.cells[0], 1)
    assert (row["policy_return"], row["policy_cost"]) == (value + 5.0, pytest.approx(max(0.0, cost - 5.0)))
    assert (row["bullet_return"], row["bullet_episodes"]) == (value + 5.0, 50)
    assert (row["env_steps"], row["engine"], row["jax"]) == (1_000_000, "local", "0.10.2")
    bullet = data.runs[data.runs["backend"] == "bullet"]
    assert bullet["bullet_return"].isna().all()
    assert (bullet["policy_episodes"] == 50).all()
    curve = data.curves[(data.curves["cell"] == row["cell"]) & (data.curves["seed"] == 1)]
    assert curve["env_steps"].tolist() == metrics["env_steps"].tolist()
    assert curve["cost_mean"].to_numpy() == pytest.approx(metrics["cost_mean"].to_numpy(), rel=1e-3)


def test_what_is_known_stays_when_the_store_is_gone(plan: Plan, store: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    first = update_data(results, plan, stored_runs(store, [plan]))
    files = {path.name: path.read_bytes() for path in results.iterdir()}
    assert set(files) == {"motivation.runs.csv", "motivation.curves.csv.gz"}
    again = update_data(results, plan, stored_runs(store, [plan]))
    assert {path.name: path.read_bytes() for path in results.iterdir()} == files
    shutil.rmtree(store)
    store.mkdir()
    write_store(store, plan, "twin", (2,))
    third = update_data(results, plan, stored_runs(store, [plan]))
    pd.testing.assert_frame_equal(first.runs, again.runs)
    assert len(third.runs) == 4 * 4
    assert sorted(third.runs["seed"].unique()) == [0, 1, 2]


def test_rows_of_another_configuration_are_not_taken_for_this_one(
    plan: Plan, store: Path, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    update_data(results, plan, stored_runs(store, [plan]))
    gamma = dataclasses.replace(plan.cells[0].config.hyper, gamma=0.9)
    # The same name under a papd whose default discount is another one.
    cell = dataclasses.replace(plan.cells[0], config=dataclasses.replace(plan.cells[0].config, hyper=gamma))
    cell.__dict__["name"] = plan.cells[0].name
    other = dataclasses.replace(plan, cells=(cell, *plan.cells[1:]))
    data = read_data(results, other)
    assert cell.name not in set(data.runs["cell"])
    assert cell.name not in set(data.curves["cell"])
    assert len(data.runs) == 3 * 3


def test_a_run_counts_wherever_it_stands(tmp_path: Path) -> None:
    h1, ppol = (make_plan(EXPERIMENTS[name]) for name in ("robust-h1", "ppol"))
    shared = {cell.name for cell in h1.cells} & {cell.name for cell in ppol.cells}
    part = dataclasses.replace(ppol, cells=tuple(cell for cell in ppol.cells if cell.name in shared))
    write_store(tmp_path / "store", part, "twin", (0,))
    update_data(tmp_path / "results", ppol, stored_runs(tmp_path / "store", [part]))
    assert set(read_data(tmp_path / "results", h1).runs["cell"]) == shared
    assert not (tmp_path / "results" / "robust-h1.runs.csv").exists()


def test_rows_of_other_cells_stay_in_the_file(plan: Plan, store: Path, tmp_path: Path) -> None:
    results, short = tmp_path / "results", make_plan(EXPERIMENTS["motivation"], steps=8000)
    update_data(results, plan, stored_runs(store, [plan]))
    write_store(tmp_path / "short", short, "twin", (0,), iterations=4)
    update_data(results, short, stored_runs(tmp_path / "short", [short]))
    assert len(read_data(results, plan).runs) == 12
    assert len(read_data(results, short).runs) == 4
    assert len(pd.read_csv(results / "motivation.runs.csv")) == 16


def test_only_finished_runs_are_read_and_the_others_are_missing(plan: Plan, store: Path) -> None:
    runs = wanted([plan], "twin", 50)
    names = list(runs)
    begun = RunFolder(store / names[0])
    summary = json.loads(begun.summary.read_text())
    begun.summary.write_text(json.dumps({**summary, "status": "interrupted"}))
    assert not is_finished(begun, runs[names[0]])
    assert names[0] not in {run.folder.path.name for run in stored_runs(store, [plan])}
    with pytest.raises(RunError, match="--resume goes on with it"):
        missing(store, runs, resume=False)
    left = missing(store, runs, resume=True)
    assert names[0] in left
    assert len(left) == 1 + 4 * 3


def test_another_run_under_a_name_of_ours_is_refused(plan: Plan, store: Path) -> None:
    name, config = next(iter(wanted([plan], "twin", 50).items()))
    stored = json.loads((store / name / "config.json").read_text())
    (store / name / "config.json").write_text(json.dumps({**stored, "h1": 0.5}))
    with pytest.raises(RunError, match=r"another configuration than the experiment's.*another --store"):
        is_finished(RunFolder(store / name), config)


def test_more_episodes_of_the_last_policy_are_asked_for_again(plan: Plan, store: Path) -> None:
    assert len(missing(store, wanted([plan], "bullet", 50), resume=False)) == 4 * 4
    assert len(missing(store, wanted([plan], "bullet", 60), resume=True)) == 4 * 5


def test_damaged_files_are_told(tmp_path: Path, plan: Plan) -> None:
    (tmp_path / "motivation.runs.csv").write_text("a,b\n1,2\n")
    with pytest.raises(RunError, match="other columns than this papd writes"):
        read_data(tmp_path, plan)
    (tmp_path / "motivation.runs.csv").unlink()
    (tmp_path / "motivation.curves.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(RunError, match="is no table of metrics"):
        read_data(tmp_path, plan)


def test_a_table_comes_back_as_it_was_written(tmp_path: Path) -> None:
    frame = pd.DataFrame({"cell": ["a,b", "c"], "seed": [0, 1], "value": [1.5, np.nan]})
    for name in ("x.csv", "x.csv.gz"):
        write_table(tmp_path / name, frame)
        pd.testing.assert_frame_equal(read_table(tmp_path / name, list(frame)), frame)
    assert read_table(tmp_path / "none.csv", ("a", "b")).empty


def test_fluctuation_is_around_a_line_over_the_last_half() -> None:
    rising = np.concatenate([np.full(10, 500.0), np.arange(10.0)])
    assert fluctuation(rising) == pytest.approx(0.0, abs=1e-9)
    zigzag = np.tile([1.0, -1.0], 50)
    assert fluctuation(zigzag) == pytest.approx(1.0, rel=0.05)
    assert fluctuation(np.where(np.arange(100) == 80, np.nan, zigzag)) == pytest.approx(1.0, rel=0.05)
    assert np.isnan(fluctuation(np.ones(6)))


def test_curves_are_thinned_to_means_over_parts() -> None:
    steps = np.arange(1, 1001) * 4000
    metrics = pd.DataFrame({"env_steps": steps, "return_mean": np.sin(steps / 1e5)})
    for name in ("cost_mean", "multiplier", "learning_rate"):
        metrics[name] = 1.0
    short = thinned(metrics)
    assert len(short) == 100
    assert (short["env_steps"].iloc[0], short["env_steps"].iloc[-1]) == (4000, 4_000_000)
    # The first and the last point are means over half a part.
    inner = short.iloc[1:-1]
    assert inner["return_mean"].to_numpy() == pytest.approx(
        np.sin(inner["env_steps"] / 1e5).to_numpy(), abs=0.01
    )
    assert len(thinned(metrics.iloc[:50])) == 50


def test_the_engine_is_read_from_the_command() -> None:
    assert engine_of("papd paper ppol --engine vmap --quiet") == "vmap"
    assert engine_of("papd paper ppol --engine=ray") == "ray"
    assert engine_of("papd paper 'ppol") == "local"
    assert engine_of(None) == "local"


def test_an_evaluation_of_an_older_policy_does_not_count(plan: Plan, tmp_path: Path) -> None:
    cell = plan.cells[0]
    folder = tmp_path / "store" / run_name(cell.name, "twin", 0)
    write_paper_run(folder, cell, "twin", 0, (500.0, 9.0), 30, 50)
    values = json.loads((folder / "bullet.json").read_text())
    (folder / "bullet.json").write_text(json.dumps({**values, "iterations": 20}))
    data = update_data(tmp_path / "results", plan, stored_runs(tmp_path / "store", [plan]))
    assert data.runs["bullet_return"].isna().all()
    assert data.runs["bullet_episodes"].tolist() == [0]
