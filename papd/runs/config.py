"""What one run is: a typed configuration, as flags, as a TOML or JSON file, and as its ``config.json``.

Nothing heavy is imported here: the command parses, checks and refuses before JAX is loaded.
"""

import dataclasses
import hashlib
import json
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from papd.agents.hyper import DDPGHyper, Hyper, PPOHyper
from papd.errors import ConfigError
from papd.runs.fields import coerce_fields
from papd.runs.files import read_bytes, read_json

Algo = Literal["ppol", "ddpgl"]
Backend = Literal["bullet", "twin"]
RateRule = Literal["constant", "invlin", "invqua"]
MultiplierRule = Literal["pid", "ascent", "fixed"]

HYPER: dict[str, type[PPOHyper] | type[DDPGHyper]] = {"ppol": PPOHyper, "ddpgl": DDPGHyper}

RATES: dict[tuple[str, str], tuple[float, float | None]] = {
    ("ppol", "constant"): (0.0005, None),
    ("ppol", "invlin"): (0.001, 3.0),
    ("ppol", "invqua"): (0.015, 6.0),
    ("ddpgl", "constant"): (0.0005, None),
    ("ddpgl", "invlin"): (0.003, 4.5),
    ("ddpgl", "invqua"): (0.045, 7.5),
}
"""h1 and h2 of the paper's figures, and the learning rate of its framework, by algorithm and rule."""

MAY_CHANGE = frozenset({"steps", "workers", "checkpoint_every", "keep", "eval_episodes", "eval_backend"})
"""What a resumed run may have otherwise than it was started with: none of it moves a weight."""

PROVENANCE = "provenance"
"""The key of ``config.json`` that says who made it; no part of the configuration."""


