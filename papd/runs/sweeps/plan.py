"""From runs to jobs: which workers get what, in which order, and how long that will take."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from papd.errors import ConfigError
from papd.runs.sweeps.pool import Job, Pool, ask
from papd.runs.sweeps.spec import SweepRun


def in_order(runs: Sequence[SweepRun], speeds: Mapping[str, float]) -> list[SweepRun]:
    """Runs of one program after each other, so that a worker compiles it once; the longest work first."""
    groups = by_program(runs)
    slowest = min(speeds.values(), default=1.0)

    def seconds(run: SweepRun) -> float:
        return run.config.steps / speeds.get(run.program, slowest)

    ranked = sorted(groups.values(), key=lambda group: -max(map(seconds, group)))
    return [run for group in ranked for run in sorted(group, key=lambda run: -run.config.steps)]


def by_program(runs: Sequence[SweepRun]) -> dict[str, list[SweepRun]]:
    """Runs that share a compiled program."""
    groups: dict[str, list[SweepRun]] = defaultdict(list)
    for run in runs:
        groups[run.program].append(run)
    return groups


def job(kind: str, runs: Sequence[SweepRun], folder: Path, command: Sequence[str]) -> Job:
    """A job about runs of one program. Its values are JSON's."""
    return {
        "kind": kind,
        "program": runs[0].program,
        "runs": [run.name for run in runs],
        "configs": {run.name: run.config.to_json() for run in runs},
        "folder": str(folder.absolute()),
        "command": list(command),
    }


def check(pool: Pool, runs: Sequence[SweepRun]) -> None:
    """Make one agent of each kind; the first that cannot be made is a :class:`ConfigError`, and nothing was begun."""
    kinds = {(run.program, _sizes(run)): run for run in runs}
    groups = by_program(list(kinds.values()))
    answers = ask(pool, [job("check", group, Path(), ()) for group in groups.values()])
    for name, answer in answers.items():
        if answer["status"] == "failed":
            raise ConfigError(f"run {name!r}: {answer['reason']}")


def _sizes(run: SweepRun) -> tuple[int, ...]:
    """Whether the values that constraints have fit their number."""
    names = ("cost_limit", "rate_weights", "multiplier_fixed", "multiplier_step", "kp", "ki", "kd")
    return tuple(len(getattr(run.config, name)) for name in names)
