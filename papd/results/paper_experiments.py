"""The paper's experiments by name: which file says what is run, and the cells of its table or figure. No JAX here."""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from papd.errors import ConfigError, RunError, nearest
from papd.results.figures import rule_label
from papd.runs.config import HYPER, MAY_CHANGE, Backend, RunConfig, read_config
from papd.runs.sweeps.spec import from_spec

SPECS = Path(str(resources.files("papd.results") / "experiments"))
"""Where the specs lie that the package brings."""

SHORT = {"SafetyBallRun-v0": "BallRun", "SafetyCarRun-v0": "CarRun"} | {
    "SafetyBallCircle-v0": "BallCircle",
    "SafetyCarCircle-v0": "CarCircle",
}
"""The paper's own abbreviations."""


@dataclass(frozen=True)
class Experiment:
    """A figure or a table of the paper."""

    name: str
    title: str
    shows: str
    """What the paper does there, in a sentence."""
    spec: str
    """The experiment whose runs it reads: its own name, or another's."""
    notes: tuple[str, ...] = ()
    """What must be known to hold ours next to the paper's."""
    timed: bool = False
    """Whether its runs are short ones, timed one after another."""
    beside: tuple[str, ...] = ()
    """Other experiments that its claims refer to."""


_STEPS = (
    "The paper does not say how many steps its runs had. These are the default budget of its framework: 1M, and 2M for "
    "CarCircle."
)
_FIFTY = (
    "Every mean cost in the paper's Tables 2 to 4 is a multiple of 0.02, as of 50 episodes, ten for each of the five "
    "seeds: the tables seem to be evaluations of final policies, not means over training. Ours are given both ways."
)
_BEST = "The paper's ± is the standard deviation with n - 1: its Table 3 follows from its Table 2 only so."

EXPERIMENTS = {
    each.name: each
    for each in (
        Experiment(
            "motivation",
            "Figure 1: the best rate depends on the multiplier",
            "PPOL on CarRun with the multiplier held at 1 and at 5, each with the constant rates 0.0003 and 0.0006.",
            "motivation",
            (_STEPS,),
        ),
        Experiment(
            "ppol",
            "Figure 2: PPO-Lagrangian with adaptive and with constant rates",
            "Return, cost and rate of PPOL on four environments: InvLin, InvQua and four constant rates.",
            "ppol",
            (
                _STEPS,
                "The paper gives these results as curves only: there is no number to hold ours against.",
            ),
        ),
        Experiment(
            "runtime",
            "Table 1: running time of PPO-Lagrangian",
            "Seconds that PPOL takes on four environments with InvLin, InvQua and four constant rates.",
            "runtime",
            (
                "The paper's machine is a Core i7-10750H with an RTX 3070; seconds of another machine say nothing by "
                "themselves, so the claim is about ratios within a machine.",
                "Ours are not those of the runs of Figure 2, which shared their machine with other work, but of the "
                "first steps of each case, timed one after another. What else the machine did meanwhile is measured: a "
                "run beside which others kept more than 0.05 cores busy is not used.",
                "What must be compiled or started is so before the clock starts.",
            ),
            timed=True,
        ),
        Experiment(
            "robust-h1",
            "Tables 2 and 3: robustness to H1 and H1'",
            "PPOL on CarRun with the constant rate, H1 and H1' scaled by the same eight factors.",
            "robust-h1",
            (_STEPS, _FIFTY, _BEST),
        ),
        Experiment(
            "robust-h2",
            "Table 4: robustness to H2 and H2'",
            "PPOL on CarRun with H2 and H2' scaled by four factors.",
            "robust-h2",
            (
                _STEPS,
                _FIFTY,
                "Over the five values of H2 that the paper prints (×1 is in its Table 2) its mean returns have a "
                "standard deviation of 4.9 for InvLin and 3.7 for InvQua, its mean costs of 2.4 and 3.1: by its own "
                "numbers InvQua is the more sensitive one in cost, but not in return.",
            ),
        ),
        Experiment(
            "ddpgl",
            "Figure 4, of the supplement: DDPG-Lagrangian with adaptive and with constant rates",
            "Return, cost and rate of DDPGL on four environments: InvLin, InvQua and constant rates.",
            "ddpgl",
            (
                "The paper's text gives neither the constant rates of this figure nor the steps. We take the constants "
                "of Figure 2, so that the two algorithms are compared over the same rates, and half of its steps.",
                "The critics keep their constant rate; only the policy's follows the rule.",
            ),
            beside=("ppol",),
        ),
    )
}


@dataclass(frozen=True)
class Cell:
    """One case of an experiment, that several seeds are run of."""

    config: RunConfig
    """Its configuration, with seed 0 and on the twin."""
    factor: float | None = None
    """What the baseline's H1 or H2 is multiplied by, in the robustness tables."""

    @cached_property
    def name(self) -> str:
        """What it is, fit for a file name: equal for the cells that experiments share."""
        return cell_name(self.config)

    @property
    def env(self) -> str:
        """The environment as the paper calls it."""
        return SHORT.get(self.config.env, self.config.env)

    @property
    def kind(self) -> str:
        """``constant``, ``invlin`` or ``invqua``."""
        return self.config.lr

    @property
    def rule(self) -> str:
        """``InvLin 0.001/3``."""
        return rule_label(self.config.lr, self.config.h1 or math.nan, self.config.h2)

    @property
    def held(self) -> float | None:
        """Where the multiplier is held, if it is."""
        return self.config.multiplier_fixed[0] if self.config.multiplier_fixed else None

    @property
    def label(self) -> str:
        """How a table names it."""
        if self.factor is not None:
            return f"×{self.factor:g} {self.rule}"
        return f"{self.env}, {self.rule}" + ("" if self.held is None else f", λ = {self.held:g}")

    def run(self, backend: Backend, seed: int, episodes: int = 20) -> RunConfig:
        """One run of it, evaluated over so many episodes where it was trained."""
        return dataclasses.replace(
            self.config, backend=backend, eval_backend=backend, seed=seed, eval_episodes=episodes
        )


