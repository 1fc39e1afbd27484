"""How true the twins are: single steps, whole episodes, reward and cost, beside fresh trajectories of the real ones."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from papd.envs.twins import TWINS, Twin, make_twin
from papd.envs.twins.calibrate import calibrate as calibrate_twins
from papd.envs.twins.drivers import controller, following, held, repeating
from papd.envs.twins.record import Driver, Recording, record
from papd.envs.twins.replay import Path as Track
from papd.envs.twins.replay import one_step, open_loop, real_path, real_states
from papd.envs.twins.tasks import Motion
from papd.errors import ConfigError, nearest
from papd.results.figures import BLUE, PAGE, STYLE, VERMILLION, save
from papd.runs.files import write_json

Policy = Callable[[np.ndarray], np.ndarray]
"""Gives the action, in the environment's units, for one observation."""

FIRST_SEED = 9_000
"""Fresh trajectories are seeded from here on, away from those of calibration."""

_SHOWN = {"Run": 4, "Circle": 2}
"""Trajectories in a panel of the picture: those of Circle go round and round."""


@dataclasses.dataclass(frozen=True)
class Fidelity:
    """One twin beside fresh real episodes of one driver."""

    env: str
    driver: str
    episodes: int
    seed: int
    velocity_error: tuple[float, float, float]
    """Root mean square of a single step's error: forwards (m/s), sideways (m/s), yaw rate (rad/s)."""
    typical_velocity_error: tuple[float, float, float]
    """The same as a median of sizes: what rare blows of a wall do not decide."""
    drift: tuple[float, float, float]
    """Quartiles of the distance between the ends of the real and the twin's episode under the same actions, both from
    the same start, as a share of the distance travelled."""
    repeat_drift: tuple[float, float, float]
    """The same between two real episodes with the same seed and actions, whose motors remember another past."""
    reward_error: float
    """The largest error of the twin's reward when it is fed the real states."""
    wrong_costs: float
    """Share of steps whose costs differ when the twin is fed the real states."""


@dataclasses.dataclass(frozen=True)
class Sample:
    """What the picture shows of one :class:`Fidelity`."""

    env: str
    driver: str
    real: Track
    twin: Track


@dataclasses.dataclass(frozen=True)
class Report:
    """What ``papd fidelity`` reports."""

    rows: tuple[Fidelity, ...]
    samples: tuple[Sample, ...]

    def to_json(self) -> list[dict[str, Any]]:
        """JSON values, a row each."""
        return [dataclasses.asdict(row) for row in self.rows]

    def table(self) -> str:
        """A Markdown table."""
        head = (
            "| Environment | Driver | Episodes | One step: forwards m/s | sideways m/s | yaw rad/s "
            "| Drift, median (quartiles) | Real against real | Reward error | Wrong costs |\n"
        )
        return head + "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n" + "".join(map(_line, self.rows))

    def figure(self) -> Figure:
        """Paths from above, real and twin: a row an environment, a column a driver."""
        return _draw(self.samples)

    def write(self, out: Path) -> list[Path]:
        """``fidelity.json``, ``fidelity.md`` and the picture as PDF, SVG and PNG."""
        write_json(out / "fidelity.json", self.to_json())
        (out / "fidelity.md").write_text(self.table())
        return [out / "fidelity.json", out / "fidelity.md", *save(self.figure(), out / "fidelity")]


def run_fidelity(
    ids: Sequence[str] = TWINS,
    *,
    episodes: int = 20,
    seed: int = FIRST_SEED,
    policies: Mapping[str, Mapping[str, Policy]] | None = None,
    calibrate: bool = False,
    workers: int = 2,
    say: Callable[[str], object] = print,
) -> Report:
    """Compare the twins of ``ids`` with ``episodes`` fresh real episodes for each driver.

    ``policies`` are trained policies by environment and name, beside the held random actions and the controller that
    every twin is driven by. ``calibrate`` fits the twins' parameters anew first, and stores them.
    """
    for env_id in (*ids, *(policies or {})):
        if env_id not in TWINS:
            raise ConfigError(f"{env_id!r} has no twin{nearest(env_id, TWINS)}")
    if episodes < 1:
        raise ConfigError(f"episodes={episodes}: at least one real episode is needed")
    if calibrate:
        calibrate_twins(tuple(ids), workers=workers, say=say)
    results = []
    for env_id in ids:
        say(f"{env_id}: recording")
        for driver, (real, again) in _record(
            env_id, (policies or {}).get(env_id, {}), episodes, seed, workers
        ).items():
            results.append(compare(make_twin(env_id), real, again, driver, seed))
    return Report(tuple(row for row, _ in results), tuple(sample for _, sample in results))


def compare(twin: Twin, real: Recording, again: Recording, driver: str, seed: int) -> tuple[Fidelity, Sample]:
    """One twin beside one recording; ``again`` is the same episodes with another memory of the motors."""
    path, stepped, alone = real_path(real), one_step(twin, real), open_loop(twin, real)
    errors = [
        (getattr(stepped, name) - getattr(path, name)[:, 1:]).ravel()
        for name in ("forwards", "sideways", "yaw_rate")
    ]
    reward_error, wrong_costs = formula_errors(twin, real)
    row = Fidelity(
        env=real.env_id,
        driver=driver,
        episodes=real.episodes,
        seed=seed,
        velocity_error=_three(float(np.sqrt(np.mean(error**2))) for error in errors),
        typical_velocity_error=_three(float(np.median(np.abs(error))) for error in errors),
        drift=drift(path, alone, real.distance_travelled()),
        repeat_drift=drift(path, real_path(again), real.distance_travelled()),
        reward_error=reward_error,
        wrong_costs=wrong_costs,
    )
    return row, Sample(real.env_id, driver, path, alone)


