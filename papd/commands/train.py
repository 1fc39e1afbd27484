"""``papd train``: train a safe agent into a run directory, or go on where one stopped."""

import contextlib
import shlex
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from papd.commands.parse import Option, options_of, parse, split_words
from papd.commands.show import note, print_json
from papd.commands.training_table import training_table
from papd.errors import ConfigError, RunError
from papd.runs.config import (
    HYPER,
    RunConfig,
    default_folder,
    from_mapping,
    read_config,
    under_flags,
)
from papd.runs.folder import RunFolder, RunStoppedError, latest, next_free
from papd.runs.lock import locked
from papd.runs.logs import WandbMode
from papd.runs.stored import check_stored, finished

if TYPE_CHECKING:
    from papd.runs.agent import Agent
    from papd.runs.logs import Log

SUMMARY = "Train a safe agent, or go on where a run stopped"


@dataclass(frozen=True)
class Options:
    """Train a safe agent on ENV. The run goes into a directory that can be resumed, evaluated and reported."""

    run: Annotated[RunConfig, tyro.conf.OmitArgPrefixes] = field(default_factory=RunConfig)
    """The run: all of it may stand in a --config file too, where flags win."""
    out: Annotated[
        Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: runs/<what it is>)")
    ] = None
    """The run's directory."""
    resume: bool = False
    """Go on where the run in DIR stopped; begin where there is none."""
    config: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: none)")] = None
    """A .toml or .json file with any of the fields below; RUN/config.json repeats a run."""
    quiet: bool = False
    """No progress."""
    json: bool = False
    """Print the summary as JSON."""
    wandb: WandbMode = "off"
    """Log to Weights & Biases too (pip install 'papd[wandb]')."""
    require_limit: bool = False
    """Exit with 1 when the final evaluation breaks a cost limit."""


def main(words: Sequence[str]) -> int:
    """Run the command; the exit status is 0, 1 for a limit broken under ``--require-limit``, 128 + n for signal n."""
    options = read_options(words)
    config = options.run.resolved()
    path = _choose_folder(options, config)
    with locked(path):
        folder = RunFolder(path)
        check_stored(folder, config, resume=options.resume)
        summary = finished(folder, config) or _train(folder, config, options, words)
    if summary["status"] == "interrupted":
        note(f"stopped at iteration {summary['iterations']}; {_how_to_go_on(folder)}")
        return 128 + int(summary["signal"])
    if options.json:
        print_json(summary)
    else:
        print(training_table(folder.path, config, summary))
    broken = not summary.get("evaluation", {}).get("feasible", True)
    return int(options.require_limit and broken)


def read_options(words: Sequence[str]) -> Options:
    """The command line over the configuration file, or over the run that is resumed."""
    _, given, _ = split_words(every_option(), words)
    base = _base(given)
    default = _defaults(under_flags(base, given))
    own = tuple(options_of(Options, default))
    _check_own(given, own, default.run.algo)
    return parse(Options, words, prog="papd train", default=default)


def every_option() -> list[Option]:
    """The options of all algorithms."""
    return [option for algo in HYPER for option in options_of(Options, _defaults({"algo": algo}))]


def _defaults(values: Mapping[str, Any]) -> Options:
    return Options(run=from_mapping(values))


def _base(given: Mapping[str, list[str]]) -> dict[str, Any]:
    """What the flags stand over: the configuration file, the run to go on with, or nothing."""
    if given.get("config"):
        path = Path(given["config"][0])
        values = read_config(path)
        from_mapping(values, where=str(path))
        return values
    if "resume" in given and given.get("out"):
        folder = RunFolder(Path(given["out"][0]))
        return folder.read_config() if folder.config.exists() else {}
    return {}


def _check_own(given: Mapping[str, list[str]], own: Sequence[Option], algo: str) -> None:
    for name in given:
        if name not in {option.name for option in own}:
            raise ConfigError(
                f"--{name.replace('_', '-')} is no hyper-parameter of {algo}: papd train --algo {algo} --help"
            )


def _choose_folder(options: Options, config: RunConfig) -> Path:
    if options.out is not None:
        path = options.out
    else:
        path = latest(default_folder(config)) if options.resume else next_free(default_folder(config))
    if path.exists() and not path.is_dir():
        raise RunError(f"{path} is a file: --out names a directory")
    if not options.resume and RunFolder(path).holds_run():
        raise RunError(f"{path} holds another run: --resume goes on with it, or choose another --out")
    return path


def _train(folder: RunFolder, config: RunConfig, options: Options, words: Sequence[str]) -> dict[str, Any]:
    """Train and evaluate; JAX is first needed here."""
    from papd.runs.conduct import conduct
    from papd.runs.progress import Goal, make_progress
    from papd.runs.train import Stop

    goal = Goal(folder.path.name, config.steps, config.cost_limit)

    def begun(env_steps: int) -> "list[Log]":
        goal.begin(env_steps)
        return _logs(folder, config, options, env_steps)

    with contextlib.closing(make_progress(goal, quiet=options.quiet)) as progress:

        def stopping() -> None:
            # From here on Ctrl-C kills: as an exception it would get lost in JAX's callbacks.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            progress.stopping()

        try:
            return conduct(
                folder,
                config,
                command=["papd", "train", *words],
                progress=progress,
                stop=Stop(stopping),
                begun=begun,
                evaluate=_evaluate,
            )
        except RunStoppedError as error:
            raise RunStoppedError(f"{error}; {_how_to_go_on(folder)}") from error


def _evaluate(agent: "Agent", config: RunConfig) -> dict[str, Any]:
    """The last policy, on the backend that was asked for."""
    from papd.results.evaluation import evaluate

    return evaluate(agent, config.eval_episodes, config.eval_backend, workers=config.workers).to_json()


def _logs(folder: RunFolder, config: RunConfig, options: Options, env_steps: int) -> "list[Log]":
    from papd.runs.logs import TensorBoard, WeightsAndBiases

    logs: list[Log] = [TensorBoard(folder.path, after_steps=env_steps)]
    if options.wandb != "off":
        logs.append(WeightsAndBiases(folder.path, options.wandb, config.to_json()))
    return logs


def _how_to_go_on(folder: RunFolder) -> str:
    return f"go on with: papd train --out {shlex.quote(str(folder.path))} --resume"