@dataclass(frozen=True)
class Plan:
    """An experiment with its cells and seeds, as its file has them or as they were asked for."""

    experiment: Experiment
    cells: tuple[Cell, ...]
    seeds: tuple[int, ...]

    @property
    def name(self) -> str:
        """The experiment's."""
        return self.experiment.name

    @property
    def limit(self) -> float:
        """The cost limit, which all cells share."""
        return self.cells[0].config.cost_limit[0]

    def runs(self, backend: Backend, episodes: int = 20) -> dict[str, RunConfig]:
        """Every run by the name of its folder."""
        return {
            run_name(cell.name, backend, seed): cell.run(backend, seed, episodes)
            for cell in self.cells
            for seed in self.seeds
        }


def choose(names: Sequence[str]) -> list[Experiment]:
    """The experiments of these names; all of them for none."""
    for name in names:
        if name not in EXPERIMENTS:
            raise ConfigError(f"no experiment {name!r}{nearest(name, EXPERIMENTS)}")
    return [EXPERIMENTS[name] for name in EXPERIMENTS if name in names or not names]


def make_plan(
    experiment: Experiment, specs: Path = SPECS, *, seeds: int | None = None, steps: int | None = None
) -> Plan:
    """The plan of an experiment: what its file says, with another number of seeds or steps where given."""
    path = specs / f"{experiment.spec}.toml"
    if not path.is_file():
        raise RunError(f"{path} does not exist: a folder of experiments holds {experiment.spec}.toml")
    values = read_config(path)
    values = values if seeds is None else {**values, "seeds": seeds}
    sweep = from_spec({"name": path.stem, **values}, where=str(path))
    cells: dict[str, Cell] = {}
    for run in sweep.runs:
        config = dataclasses.replace(run.config, backend="twin", eval_backend="twin", seed=0)
        config = config if steps is None else dataclasses.replace(config, steps=steps)
        cell = Cell(config, _factor(run.labels))
        cells.setdefault(cell.name, cell)
    plan = Plan(experiment, tuple(cells.values()), tuple(sweep.seeds) or (0,))
    if len({cell.config.cost_limit for cell in plan.cells}) > 1 or len(plan.cells[0].config.cost_limit) > 1:
        raise ConfigError(f"{path}: the cells of an experiment share one cost limit")
    return plan


def _factor(labels: Mapping[str, str]) -> float | None:
    """0.2 for the cell ``x0.2-constant``."""
    found = re.match(r"x(\d+(?:\.\d+)?)-", labels.get("cell", ""))
    return float(found[1]) if found else None


def run_name(cell: str, backend: str, seed: int) -> str:
    """The folder of a run in the store."""
    return f"{cell}-{backend}-seed{seed}"


def cell_name(config: RunConfig) -> str:
    """Environment, algorithm and rule, then what is no default, then the steps."""
    numbers = [config.h1, config.h2] if config.h2 is not None else [config.h1]
    held = [f"held={_plain(config.multiplier_fixed)}"] if config.multiplier_fixed else []
    words = [SHORT.get(config.env, config.env), config.algo, config.lr, *map(_plain, numbers), *held]
    return "-".join([*words, *_other_fields(config), _count(config.steps)])


_TOLD = frozenset({"env", "algo", "lr", "h1", "h2", "backend", "seed", "multiplier_fixed"})
"""Fields that a cell's name has already, or that differ between its runs."""


def _other_fields(config: RunConfig) -> list[str]:
    default = RunConfig(env=config.env, algo=config.algo, lr=config.lr, hyper=HYPER[config.algo]())
    ours, usual = (_flat(each.resolved().to_json()) for each in (config, default))
    told = _TOLD | MAY_CHANGE | ({"multiplier"} if config.multiplier_fixed else set())
    names = [name for name in ours if name not in told and ours[name] != usual[name]]
    return [f"{name}={_plain(ours[name])}" for name in names]


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != "hyper"} | dict(values["hyper"])


def _plain(value: Any) -> str:
    """A value as a file name takes it; numbers without an exponent."""
    if isinstance(value, list | tuple):
        return "+".join(map(_plain, value))
    if isinstance(value, float):
        return f"{Decimal(repr(value)):f}".removesuffix(".0")
    return re.sub(r"[^A-Za-z0-9_.=+]+", "-", str(value))


def _count(steps: int) -> str:
    """1M, 500k, or the number itself."""
    for unit, letter in ((1_000_000, "M"), (1_000, "k")):
        if steps % unit == 0:
            return f"{steps // unit}{letter}"
    return str(steps)