def drift(one: Track, other: Track, distance: np.ndarray) -> tuple[float, float, float]:
    """Quartiles of the distance between two paths' ends, as a share of the distance travelled."""
    apart = np.hypot(one.x[:, -1] - other.x[:, -1], one.y[:, -1] - other.y[:, -1])
    return _three(
        float(value) for value in np.quantile(apart / np.maximum(distance, 1e-6), [0.25, 0.5, 0.75])
    )


def formula_errors(twin: Twin, real: Recording) -> tuple[float, float]:
    """The largest reward error, and the share of wrong costs, when the twin's formulas are fed the real states.

    The first step is left out: Run pays in it for what the reset's own simulation step moved, which no state shows.
    """
    states = real_states(real)
    action = np.clip(real.action, -1.0, 1.0)
    effort = -0.5 * np.linalg.norm(action, axis=-1) if "Ball" in real.env_id else np.zeros(action.shape[:2])
    x, y, velocity = states.x, states.y, real.velocity
    parts = (x[:, 1:], y[:, 1:], np.diff(x), np.diff(y), velocity[:, 1:, 0], velocity[:, 1:, 1], effort)
    motion = Motion(*(jnp.asarray(part[:, 1:], jnp.float32) for part in parts))
    reward = jax.vmap(jax.vmap(twin.task.reward))(motion)
    violations = jax.vmap(jax.vmap(twin.task.violations))(motion)
    wrong = np.zeros(reward.shape, bool)
    for part, violated in zip(twin.task.cost_parts, violations, strict=True):
        charged = real.costs.get(part, np.zeros_like(real.reward))[:, 1:]
        wrong |= np.asarray(violated) != (charged > 0.0)
    return float(np.abs(np.asarray(reward) - real.reward[:, 1:]).max()), float(wrong.mean())


def _record(
    env_id: str, policies: Mapping[str, Policy], episodes: int, seed: int, workers: int
) -> dict[str, tuple[Recording, Recording]]:
    """By driver: the real episodes, and the same again. What can be sent to other processes is recorded there."""
    recorded = {}
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        names = ("held", "controller")
        futures = {name: pool.submit(_record_pair, env_id, name, episodes, seed) for name in names}
        for name, policy in policies.items():
            recorded[name] = _pair(env_id, following(policy), episodes, seed)
        return {name: future.result() for name, future in futures.items()} | recorded


def _record_pair(env_id: str, driver: str, episodes: int, seed: int) -> tuple[Recording, Recording]:
    return _pair(env_id, held if driver == "held" else controller(env_id), episodes, seed)


def _pair(env_id: str, driver: Driver, episodes: int, seed: int) -> tuple[Recording, Recording]:
    real = record(env_id, driver, episodes, seed)
    return real, record(env_id, repeating(real.action), episodes, seed, warm_up=10)


def _three(values: Any) -> tuple[float, float, float]:
    first, second, third = values
    return first, second, third


def _line(row: Fidelity) -> str:
    low, middle, high = (100.0 * value for value in row.drift)
    speeds = " | ".join(f"{value:.4f}" for value in row.velocity_error)
    return (
        f"| {row.env} | {row.driver} | {row.episodes} | {speeds} | {middle:.2g}% ({low:.2g} to {high:.2g}) "
        f"| {100.0 * row.repeat_drift[1]:.2g}% | {row.reward_error:.1g} | {100.0 * row.wrong_costs:.2g}% |\n"
    )


def _draw(samples: Sequence[Sample]) -> Figure:
    envs = list(dict.fromkeys(sample.env for sample in samples))
    drivers = list(dict.fromkeys(sample.driver for sample in samples))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(PAGE, 1.9 * len(envs) + 0.4), layout="constrained")
        axes = figure.subplots(len(envs), len(drivers), squeeze=False)
        for axis in axes.flat:
            axis.set_visible(False)
        for sample in samples:
            _draw_paths(axes[envs.index(sample.env), drivers.index(sample.driver)], sample)
        real, twin = axes[0, 0].plot([], [], "-", color=BLUE), axes[0, 0].plot([], [], "--", color=VERMILLION)
        figure.legend([*real, *twin], ["real", "twin"], loc="outside lower center", ncols=2, frameon=False)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return figure


def _draw_paths(axis: Axes, sample: Sample) -> None:
    axis.set_visible(True)
    shown = next(count for task, count in _SHOWN.items() if task in sample.env)
    for number in range(min(shown, sample.real.x.shape[0])):
        axis.plot(sample.real.x[number], sample.real.y[number], "-", color=BLUE, lw=1.2)
        axis.plot(sample.twin.x[number], sample.twin.y[number], "--", color=VERMILLION, lw=0.9)
        axis.plot(sample.real.x[number, -1:], sample.real.y[number, -1:], "o", color=BLUE, ms=2.5)
        axis.plot(sample.twin.x[number, -1:], sample.twin.y[number, -1:], "o", color=VERMILLION, ms=2.0)
    if "Circle" in sample.env:
        axis.set_aspect("equal", adjustable="datalim")
        for sideline in (-6.0, 6.0):
            axis.axvline(sideline, color="black", ls=(0, (4, 2)), lw=0.6)
    else:
        for sideline in (-2.0, 2.0):
            axis.axhline(sideline, color="black", ls=(0, (4, 2)), lw=0.6)
    axis.set_title(f"{sample.env.removeprefix('Safety').removesuffix('-v0')}, {sample.driver}")
    axis.set_xlabel("x (m)")
    axis.set_ylabel("y (m)")
