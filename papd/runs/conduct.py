"""One run from its beginning, or where it stopped, to its end: agent, directory, logs, summary, evaluation.

The command and the workers of a sweep both conduct their runs by this. The caller holds the directory's lock.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from papd.errors import RunError
from papd.runs.agent import Agent, from_config
from papd.runs.config import RunConfig
from papd.runs.folder import RunFolder, RunStoppedError
from papd.runs.logs import Log
from papd.runs.progress import Progress
from papd.runs.provenance import provenance
from papd.runs.stored import evaluated_as
from papd.runs.train import Run, Stop, Trainable, summarise, train

Evaluate = Callable[[Agent, RunConfig], dict[str, Any]]
"""Plays the evaluation that ends a run: its result as JSON values."""


def conduct(
    folder: RunFolder,
    config: RunConfig,
    *,
    command: Sequence[str],
    progress: Progress,
    stop: Stop,
    begun: Callable[[int], Sequence[Log]],
    evaluate: Evaluate,
) -> dict[str, Any]:
    """Train until the end or a signal and write ``summary.json``, whose values are returned.

    ``begun`` is told the steps already done and answers with the logs to write. A run that cannot go on leaves its
    summary and raises :class:`RunStoppedError`.
    """
    with stop:  # Building and compiling are no place for an exception.
        made = from_config(config)
    with contextlib.closing(made) as agent:
        with stop, contextlib.closing(open_run(folder, config, agent, command, progress)) as run:
            run.logs += begun(run.position.env_steps)
            summary = _train(run, stop)
        if summary["status"] == "finished" and config.eval_episodes:
            summary = add_evaluation(folder, config, evaluate(agent, config))
    return summary


def open_run(
    folder: RunFolder, config: RunConfig, agent: Trainable, command: Sequence[str], progress: Progress
) -> Run:
    """The run at its newest checkpoint, or its beginning, with ``config.json`` written."""
    fresh = not folder.config.exists()
    if fresh:
        write_config(folder, config, command, progress.note)
    run = Run(folder, config, agent, progress)
    if not fresh:  # Only now is it sure that the run can go on: a refusal changes nothing.
        write_config(folder, config, command, progress.note)
    return run


def add_evaluation(folder: RunFolder, config: RunConfig, evaluation: dict[str, Any]) -> dict[str, Any]:
    """Put the evaluation into ``summary.json``."""
    return folder.add_to_summary({"evaluation": evaluation, "evaluated_as": evaluated_as(config)})


def _train(run: Run, stop: Stop) -> dict[str, Any]:
    """Train to the end, to a signal, or to a fault; ``summary.json`` says which."""
    try:
        train(run, stop)
    except RunStoppedError as error:
        with contextlib.suppress(RunError):  # A full disk may be what stopped it.
            summarise(run, "stopped", reason=str(error))
        raise
    if stop.signal is not None:
        return summarise(run, "interrupted", signal=int(stop.signal))
    return summarise(run, "finished")


def write_config(
    folder: RunFolder, config: RunConfig, command: Sequence[str], note: Callable[[str], None]
) -> None:
    """``config.json``: who began the run, and each time that it went on."""
    now = provenance(command)
    if not folder.config.exists():
        folder.write_config(config.to_json(), now)
        return
    begun: dict[str, Any] = folder.read_config()["provenance"]
    for name, version in now["versions"].items():
        if begun.get("versions", {}).get(name) not in (version, None):
            note(f"begun with {name} {begun['versions'][name]}, goes on with {version}: numbers may differ")
    resumed = [
        *begun.get("resumed", []),
        {name: now[name] for name in ("command", "started", "papd", "git_commit")},
    ]
    folder.write_config(config.to_json(), {**begun, "resumed": resumed[-100:]})