def _arg(metavar: str, default: str | None = None) -> Any:
    """How a field looks in ``--help``: its placeholder, and its default in words where it is no value."""
    hint = None if default is None else f"(default: {default})"
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=hint)


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides what a run computes, and how long and how safely."""

    env: Annotated[str, tyro.conf.Positional, _arg("ENV", "the run's, with --resume or --config")] = ""
    """Environment: an id of `papd envs`, any Gymnasium id, or "package.module:factory"."""
    backend: Backend = "bullet"
    """The real simulator, or its calibrated twin in JAX."""
    algo: Algo = "ppol"
    """PPO-Lagrangian or DDPG-Lagrangian."""
    lr: RateRule = "invqua"
    """How the policy's learning rate follows the multiplier."""
    h1: Annotated[float | None, _arg("X", "the paper's for the algorithm and rule")] = None
    """Numerator of the rate, or the constant rate itself."""
    h2: Annotated[float | None, _arg("X", "the paper's for the algorithm and rule")] = None
    """Added to the multiplier in the rate."""
    rate_weights: Annotated[tuple[float, ...], _arg("X ...")] = (1.0,)
    """Weight of each multiplier in the rate: one for all, or one per constraint."""
    multiplier: Annotated[
        MultiplierRule | None, _arg("{pid,ascent,fixed}", "fixed with --multiplier-fixed, else pid")
    ] = None
    """PID, projected gradient ascent, or held."""
    multiplier_fixed: Annotated[tuple[float, ...], _arg("X ...", "it moves")] = ()
    """Hold the multiplier here: one value for all constraints, or one each."""
    multiplier_step: Annotated[tuple[float, ...], _arg("X ...")] = (0.01,)
    """Step of the multiplier's gradient ascent."""
    multiplier_cap: Annotated[float | None, _arg("X", "none")] = None
    """The largest multiplier."""
    kp: Annotated[tuple[float, ...], _arg("X ...")] = (0.05,)
    """PID: proportional gain."""
    ki: Annotated[tuple[float, ...], _arg("X ...")] = (0.0005,)
    """PID: integral gain."""
    kd: Annotated[tuple[float, ...], _arg("X ...")] = (0.1,)
    """PID: derivative gain."""
    signed_derivative: bool = False
    """PID: a falling cost lowers the multiplier too, as the paper prints it (its framework: growth only)."""
    cost_limit: Annotated[tuple[float, ...], _arg("X ...")] = (10.0,)
    """The mean cost an episode may have: one limit for each constraint."""
    cost_keys: Annotated[tuple[str, ...], _arg("KEY ...", "the environment's own cost")] = ()
    """Keys of a step's info, one constraint each."""
    steps: Annotated[int, _arg("N")] = 1_000_000
    """Environment steps in all; 1e6 and 1_000_000 are understood."""
    seed: Annotated[int, _arg("N")] = 0
    """Seed of everything random."""
    workers: Annotated[int | None, _arg("N", "one a core")] = None
    """Processes that step a real environment; 0 steps it in this one."""
    checkpoint_every: Annotated[int, _arg("N")] = 0
    """Iterations between checkpoints; 0 writes one as often as it takes under a twentieth of the time."""
    keep: Annotated[int, _arg("N")] = 3
    """Checkpoints kept."""
    eval_episodes: Annotated[int, _arg("N")] = 20
    """Episodes of the evaluation when training is done; 0 for none."""
    eval_backend: Annotated[Backend | None, _arg("{bullet,twin}", "where the training was")] = None
    """Where that evaluation is."""
    hyper: Annotated[Hyper, tyro.conf.OmitArgPrefixes, tyro.conf.AvoidSubcommands] = field(
        default_factory=PPOHyper
    )
    """Hyper-parameters of the algorithm (those of DDPGL: papd train --algo ddpgl --help)."""

    def __post_init__(self) -> None:
        for check in (_check_choices, _check_rate, _check_multiplier, _check_counts):
            check(self)
        if not isinstance(self.hyper, HYPER[self.algo]):
            raise ConfigError(
                f"hyper is a {type(self.hyper).__name__}: {self.algo} has {HYPER[self.algo].__name__}"
            )

    def resolved(self) -> "RunConfig":
        """The same run with no default left to guess: what ``config.json`` holds."""
        if not self.env:
            raise ConfigError(
                "which environment? for example: papd train SafetyCarRun-v0 (papd envs lists them)"
            )
        h1, h2 = RATES[self.algo, self.lr]
        rule: MultiplierRule = self.multiplier or ("fixed" if self.multiplier_fixed else "pid")
        if rule == "fixed" and not self.multiplier_fixed:
            raise ConfigError(
                "multiplier='fixed' needs the value it is held at, for example --multiplier-fixed 1"
            )
        return dataclasses.replace(
            self,
            h1=h1 if self.h1 is None else self.h1,
            h2=h2 if self.h2 is None else self.h2,
            multiplier=rule,
            eval_backend=self.eval_backend or self.backend,
        )

    def identity(self) -> str:
        """A short name for what decides the weights: equal where one run may go on from the other's state."""
        deciding = {name: value for name, value in self.to_json().items() if name not in MAY_CHANGE}
        return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """The configuration as JSON values; :func:`from_mapping` reads them back."""
        return dataclasses.asdict(self)


def _check_choices(config: RunConfig) -> None:
    for name, kind in (("backend", Backend), ("algo", Algo), ("lr", RateRule)):
        choices = kind.__args__  # type: ignore[attr-defined]
        if getattr(config, name) not in choices:
            raise ConfigError(f"{name}={getattr(config, name)!r}: {name} is one of {', '.join(choices)}")


def _check_rate(config: RunConfig) -> None:
    for name in ("h1", "h2"):
        value = getattr(config, name)
        if value is not None and not (math.isfinite(value) and value > 0):
            raise ConfigError(f"{name}={value}: {name} must be a finite number > 0")
    if config.lr == "constant" and config.h2 is not None:
        raise ConfigError(f"h2={config.h2}: a constant rate has no h2; its value is h1")
    _check_values("rate_weights", config.rate_weights)


def _check_multiplier(config: RunConfig) -> None:
    for name in ("kp", "ki", "kd", "multiplier_step", "cost_limit"):
        _check_values(name, getattr(config, name))
    if config.multiplier_fixed:
        _check_values("multiplier_fixed", config.multiplier_fixed)
        if config.multiplier in ("pid", "ascent"):
            raise ConfigError(
                f"multiplier={config.multiplier!r} moves it, multiplier_fixed holds it: leave one of them out"
            )
    if config.multiplier_cap is not None and not config.multiplier_cap > 0:
        raise ConfigError(f"multiplier_cap={config.multiplier_cap}: the largest multiplier must be > 0")


