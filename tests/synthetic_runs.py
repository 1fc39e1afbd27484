"""Run directories as training writes them, without training: for the tests of what reads them."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

COLUMNS = [
    "iteration",
    "env_steps",
    "episodes",
    "return_mean",
    "cost_mean",
    "multiplier",
    "learning_rate",
    "policy_loss",
    "critic_loss",
    "kl",
    "entropy",
    "updates",
    "skipped_updates",
    "faults",
    "steps_per_second",
    "wall_seconds",
]

CONFIG: dict[str, Any] = {
    "env": "SafetyCarRun-v0",
    "backend": "twin",
    "algo": "ppol",
    "lr": "invqua",
    "h1": 0.015,
    "h2": 6.0,
    "multiplier": "pid",
    "kp": [0.05],
    "cost_limit": [10.0],
    "steps": 1_000_000,
    "seed": 0,
    "hyper": {"hidden_sizes": [128, 128], "gamma": 0.99},
}

RULES: dict[str, dict[str, Any]] = {
    "invlin": {"lr": "invlin", "h1": 0.001, "h2": 3.0},
    "invqua": {"lr": "invqua", "h1": 0.015, "h2": 6.0},
    "constant": {"lr": "constant", "h1": 0.0005, "h2": None},
}
POWER = {"constant": 0, "invlin": 1, "invqua": 2}


def write_run(
    folder: Path,
    config: Mapping[str, Any] | None = None,
    *,
    iterations: int = 50,
    steps_per_iteration: int = 4000,
    final_return: float = 500.0,
    final_cost: float = 9.0,
) -> Path:
    """A run whose return rises to ``final_return`` and whose cost overshoots, then nears ``final_cost``."""
    whole = {**CONFIG, **(config or {})}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(whole, indent=2))
    random = np.random.default_rng(whole["seed"])
    with open(folder / "metrics.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for index in range(1, iterations + 1):
            writer.writerow(
                _row(index, iterations, steps_per_iteration, whole, random, final_return, final_cost)
            )
    return folder


def _row(
    index: int,
    iterations: int,
    steps: int,
    config: Mapping[str, Any],
    random: np.random.Generator,
    final_return: float,
    final_cost: float,
) -> list[str]:
    time = index / iterations
    noise = random.normal(size=2) * (1.0 - time)
    value = final_return * (1.0 - np.exp(-6.0 * time)) + 10.0 * noise[0]
    cost = max(
        0.0, final_cost + 60.0 * time * np.exp(-8.0 * time) * 4.0 + 3.0 * noise[1] - 5.0 * np.exp(-30 * time)
    )
    multiplier = 0.05 * max(0.0, cost - 10.0)
    rate = config["h1"] / (multiplier + (config["h2"] or 1.0)) ** POWER[config["lr"]]
    numbers = [value, cost, multiplier, rate, -0.01, 1.0, 0.01, 1.2]
    return [
        str(index),
        str(index * steps),
        str(index * 20),
        *(f"{number:.9g}" for number in numbers),
        str(index * 64),
        "0",
        "0",
        f"{50_000 + 1000 * random.random():.9g}",
        f"{index * 0.08:.9g}",
    ]


def write_sweep(
    folder: Path,
    *,
    environments: tuple[str, ...] = ("SafetyBallRun-v0", "SafetyCarRun-v0"),
    rules: tuple[str, ...] = ("invlin", "invqua", "constant"),
    seeds: int = 5,
    iterations: int = 50,
) -> list[Path]:
    """environments x rules x seeds, one folder deep each."""
    runs = []
    for env in environments:
        for place, rule in enumerate(rules):
            for seed in range(seeds):
                target = folder / env / rule / f"seed{seed}"
                config = {**RULES[rule], "env": env, "seed": seed}
                final = {
                    "final_return": 500.0 - 20.0 * place + seed,
                    "final_cost": 8.5 + place * 0.4 * (seed + 1),
                }
                runs.append(write_run(target, config, iterations=iterations, **final))
    return runs
