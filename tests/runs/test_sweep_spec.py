"""What a spec describes, for any spec; and what is said about a wrong one."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papd.errors import ConfigError
from papd.runs.config import from_mapping
from papd.runs.sweeps.spec import Sweep, from_spec, read_spec, sweep_of

ENVS = ["SafetyBallRun-v0", "SafetyCarRun-v0", "SafetyBallCircle-v0"]
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "env": st.sampled_from(ENVS),
    "lr": st.sampled_from(["constant", "invlin", "invqua"]),
    "h1": st.floats(1e-6, 1.0),
    "steps": st.integers(1, 10**7),
    "gamma": st.floats(0.0, 1.0),
    "kp": st.lists(st.floats(0.0, 1.0), min_size=1, max_size=1),
    "rescale_loss": st.booleans(),
}


@st.composite
def axes(draw: st.DrawFn) -> dict[str, list[Any]]:
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), unique=True, max_size=3))
    return {name: draw(st.lists(VALUES[name], min_size=1, max_size=4, unique_by=repr)) for name in names}


@settings(deadline=None)
@given(axes(), st.lists(st.integers(0, 2**32 - 1), unique=True, max_size=3))
def test_any_axes_and_seeds_become_each_combination_once(
    axes: dict[str, list[Any]], seeds: list[int]
) -> None:
    sweep = Sweep({"env": ENVS[0]}, axes, seeds=tuple(seeds))
    runs = sweep.runs
    assert len(runs) == math.prod(map(len, axes.values())) * max(1, len(seeds))
    assert len({run.name for run in runs}) == len({run.config for run in runs}) == len(runs)
    for run in runs:
        assert re.fullmatch(r"[A-Za-z0-9_.=+-]+", run.name)
        assert set(run.labels) == {*axes, *(["seed"] if seeds else [])}
        for name, values in axes.items():
            found = (
                getattr(run.config, name, None)
                if hasattr(run.config, name)
                else getattr(run.config.hyper, name)
            )
            assert (list(found) if isinstance(found, tuple) else found) in values
    assert from_spec(sweep.to_json()).runs == runs


SPEC = """
name = "rules"
seeds = 2
[base]
backend = "twin"
algo = "ppol"
steps = 1e5
[axes]
env = ["SafetyBallRun-v0", "SafetyCarRun-v0"]
cost-limit = [5, 10]
[[cases.rate]]
lr = "constant"
h1 = 0.0005
[[cases.rate]]
name = "quadratic"
lr = "invqua"
h1 = 0.015
h2 = 6
"""


def test_a_file_crosses_axes_cases_and_seeds_and_zips_the_fields_of_a_case(tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(SPEC)
    sweep = read_spec(tmp_path / "rules.toml")
    assert len(sweep.runs) == 2 * 2 * 2 * 2
    first, last = sweep.runs[0], sweep.runs[-1]
    assert first.name == "constant-h1=0.0005-BallRun-cost_limit=5-seed0"
    assert (first.config.lr, first.config.h1, first.config.h2, first.config.steps) == (
        "constant",
        0.0005,
        None,
        100_000,
    )
    assert last.name == "quadratic-CarRun-cost_limit=10-seed1"
    assert (last.config.lr, last.config.h1, last.config.h2, last.config.cost_limit) == (
        "invqua",
        0.015,
        6.0,
        (10.0,),
    )
    assert last.labels == {
        "rate": "quadratic",
        "env": "CarRun",
        "cost_limit": "cost_limit=10",
        "seed": "seed1",
    }


def test_runs_share_a_program_where_only_traced_fields_differ() -> None:
    base = {"env": ENVS[0], "backend": "twin"}
    traced = Sweep(
        base, {"lr": ["constant", "invqua"], "kp": [[0.1], [0.2]], "steps": [10, 20]}, seeds=(0, 1)
    )
    assert len({run.program for run in traced.runs}) == 1
    static = Sweep(base, {"env": ENVS, "gamma": [0.9, 0.99], "multiplier": ["pid", "ascent"]})
    assert len({run.program for run in static.runs}) == len(static.runs) == 12


def test_a_sweep_of_given_runs_is_those_runs() -> None:
    configs = {
        name: from_mapping({"env": ENVS[0], "seed": i}).resolved() for i, name in enumerate(("a", "b"))
    }
    assert {run.name: run.config for run in sweep_of(configs).runs} == configs


GOOD = {"base": {"env": ENVS[0]}}
WRONG = {
    "a table that there is none of": ({**GOOD, "axis": {}}, "unknown table 'axis'; did you mean 'axes'?"),
    "a field outside base": ({"env": ENVS[0]}, r"unknown table 'env'.*fields of a run stand in \[base\]"),
    "a misspelled field of base": (
        {"base": {"evn": "x"}},
        r"unknown field 'evn' in \[base\]; did you mean 'env'?",
    ),
    "a misspelled axis": (
        {**GOOD, "axes": {"cost_limits": [1]}},
        r"'cost_limits' in \[axes\]; did you mean 'cost_limit'?",
    ),
    "a misspelled field of a case": ({**GOOD, "cases": [{"h3": 1}]}, "'h3' in cases.case; did you mean 'h"),
    "an axis that is no list": (
        {**GOOD, "axes": {"lr": "invqua"}},
        r"an axis is a list.*\['invqua'\] for one",
    ),
    "an axis of nothing": ({**GOOD, "axes": {"lr": []}}, "an axis is a list of one value or more"),
    "a value that no run may have": (
        {**GOOD, "axes": {"lr": ["adam"]}},
        "run 'adam'|lr='adam': lr is one of",
    ),
    "a rate that is no number": ({**GOOD, "axes": {"h1": [-1.0]}}, "h1=-1.0: h1 must be a finite number > 0"),
    "a field decided twice": (
        {**GOOD, "axes": {"lr": ["invlin"]}, "cases": {"rate": [{"lr": "constant"}]}},
        r"lr is decided by \[axes\] and by cases.rate",
    ),
    "two seeds": ({**GOOD, "axes": {"seed": [1]}, "seeds": 2}, r"seed is decided by seeds and by \[axes\]"),
    "one run twice": ({**GOOD, "axes": {"h1": [0.1, 0.1]}}, "are the same run: take one of them out"),
    "two cases of one name": (
        {**GOOD, "cases": {"rate": [{"name": "a", "h1": 0.1}, {"name": "a", "h1": 0.2}]}},
        "two runs are named 'a'",
    ),
    "seeds that are none": ({**GOOD, "seeds": 0}, "seeds is how many"),
    "a seed that is no number": ({**GOOD, "seeds": [1.5]}, "seeds is how many"),
    "base that is no table": ({"base": 3}, "base is a table"),
    "no environment": ({"base": {"steps": 10}}, "which environment?"),
    "more runs than anybody has": (
        {**GOOD, "seeds": 100_000, "axes": {"lr": ["invlin", "invqua"]}},
        "200,000 runs",
    ),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_is_told_in_one_line_with_its_place(mistake: str) -> None:
    values, words = WRONG[mistake]
    with pytest.raises(ConfigError, match=words) as told:
        from_spec(values, where="spec.toml")
    assert str(told.value).startswith("spec.toml: ")
    assert "\n" not in str(told.value)
