"""What a sweep is: a table of fields, crossed axes, cases and seeds, and the runs that follow. No JAX here."""

import dataclasses
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from papd.errors import ConfigError, nearest
from papd.runs.config import HYPER, RunConfig, from_mapping, read_config

MOST_RUNS = 100_000
"""A spec that asks for more is taken for a mistake."""

TABLES = ("name", "base", "axes", "cases", "seeds")
"""What a spec may hold."""

CASE_NAME = "name"
"""The key of a case that names it; the others are fields."""

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class SweepRun:
    """One run: its folder's name, what it is, and where it stands on each axis."""

    name: str
    config: RunConfig
    labels: Mapping[str, str]

    @cached_property
    def identity(self) -> str:
        """What decides its weights, as a short name."""
        return self.config.identity()

    @cached_property
    def program(self) -> str:
        """Equal for runs that one compiled program serves: everything else about them is traced."""
        config = self.config.to_json()
        static = ("env", "backend", "cost_keys", "algo", "hyper", "multiplier", "signed_derivative")
        return json.dumps([[config[name] for name in static], len(self.config.cost_limit)], sort_keys=True)


@dataclass(frozen=True)
class Sweep:
    """A sweep: ``base`` under every choice of a case from each list, a value from each axis, and a seed."""

    base: Fields = field(default_factory=dict)
    """Fields of :class:`RunConfig`, or of its hyper-parameters, that all runs have."""
    axes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Values of single fields, crossed."""
    cases: Mapping[str, Sequence[Fields]] = field(default_factory=dict)
    """Axes whose values are several fields at once: lists of tables, each with an optional ``name``."""
    seeds: Sequence[int] = ()
    """Seeds, crossed with all the rest."""
    name: str = "sweep"

    @cached_property
    def runs(self) -> tuple[SweepRun, ...]:
        """Every run, checked: a mistake in the spec, or two runs that are one, is a :class:`ConfigError`."""
        _check_names(self)
        runs = tuple(_make_runs(self))
        _check_different(runs)
        return runs

    def to_json(self) -> dict[str, Any]:
        """The spec as JSON values; :func:`from_spec` reads them back."""
        values: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return values


def sweep_of(configs: Mapping[str, RunConfig], name: str = "sweep") -> Sweep:
    """A sweep of runs that somebody has made, by name."""
    return Sweep(
        cases={"run": [{**config.to_json(), CASE_NAME: n} for n, config in configs.items()]}, name=name
    )


def read_spec(path: Path) -> Sweep:
    """The sweep that a TOML (or JSON) file describes; its file name is its name where it gives none."""
    values = read_config(path)
    return from_spec({"name": path.stem, **values}, where=str(path))


def from_spec(values: Fields, *, where: str = "spec") -> Sweep:
    """A sweep from the values of a file, checked down to the last run."""
    try:
        for key in values:
            if key not in TABLES:
                known = f"{nearest(key, TABLES)} (fields of a run stand in [base])"
                raise ConfigError(f"unknown table {key!r}{known}")
        sweep = Sweep(
            _table("base", values.get("base", {})),
            {
                name: _list(f"axes.{name}", each)
                for name, each in _table("axes", values.get("axes", {})).items()
            },
            _cases(values.get("cases", {})),
            _seeds(values.get("seeds", ())),
            _word("name", values.get("name", "sweep")),
        )
        _ = sweep.runs
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    return sweep


def _table(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name}={value!r}: {name} is a table of names and values")
    return {key.replace("-", "_"): each for key, each in value.items()}


def _list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list | tuple) or not value:
        raise ConfigError(f"{name}={value!r}: an axis is a list of one value or more, [{value!r}] for one")
    return list(value)


def _cases(value: Any) -> dict[str, list[dict[str, Any]]]:
    lists = value if isinstance(value, Mapping) else {"case": value}
    return {
        axis: [_table(f"cases.{axis}", each) for each in _list(f"cases.{axis}", cases)]
        for axis, cases in lists.items()
    }


def _seeds(value: Any) -> tuple[int, ...]:
    """A number of seeds from 0 on, or the seeds themselves."""
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_RUNS:
        return tuple(range(value))
    if isinstance(value, list | tuple) and all(type(each) is int for each in value):
        return tuple(value)
    raise ConfigError(f"seeds={value!r}: seeds is how many (0, 1, ...), or a list of whole numbers")


def _word(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{name}={value!r}: {name} is a word")
    return value


def _fields_of(algos: Sequence[str]) -> set[str]:
    own = {f.name for f in dataclasses.fields(RunConfig)}
    return own.union(*({f.name for f in dataclasses.fields(HYPER[algo])} for algo in algos))


def _check_names(sweep: Sweep) -> None:
    """Every name is a field's, and no two places decide the same field."""
    known = _fields_of(tuple(HYPER))
    decided: dict[str, str] = {"seed": "seeds"} if sweep.seeds else {}
    for where, names in _places(sweep):
        for name in names:
            if name not in known:
                raise ConfigError(f"unknown field {name!r} in {where}{nearest(name, known)}")
            if where != "[base]" and decided.setdefault(name, where) != where:
                raise ConfigError(
                    f"{name} is decided by {decided[name]} and by {where}: leave one of them out"
                )


