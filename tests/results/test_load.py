"""Runs read back as a tidy table, whatever state their folders are in."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from papd.errors import RunError
from papd.results import load
from papd.results.load import find_runs, read_run
from tests.synthetic_runs import COLUMNS, RULES, write_run, write_sweep


def test_one_run(tmp_path: Path) -> None:
    frame = load(write_run(tmp_path / "mine", {"seed": 3}, iterations=7))
    assert list(frame.columns) == ["run", "seed", *COLUMNS]
    assert frame["run"].unique().tolist() == ["mine"]
    assert frame["seed"].unique().tolist() == [3]
    assert frame["iteration"].tolist() == list(range(1, 8))
    assert frame["env_steps"].dtype == np.int64
    assert frame.attrs["config"]["env"] == "SafetyCarRun-v0"
    assert frame.attrs["config"]["hyper.hidden_sizes"] == (128, 128)
    assert frame.attrs["config"]["cost_limit"] == 10.0


def test_sweep_has_a_column_for_each_axis_and_no_other(tmp_path: Path) -> None:
    write_sweep(tmp_path, seeds=2, iterations=4)
    frame = load(tmp_path)
    assert list(frame.columns) == ["run", "seed", "env", "lr", "h1", "h2", *COLUMNS]
    assert len(frame) == 2 * 3 * 2 * 4
    assert frame.groupby(["env", "lr", "seed"])["iteration"].max().eq(4).all()
    assert frame.loc[frame["run"] == "SafetyBallRun-v0/invlin/seed1", "h1"].unique().tolist() == [0.001]
    assert frame["h1"].dtype == np.float64
    assert frame.loc[frame["lr"] == "constant", "h2"].isna().all()


def test_a_field_with_a_metrics_name_is_prefixed(tmp_path: Path) -> None:
    write_run(tmp_path / "a", {"multiplier": "pid"}, iterations=2)
    write_run(tmp_path / "b", {"multiplier": "fixed"}, iterations=2)
    frame = load(tmp_path)
    assert frame["config.multiplier"].tolist() == ["pid", "pid", "fixed", "fixed"]
    assert frame["multiplier"].dtype == np.float64


def test_keep_makes_columns_of_what_all_runs_share(tmp_path: Path) -> None:
    frame = load(write_run(tmp_path / "a", iterations=2), keep=("env", "cost_limit"))
    assert frame["env"].tolist() == ["SafetyCarRun-v0"] * 2
    assert frame["cost_limit"].tolist() == [10.0] * 2


def test_paths_given_twice_or_nested_count_once_and_clashing_names_are_told_apart(tmp_path: Path) -> None:
    write_run(tmp_path / "x" / "run", iterations=2)
    write_run(tmp_path / "y" / "run", {"seed": 1}, iterations=2)
    frame = load(tmp_path / "x", tmp_path / "y", tmp_path / "x" / "run")
    assert len(frame) == 4
    assert frame["run"].nunique() == 2
    assert all("/run" in name for name in frame["run"])


def test_runs_come_in_natural_order_and_folders_inside_runs_are_not_runs(tmp_path: Path) -> None:
    for seed in (10, 2, 1):
        write_run(tmp_path / f"seed{seed}", {"seed": seed}, iterations=1)
    write_run(tmp_path / "seed1" / "inner", iterations=1)
    assert [run.name for run in find_runs(tmp_path)] == ["seed1", "seed2", "seed10"]


def test_a_run_being_written_counts_as_far_as_it_is_whole(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", iterations=5)
    with open(run / "metrics.csv", "a") as file:
        file.write("6,24000,120,49")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = load(run)
    assert frame["iteration"].tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", b"{"),
        ("config.json", b"[1]"),
        ("metrics.csv", b""),
        ("metrics.csv", b"iteration,env_steps\n"),
        ("metrics.csv", b"iteration,env_steps\n1,4000\n2\n3,12000\n"),
        ("metrics.csv", b"iteration,env_steps\n1,__import__('os')\n"),
        ("metrics.csv", b"a,b\n1,2\n"),
        ("metrics.csv", b"\xff\xfe\x00\n\x01\n"),
    ],
)
def test_a_damaged_run_is_left_out_and_named(tmp_path: Path, name: str, content: bytes) -> None:
    write_run(tmp_path / "good", iterations=2)
    bad = write_run(tmp_path / "bad", {"seed": 1}, iterations=2)
    (bad / name).write_bytes(content)
    with pytest.warns(UserWarning, match="left out run 'bad'"):
        frame = load(tmp_path)
    assert frame["run"].unique().tolist() == ["good"]
    with pytest.raises(RunError, match=name):
        read_run(bad)


def test_a_run_without_its_first_iteration_is_named(tmp_path: Path) -> None:
    write_run(tmp_path / "good", iterations=1)
    (tmp_path / "new" / "checkpoints").mkdir(parents=True)
    (tmp_path / "new" / "config.json").write_text("{}")
    with pytest.warns(UserWarning, match="new"):
        assert load(tmp_path)["run"].unique().tolist() == ["good"]


def test_nothing_to_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"config\.json and a metrics\.csv"):
        load(tmp_path)
    with pytest.raises(RunError, match="does not exist"):
        load(tmp_path / "nowhere")
    with pytest.raises(RunError, match="no path"):
        load()


def test_hostile_names_and_values_are_only_text(tmp_path: Path) -> None:
    name = "<script>alert(1)</script>\"'\u2603"
    write_run(tmp_path / "plain", iterations=1)
    write_run(tmp_path / name.replace("/", "_"), {"env": name + "\n</script>"}, iterations=1)
    frame = load(tmp_path)
    assert set(frame["env"]) == {"SafetyCarRun-v0", name + "\n</script>"}


def test_deep_values_are_hashable_cells(tmp_path: Path) -> None:
    write_run(tmp_path / "a", {"odd": [[1, 2], {"x": 1}], "cost_limit": [10.0, 5.0]}, iterations=1)
    write_run(tmp_path / "b", {"odd": 1, "cost_limit": [10.0]}, iterations=1)
    frame = load(tmp_path)
    assert frame["odd"].tolist() == [json.dumps([[1, 2], {"x": 1}]), 1]
    assert frame["cost_limit"].tolist() == [(10.0, 5.0), 10.0]
    assert len(frame.groupby(["odd", "cost_limit"], sort=False)) == 2


def test_read_run_of_the_frameworks_rules(tmp_path: Path) -> None:
    for rule, fields in RULES.items():
        run = read_run(write_run(tmp_path / rule, fields, iterations=3))
        assert run.config["lr"] == rule
        assert isinstance(run.metrics, pd.DataFrame)


def test_reading_runs_does_not_import_jax(tmp_path: Path) -> None:
    write_run(tmp_path / "a", iterations=2)
    code = "import sys; from papd.results import load; load(sys.argv[1]); print('jax' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
