"""A store of the paper's runs as training leaves it, without training: for tests of what measures and judges."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from papd.results.paper_experiments import Cell, Plan, run_name
from papd.runs.config import Backend
from tests.synthetic_runs import write_run

Ends = Callable[[Cell, int], tuple[float, float]]
"""Return and cost that a cell's run of a seed ends with."""


def plain(cell: Cell, seed: int) -> tuple[float, float]:
    """A little of everything: the rules differ, some runs are infeasible."""
    place = {"constant": 0.0, "invlin": 20.0, "invqua": 25.0}[cell.kind]
    return 500.0 + place + 3.0 * seed, 8.0 + 0.9 * seed - place / 20.0


def write_store(
    store: Path,
    plan: Plan,
    backend: Backend,
    seeds: Sequence[int],
    ends: Ends = plain,
    *,
    iterations: int = 30,
    episodes: int = 50,
) -> None:
    """A finished run of every cell and seed; a twin's policies are played in Bullet."""
    for cell in plan.cells:
        for seed in seeds:
            write_paper_run(
                store / run_name(cell.name, backend, seed),
                cell,
                backend,
                seed,
                ends(cell, seed),
                iterations,
                episodes,
            )


def write_paper_run(
    folder: Path,
    cell: Cell,
    backend: Backend,
    seed: int,
    end: tuple[float, float],
    iterations: int,
    episodes: int,
) -> None:
    """One finished run."""
    config = cell.run(backend, seed, episodes)
    value, cost = end
    steps = config.steps // iterations
    write_run(
        folder,
        config.to_json(),
        iterations=iterations,
        steps_per_iteration=steps,
        final_return=value,
        final_cost=cost,
    )
    told = {
        "format": 1,
        "papd": "0.1.0",
        "command": "papd paper",
        "started": "2026-11-19T20:00:00Z",
        "git_commit": "0123456789abcdef",
        "versions": {"jax": "0.10.2"},
        "processor": "test",
        "cores": 2,
    }
    (folder / "config.json").write_text(json.dumps({**config.to_json(), "provenance": told}))
    evaluation = {
        "episodes": episodes,
        "return_mean": {"estimate": value + 5.0},
        "cost_mean": {"cost": {"estimate": max(0.0, cost - 5.0)}},
    }
    summary = {
        "status": "finished",
        "iterations": iterations,
        "env_steps": iterations * steps,
        "wall_seconds": 12.5,
        "evaluation": evaluation,
        "evaluated_as": {"backend": backend, "episodes": episodes},
    }
    # A run is finished that has all its steps.
    summary["env_steps"] = config.steps
    (folder / "summary.json").write_text(json.dumps(summary))
    (folder / "policy.safetensors").write_bytes(b"")
    if backend == "twin":
        (folder / "bullet.json").write_text(json.dumps({**evaluation, "iterations": iterations}))
