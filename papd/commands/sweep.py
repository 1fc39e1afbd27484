"""``papd sweep``: many runs from one spec, restartable, as fast as the machine or the cluster allows."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypedDict

import tyro

from papd.commands.parse import parse
from papd.commands.show import note, print_json, table
from papd.errors import ConfigError
from papd.runs.progress import clock
from papd.runs.sweep import Engine, Plan, Sweep, SweepResult, headline, plan_sweep, read_spec, run_sweep
from papd.runs.sweeps.index import INDEX, stored_sweep


def _arg(metavar: str, default: str) -> object:
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=f"(default: {default})")


@dataclass(frozen=True)
class Options:
    """Run every run that SPEC.toml describes: base configuration, axes, cases and seeds (docs/sweeps.md)."""

    spec: Annotated[
        Path | None, tyro.conf.Positional, _arg("SPEC.toml", "the sweep in --out, with --resume")
    ] = None
    """The spec."""
    out: Annotated[Path | None, _arg("DIR", "runs/<name of the spec>")] = None
    """The folder: a run directory for each run."""
    resume: bool = False
    """Finish what is missing of the sweep in DIR; begin where there is none."""
    engine: Engine = "local"
    """local: a process a core, or one vmap, whichever is faster here; or one of these by its name; or ray."""
    workers: Annotated[int | None, _arg("N", "one a core; with ray, all that the cluster has")] = None
    """Runs at a time."""
    ray_address: Annotated[
        str | None, _arg("HOST:PORT", "a cluster of this machine alone, or $RAY_ADDRESS")
    ] = None
    """The Ray cluster; auto for one that runs on this machine."""
    ray_gpus: float = 0.0
    """What each run takes of a GPU on a Ray cluster: 0.25, and four share one."""
    dry_run: bool = False
    """Check, measure and print the plan; start nothing."""
    quiet: bool = False
    """No progress."""
    json: bool = False
    """Print the outcome (or the plan) as JSON."""


class _Where(TypedDict):
    engine: Engine
    resume: bool
    workers: int | None
    address: str | None
    gpus: float


def main(words: Sequence[str]) -> int:
    """Run the command: 0 when all runs are finished, 1 when some failed, 128 + n for signal n."""
    options = parse(Options, words, prog="papd sweep", default=Options())
    sweep, folder = _choose(options)
    where: _Where = {
        "engine": options.engine,
        "resume": options.resume,
        "workers": options.workers,
        "address": options.ray_address,
        "gpus": options.ray_gpus,
    }
    if options.dry_run:
        plan = plan_sweep(sweep, folder, **where)
        print_json(plan.to_json()) if options.json else print(show_plan(plan))
        return 0
    result = run_sweep(sweep, folder, **where, quiet=options.quiet, command=["papd", "sweep", *words])
    print_json(result.to_json()) if options.json else print(show_result(result))
    return _status(result, _again(options, folder))


def _status(result: SweepResult, again: str) -> int:
    if result.signal is not None:
        note(f"stopped; go on with: {again}")
        return 128 + result.signal
    if result.failed:
        note(f"to try the failed runs again: {again}")
    return int(not result.finished)


def _choose(options: Options) -> tuple[Sweep, Path]:
    """The sweep and its folder; with ``--resume``, the folder alone knows its sweep."""
    if options.spec is not None:
        sweep = read_spec(options.spec)
        return sweep, options.out or Path("runs") / sweep.name
    if options.resume and options.out is not None:
        return stored_sweep(options.out), options.out
    raise ConfigError(
        "which sweep? papd sweep SPEC.toml, or papd sweep --resume --out DIR for one that was begun"
    )


def _again(options: Options, folder: Path) -> str:
    words = ["papd", "sweep", "--resume", "--out", str(folder)]
    words += ["--engine", options.engine] if options.engine != "local" else []
    words += ["--ray-address", options.ray_address] if options.ray_address else []
    words += ["--ray-gpus", f"{options.ray_gpus:g}"] if options.ray_gpus else []
    return shlex.join(words)


def show_plan(plan: Plan) -> str:
    """The runs, and what they come to."""
    engine_of = {run["name"]: run["engine"] for run in plan.to_json()["runs"]}
    rows = [("run", "steps", "engine")]
    rows += [(run.name, f"{run.config.steps:,}", engine_of[run.name] or "finished") for run in plan.runs]
    return f"{table(rows, left=(0, 2))}\n\n{headline(plan)}"


def show_result(result: SweepResult) -> str:
    """How many runs are in which state, and why some failed."""
    values = result.to_json()
    counts = [
        f"{values[state]} {state}"
        for state in ("finished", "failed", "interrupted", "waiting")
        if values[state]
    ]
    speed = f"{values['steps_per_second']:,.0f} steps/s"
    lines = [
        f"{result.folder / INDEX}: {', '.join(counts)}; {result.steps:,} steps in {clock(result.seconds)}, {speed}"
    ]
    lines += [f"  {name}: {reason}" for name, reason in result.failed.items()]
    return "\n".join(lines)