def _places(sweep: Sweep) -> Iterator[tuple[str, set[str]]]:
    yield "[base]", set(sweep.base)
    yield "[axes]", set(sweep.axes)
    for axis, cases in sweep.cases.items():
        yield f"cases.{axis}", {name for case in cases for name in case} - {CASE_NAME}


Choice = tuple[str, str, Fields]
"""A point of an axis: the axis, a label, and the fields that it sets."""


def _make_runs(sweep: Sweep) -> Iterator[SweepRun]:
    axes = list(_choices(sweep))
    count = math.prod(map(len, axes))
    if count > MOST_RUNS:
        raise ConfigError(f"{count:,} runs are more than {MOST_RUNS:,}: a sweep is a smaller one")
    many = [axis for axis in axes if len(axis) > 1 or axis[0][0] in sweep.cases]
    for chosen in itertools.product(*axes):
        values = dict(sweep.base)
        for _, _, fields in chosen:
            values.update(fields)
        labels = {axis: label for axis, label, _ in chosen}
        shown = [label for axis, label, _ in chosen if any(axis == each[0][0] for each in many)]
        name = "-".join(filter(None, shown)) or sweep.name
        yield SweepRun(name, _config(values, name), labels)


def _choices(sweep: Sweep) -> Iterator[list[Choice]]:
    """The points of each axis, cases first, seeds last."""
    for axis, cases in sweep.cases.items():
        yield [(axis, _case_label(axis, case), _without_name(case)) for case in cases]
    for name, values in sweep.axes.items():
        labels = _labels(name, values)
        yield [(name, label, {name: value}) for label, value in zip(labels, values, strict=True)]
    if sweep.seeds:
        yield [("seed", f"seed{seed}", {"seed": seed}) for seed in sweep.seeds]


def _without_name(case: Fields) -> Fields:
    return {name: value for name, value in case.items() if name != CASE_NAME}


def _case_label(axis: str, case: Fields) -> str:
    """A case's name, or what it says."""
    if CASE_NAME in case:
        return _safe(_word(f"cases.{axis}.name", case[CASE_NAME]))
    return "-".join(_labels(name, [value])[0] for name, value in case.items())


SPEAK_FOR_THEMSELVES = ("env", "algo", "lr", "backend", "multiplier")
"""Fields whose value needs no name beside it."""


def _labels(name: str, values: Sequence[Any]) -> list[str]:
    """How the values of a field stand in a run's name."""
    if name == "seed":
        return [f"seed{value}" for value in values]
    words = [_value(value) for value in values]
    if name == "env":
        short = [re.sub(r"^Safety(\w+)-v0$", r"\1", word) for word in words]
        words = short if len(set(short)) == len(set(words)) else words
    return [_safe(word if name in SPEAK_FOR_THEMSELVES else f"{name}={word}") for word in words]


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "+".join(map(_value, value))
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def _safe(text: str) -> str:
    """Fit for a folder's name on every system that we know of."""
    return re.sub(r"[^A-Za-z0-9_.=+]+", "-", text).strip("-.") or "x"


def _config(values: Fields, name: str) -> RunConfig:
    return from_mapping(values, where=f"run {name!r}").resolved()


def _check_different(runs: Sequence[SweepRun]) -> None:
    named: dict[RunConfig, str] = {}
    for run in runs:
        if run.config in named:
            raise ConfigError(
                f"runs {named[run.config]!r} and {run.name!r} are the same run: take one of them out"
            )
        named[run.config] = run.name
    twice = [name for name, count in Counter(run.name for run in runs).items() if count > 1]
    if twice:
        raise ConfigError(f"two runs are named {twice[0]!r}: give the cases names that differ")