def _check_values(name: str, values: tuple[float, ...]) -> None:
    if not values or not all(math.isfinite(value) and value >= 0 for value in values):
        shown = " ".join(map(str, values)) or "nothing"
        raise ConfigError(f"{name}={shown}: {name} must be one or more finite numbers >= 0")


def _check_counts(config: RunConfig) -> None:
    least = {"steps": 1, "seed": 0, "workers": 0, "checkpoint_every": 0, "keep": 1, "eval_episodes": 0}
    for name, minimum in least.items():
        value = getattr(config, name)
        if value is not None and value < minimum:
            raise ConfigError(f"{name}={value}: {name} must be a whole number >= {minimum}")
    if config.seed >= 2**32:
        raise ConfigError(f"seed={config.seed}: a seed is below 2**32")


def from_mapping(values: Mapping[str, Any], *, where: str = "") -> RunConfig:
    """A configuration from the values of a file: hyper-parameters beside the rest, or in a ``hyper`` table.

    A name that no field has, or a wrong value, is a :class:`ConfigError` that begins with ``where``.
    """
    try:
        return _from_mapping(values)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}" if where else str(error)) from error


def _from_mapping(values: Mapping[str, Any]) -> RunConfig:
    top = {name.replace("-", "_"): value for name, value in values.items() if name != PROVENANCE}
    hyper = top.pop("hyper", {})
    if not isinstance(hyper, Mapping):
        raise ConfigError(f"hyper={hyper!r}: hyper is a table of hyper-parameters")
    algo = top.get("algo", "ppol")
    if not isinstance(algo, str) or algo not in HYPER:
        raise ConfigError(f"algo={algo!r}: algo is one of {', '.join(HYPER)}")
    own = {f.name for f in dataclasses.fields(HYPER[algo])}
    inner = {
        **{n: top.pop(n) for n in list(top) if n in own},
        **{n.replace("-", "_"): hyper[n] for n in hyper},
    }
    also_known = tuple(own)
    arguments = coerce_fields(RunConfig, top, known=also_known)
    return RunConfig(**arguments, hyper=HYPER[algo](**coerce_fields(HYPER[algo], inner)))


def read_config(path: Path) -> dict[str, Any]:
    """The values of a TOML or JSON configuration file, by its ending."""
    if path.suffix == ".json":
        values = read_json(path)
    elif path.suffix == ".toml":
        try:
            values = tomllib.loads(read_bytes(path).decode())
        except ValueError as error:
            raise ConfigError(f"{path} is no valid TOML: {error}") from error
    else:
        raise ConfigError(f"{path}: a configuration is a .toml or .json file")
    if not isinstance(values, dict):
        raise ConfigError(f"{path} holds no table of names and values")
    return values


def under_flags(base: Mapping[str, Any], given: Mapping[str, list[str]]) -> dict[str, Any]:
    """``base`` as the defaults of a command line on which the options ``given`` stand.

    What belongs to a value that a flag replaces goes with it: h1 and h2 to the algorithm and the rule, the
    hyper-parameters to the algorithm, the multiplier's held value to its rule.
    """
    values = {name.replace("-", "_"): value for name, value in base.items()}

    def replaced(name: str) -> bool:
        return name in given and given[name] != [values.get(name)]

    if replaced("algo") or replaced("lr"):
        values.pop("h1", None)
        values.pop("h2", None)
    if replaced("algo"):
        values.pop("hyper", None)
    if "multiplier" in given or "multiplier_fixed" in given:
        values.pop("multiplier", None)
        values.pop("multiplier_fixed", None)
    if replaced("backend") and values.get("eval_backend") == values.get("backend"):
        values.pop("eval_backend", None)
    values.update({name: given[name][0] for name in ("algo", "lr") if given.get(name)})
    return values


def default_folder(config: RunConfig) -> Path:
    """Where a run goes that names no folder, before a number is added to a name that is taken."""
    env = re.sub(r"[^A-Za-z0-9_.-]+", "-", config.env).strip("-.") or "run"
    return Path("runs") / f"{env}-{config.backend}-{config.algo}-{config.lr}-seed{config.seed}"
