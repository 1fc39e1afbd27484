"""The paper's experiments as specs: the cells and seeds it has, and names that say what a run is."""

import dataclasses
from pathlib import Path

import pytest

from papd.errors import ConfigError, RunError
from papd.results.paper_experiments import EXPERIMENTS, SPECS, cell_name, choose, make_plan, run_name
from papd.runs.config import RunConfig
from papd.runs.sweeps.spec import read_spec

NUMBER_OF_CELLS = {
    "motivation": 4,
    "ppol": 24,
    "runtime": 24,
    "robust-h1": 24,
    "robust-h2": 10,
    "ddpgl": 24,
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_five_seeds_of_every_cell_at_the_cost_limit_10(name: str) -> None:
    plan = make_plan(EXPERIMENTS[name])
    assert len(plan.cells) == NUMBER_OF_CELLS[name]
    assert plan.seeds == (0, 1, 2, 3, 4)
    assert plan.limit == 10.0
    assert len({cell.label for cell in plan.cells}) == len(plan.cells)
    runs = plan.runs("bullet", 50)
    assert len(runs) == 5 * len(plan.cells)
    assert {(config.backend, config.eval_backend, config.eval_episodes) for config in runs.values()} == {
        ("bullet", "bullet", 50)
    }


def test_the_specs_are_sweeps_too() -> None:
    for name in ("ppol", "ddpgl", "motivation", "robust-h1", "robust-h2", "runtime"):
        assert len(read_spec(SPECS / f"{name}.toml").runs) == 5 * NUMBER_OF_CELLS[name]


def test_budgets_are_the_framework_s() -> None:
    steps = {cell.env: cell.config.steps for cell in make_plan(EXPERIMENTS["ppol"]).cells}
    assert steps == {
        "BallRun": 1_000_000,
        "CarRun": 1_000_000,
        "BallCircle": 1_000_000,
        "CarCircle": 2_000_000,
    }


def test_the_factors_scale_what_they_should() -> None:
    base = {"constant": 0.00025, "invlin": 0.001, "invqua": 0.015}
    cells = make_plan(EXPERIMENTS["robust-h1"]).cells
    assert sorted({cell.factor for cell in cells if cell.factor}) == [0.2, 0.32, 0.4, 1.0, 1.6, 2.4, 3.2, 4.0]
    for cell in cells:
        assert cell.config.h1 == pytest.approx(base[cell.kind] * (cell.factor or 0.0))
        assert cell.config.h2 == {"constant": None, "invlin": 3.0, "invqua": 6.0}[cell.kind]
    for cell in make_plan(EXPERIMENTS["robust-h2"]).cells:
        assert cell.config.h1 == base[cell.kind]
        assert cell.config.h2 == pytest.approx(
            {"invlin": 3.0, "invqua": 6.0}[cell.kind] * (cell.factor or 0.0)
        )


def test_experiments_share_the_runs_that_they_share() -> None:
    ppol, h1, h2 = (
        {cell.name for cell in make_plan(EXPERIMENTS[name]).cells}
        for name in ("ppol", "robust-h1", "robust-h2")
    )
    assert ppol & h1 == {
        "CarRun-ppol-constant-0.0001-1M",
        "CarRun-ppol-constant-0.00025-1M",
        "CarRun-ppol-constant-0.001-1M",
        "CarRun-ppol-invlin-0.001-3-1M",
        "CarRun-ppol-invqua-0.015-6-1M",
    }
    assert h2 & h1 == {"CarRun-ppol-invlin-0.001-3-1M", "CarRun-ppol-invqua-0.015-6-1M"}


def test_a_name_says_all_that_is_no_default_and_nothing_that_moves_no_weight() -> None:
    config = RunConfig(env="SafetyBallRun-v0", lr="invqua", h1=0.015, h2=6.0).resolved()
    assert cell_name(config) == "BallRun-ppol-invqua-0.015-6-1M"
    changed = dataclasses.replace(config, cost_limit=(25.0,), workers=3, steps=2_500, seed=4)
    assert cell_name(changed) == "BallRun-ppol-invqua-0.015-6-cost_limit=25-2500"
    deeper = dataclasses.replace(config, hyper=dataclasses.replace(config.hyper, hidden_sizes=(64, 64)))
    assert cell_name(deeper) == "BallRun-ppol-invqua-0.015-6-hidden_sizes=64+64-1M"
    held = dataclasses.replace(config, multiplier_fixed=(1.5,), multiplier=None).resolved()
    assert cell_name(held) == "BallRun-ppol-invqua-0.015-6-held=1.5-1M"
    assert run_name("x", "twin", 3) == "x-twin-seed3"


def test_seeds_and_steps_can_be_others(tmp_path: Path) -> None:
    plan = make_plan(EXPERIMENTS["motivation"], seeds=20, steps=8000)
    assert plan.seeds == tuple(range(20))
    assert {cell.config.steps for cell in plan.cells} == {8000}
    text = (SPECS / "motivation.toml").read_text().replace("[1.0], [5.0]", "[2.0]")
    (tmp_path / "motivation.toml").write_text(text)
    assert {cell.held for cell in make_plan(EXPERIMENTS["motivation"], tmp_path).cells} == {2.0}


def test_mistakes_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no experiment 'ppo'; did you mean 'ppol'"):
        choose(["ppo"])
    with pytest.raises(RunError, match=r"a folder of experiments holds ppol\.toml"):
        make_plan(EXPERIMENTS["ppol"], tmp_path)
    text = (SPECS / "motivation.toml").read_text()
    (tmp_path / "motivation.toml").write_text(text.replace("[10.0]", "[10.0, 5.0]"))
    with pytest.raises(ConfigError, match="share one cost limit"):
        make_plan(EXPERIMENTS["motivation"], tmp_path)
    assert [each.name for each in choose([])] == list(EXPERIMENTS)
    assert [each.name for each in choose(["ddpgl", "ppol"])] == ["ppol", "ddpgl"]
