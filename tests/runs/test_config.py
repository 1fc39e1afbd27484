"""A configuration is what was written, or one line says what is wrong with it."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papd.agents.hyper import DDPGHyper, PPOHyper
from papd.errors import ConfigError, PapdError
from papd.runs.config import (
    HYPER,
    MAY_CHANGE,
    RATES,
    RunConfig,
    default_folder,
    from_mapping,
    read_config,
    under_flags,
)
from papd.runs.fields import parse_whole

BASE = {"env": "SafetyCarRun-v0"}


@pytest.mark.parametrize("algo", HYPER)
@pytest.mark.parametrize("lr", ["constant", "invlin", "invqua"])
def test_a_resolved_configuration_survives_json(algo: str, lr: str) -> None:
    config = from_mapping({**BASE, "algo": algo, "lr": lr}).resolved()
    assert (config.h1, config.h2) == RATES[algo, lr]
    assert type(config.hyper) is HYPER[algo]
    back = from_mapping(json.loads(json.dumps(config.to_json())))
    assert back == config
    assert back.resolved() == config
    assert back.identity() == config.identity()


def test_the_papers_rates_are_the_defaults() -> None:
    assert RATES["ppol", "invlin"] == (0.001, 3.0)
    assert RATES["ppol", "invqua"] == (0.015, 6.0)
    assert RATES["ddpgl", "invlin"] == (0.003, 4.5)
    assert RATES["ddpgl", "invqua"] == (0.045, 7.5)


def test_every_field_is_documented() -> None:
    for cls in (RunConfig, PPOHyper, DDPGHyper):
        source = Path(__import__(cls.__module__, fromlist=["x"]).__file__).read_text()
        for field in dataclasses.fields(cls):
            after = source.split(f"    {field.name}: ", 1)[1].split("\n")
            following = next(line for line in after[1:] if line.strip().startswith(('"""', "def ", "class ")))
            assert following.strip().startswith('"""'), field.name


def test_identity_is_what_decides_the_weights() -> None:
    config = from_mapping(BASE).resolved()
    for name, value in {
        "steps": 5,
        "workers": 1,
        "checkpoint_every": 2,
        "keep": 9,
        "eval_episodes": 1,
    }.items():
        assert name in MAY_CHANGE
        assert dataclasses.replace(config, **{name: value}).identity() == config.identity()
    for name, value in {"seed": 5, "h1": 0.5, "cost_limit": (5.0,), "hyper": PPOHyper(gamma=0.5)}.items():
        assert dataclasses.replace(config, **{name: value}).identity() != config.identity()


def test_a_file_may_have_hyper_parameters_beside_the_rest_or_in_their_table(tmp_path: Path) -> None:
    flat, nested = tmp_path / "flat.toml", tmp_path / "nested.toml"
    flat.write_text('env = "A-v0"\nsteps = 1e6\ncost-limit = 5\ngamma = 0.9\nhidden_sizes = [8, 8]\n')
    nested.write_text(
        'env = "A-v0"\nsteps = 1_000_000\ncost_limit = [5.0]\n[hyper]\ngamma = 0.9\nhidden-sizes = [8, 8]\n'
    )
    one, other = (from_mapping(read_config(file)) for file in (flat, nested))
    assert one == other
    assert one.steps == 1_000_000
    assert one.cost_limit == (5.0,)
    assert one.hyper == PPOHyper(gamma=0.9, hidden_sizes=(8, 8))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"gama": 0.9}, "unknown field 'gama'; did you mean 'gamma'"),
        ({"sead": 1}, "unknown field 'sead'; did you mean 'seed'"),
        ({"hyper": {"gama": 1}}, "unknown field 'gama'; did you mean 'gamma'"),
        ({"hyper": 3}, "hyper=3: hyper is a table"),
        ({"algo": "ppo"}, "algo='ppo': algo is one of ppol, ddpgl"),
        ({"algo": ["ppol"]}, "algo is one of"),
        ({"lr": "InvQua"}, "lr='InvQua': lr is one of constant, invlin, invqua"),
        ({"seed": "1"}, "seed='1': seed is a whole number"),
        ({"seed": 1.5}, "seed is a whole number"),
        ({"seed": True}, "seed is a whole number"),
        ({"seed": -1}, "seed must be a whole number >= 0"),
        ({"seed": 2**32}, "below 2\\*\\*32"),
        ({"steps": 0}, "steps must be a whole number >= 1"),
        ({"steps": math.inf}, "steps is a whole number"),
        ({"h1": 0}, "h1 must be a finite number > 0"),
        ({"h1": "big"}, "h1 is a number"),
        ({"h2": math.nan}, "h2 must be a finite number > 0"),
        ({"lr": "constant", "h2": 3.0}, "a constant rate has no h2"),
        ({"cost_limit": -1}, "cost_limit must be one or more finite numbers >= 0"),
        ({"cost_limit": []}, "cost_limit=nothing"),
        ({"kp": [0.1, math.nan]}, "kp must be"),
        ({"multiplier": "fixed"}, "needs the value it is held at"),
        ({"multiplier": "pid", "multiplier_fixed": 1}, "leave one of them out"),
        ({"multiplier_cap": 0}, "the largest multiplier must be > 0"),
        ({"signed_derivative": 1}, "signed_derivative is true or false"),
        ({"hidden_sizes": []}, "hidden_sizes"),
        ({"gamma": 1.5}, "gamma must be between 0 and 1"),
        ({"keep": 0}, "keep must be"),
        ({"env": ""}, "which environment"),
        ({"env": 3}, "env is a string"),
        ({"h1": 10**400}, "h1 is too large"),
        ({"algo": "ddpgl", "clip_ratio": 0.2}, "unknown field 'clip_ratio'"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_field(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as raised:
        from_mapping({**BASE, **values}, where="spec.toml").resolved()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.toml", "env = ", "is no valid TOML"),
        ("a.toml", "\udcff", "is no valid TOML"),
        ("a.json", "{", "is no valid JSON"),
        ("a.json", "[1]", "holds no table"),
        ("a.yaml", "", "a configuration is a .toml or .json file"),
    ],
)
def test_a_file_that_is_no_configuration_is_told(tmp_path: Path, name: str, text: str, words: str) -> None:
    (tmp_path / name).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(PapdError, match=words):
        read_config(tmp_path / name)
    with pytest.raises(PapdError, match="No such file"):
        read_config(tmp_path / f"absent-{name.replace('yaml', 'json')}")


