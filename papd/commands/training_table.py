"""The few lines that end a training: what the last tenth of it was like, and what the policy is worth."""

from pathlib import Path
from typing import Any

from papd.commands.show import interval, number, table
from papd.runs.config import RunConfig
from papd.runs.progress import clock

NAMES = {
    "constant": "constant rate",
    "invlin": "InvLin",
    "invqua": "InvQua",
    "ppol": "PPOL",
    "ddpgl": "DDPGL",
}


def training_table(path: Path, config: RunConfig, summary: dict[str, Any]) -> str:
    """Return, cost against the limit, multiplier, rate and speed of a finished run, with its evaluation."""
    where = "the real simulator" if config.backend == "bullet" else "its twin"
    head = (
        f"{config.env} on {where}, {NAMES[config.algo]}, {NAMES[config.lr]}, seed {config.seed}: "
        f"{summary['env_steps']:,} steps in {clock(summary['wall_seconds'])} ({path})"
    )
    evaluation = summary.get("evaluation")
    rows = [
        ["", "return", f"cost (limit {_limits(config)})", "multiplier", "rate", "steps/s"],
        _training(summary),
    ]
    if evaluation:
        rows.append([*evaluated(evaluation), "", "", ""])
    parts = [head, "", table(rows)]
    return "\n".join(parts if not evaluation else [*parts, "", verdict(evaluation)])


def _limits(config: RunConfig) -> str:
    return " + ".join(f"{limit:g}" for limit in config.cost_limit)


def _training(summary: dict[str, Any]) -> list[str]:
    last = summary["last_tenth"]
    return [
        "training, last tenth",
        number(last.get("return_mean"), 1),
        number(last.get("cost_mean"), 1),
        number(last.get("multiplier"), 3),
        "-" if last.get("learning_rate") is None else f"{last['learning_rate']:.2e}",
        number(last.get("steps_per_second"), 0),
    ]


def evaluated(evaluation: dict[str, Any]) -> list[str]:
    """What was evaluated, its return and its costs."""
    costs = " + ".join(interval(cost) for cost in evaluation["cost_mean"].values())
    how = "most likely actions" if evaluation["deterministic"] else "sampled actions"
    name = f"{evaluation['backend']}, {evaluation['episodes']} episodes, {how}"
    return [name, interval(evaluation["return_mean"]), costs]


def verdict(evaluation: dict[str, Any]) -> str:
    """One sentence: whether the policy keeps its limits, on average and in single episodes."""
    one = len(evaluation["cost_mean"]) == 1
    kept = "keeps" if evaluation["feasible"] else "BREAKS"
    what = "its limit" if one else "its limits"
    share = f"{evaluation['within_limit']:.0%} of the episodes are within {'it' if one else 'them'}"
    return f"On {evaluation['backend']} the policy {kept} {what} on average; {share}."