def test_flags_take_what_belongs_to_them_along() -> None:
    stored = from_mapping({**BASE, "lr": "invqua", "clip_ratio": 0.3}).resolved().to_json()
    same = from_mapping(under_flags(stored, {"lr": ["invqua"], "seed": ["3"]}))
    assert (same.h1, same.h2, same.hyper) == (0.015, 6.0, PPOHyper(clip_ratio=0.3))
    other_rule = from_mapping(under_flags(stored, {"lr": ["constant"]})).resolved()
    assert (other_rule.lr, other_rule.h1, other_rule.h2) == ("constant", 0.0005, None)
    other_algo = from_mapping(under_flags(stored, {"algo": ["ddpgl"]})).resolved()
    assert (other_algo.hyper, other_algo.h1) == (DDPGHyper(), 0.045)
    held = {**stored, "multiplier": "fixed", "multiplier_fixed": [5.0]}
    assert from_mapping(under_flags(held, {"multiplier": ["pid"]})).multiplier_fixed == ()
    assert from_mapping(under_flags(stored, {"multiplier_fixed": ["1"]})).multiplier is None
    elsewhere = under_flags({**stored, "eval_backend": "bullet"}, {"backend": ["twin"]})
    assert from_mapping(elsewhere).eval_backend is None


@pytest.mark.parametrize("text", ["1000000", "1_000_000", "1e6", "1E+6", "1000000.0"])
def test_whole_numbers_are_read_as_people_write_them(text: str) -> None:
    assert parse_whole(text) == 1_000_000


@pytest.mark.parametrize("text", ["1.5", "1e-3", "nan", "inf", "one", "", "1e999"])
def test_other_numbers_are_not(text: str) -> None:
    with pytest.raises(ValueError, match="is no whole number"):
        parse_whole(text)


def test_a_default_folder_says_what_the_run_is() -> None:
    config = from_mapping({"env": "my.module:make env/../x", "seed": 3})
    assert default_folder(config) == Path("runs/my.module-make-env-..-x-bullet-ppol-invqua-seed3")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
NAMES = st.sampled_from(
    [field.name for cls in (RunConfig, PPOHyper, DDPGHyper) for field in dataclasses.fields(cls)]
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(NAMES | st.text(max_size=8), JSON, min_size=1, max_size=4))
def test_anything_in_a_file_is_a_configuration_or_one_line(values: dict[str, Any]) -> None:
    said, config = "", None
    try:
        config = from_mapping({**BASE, **values}).resolved()
    except ConfigError as error:
        said = str(error)
    assert "\n" not in said
    assert said or from_mapping(config.to_json()) == config
