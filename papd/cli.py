"""The ``papd`` command: finds the subcommand, and tells a user's mistake in one line. It imports nothing heavy."""

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import papd
from papd.errors import ConfigError, PapdError, nearest
from papd.runs.folder import RunStoppedError


class Command(NamedTuple):
    """A subcommand, what it is for, and the file of the library that it needs."""

    name: str
    summary: str
    needs: str = "errors.py"

    @property
    def module(self) -> str:
        """The module whose ``main`` it is."""
        return f"papd.commands.{self.name}"

    def exists(self) -> bool:
        """Whether this installation has it. Nothing is imported to find out."""
        here = Path(__file__).parent
        return (here / self.needs).exists() and (here / "commands" / f"{self.name}.py").exists()


COMMANDS = (
    Command("train", "train a safe agent, or go on where a run stopped"),
    Command("eval", "play episodes with a run's policy: return and cost with intervals, a video"),
    Command("report", "one self-contained HTML page about any runs", "results/report.py"),
    Command("sweep", "many runs from one file, over cores or a cluster", "runs/sweep.py"),
    Command("paper", "the paper's figures and tables, run again", "results/paper.py"),
    Command("theory", "Algorithm 1 and the theorems, checked by machine", "results/theory.py"),
    Command("fidelity", "how true the twins are to the real simulator", "results/fidelity.py"),
    Command("bench", "how fast this machine learns and steps", "results/bench.py"),
    Command("envs", "the environments, with spaces, episode length and costs"),
    Command("completion", "a completion script for your shell"),
)


def main(words: Sequence[str] | None = None) -> None:
    """Run a command line and exit with its status."""
    # Our NumPy work is small; BLAS threads would only wait for each other, and every worker process would have its own.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(run(sys.argv[1:] if words is None else words))


def run(words: Sequence[str]) -> int:
    """Run a command line: 0 for success, 1 for a run that could not go on, 2 for a mistake of the user's."""
    try:
        return _dispatch(words)
    except PapdError as error:
        print(f"papd: {' '.join(str(error).split())}", file=sys.stderr)
        return 1 if isinstance(error, RunStoppedError) else 2
    except KeyboardInterrupt:
        print("papd: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # The reader has gone: papd envs | head -1
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _dispatch(words: Sequence[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(usage())
        return 0 if words else 2
    if words[0] in ("-V", "--version"):
        print(f"papd {papd.__version__}")
        return 0
    offered = {command.name: command for command in COMMANDS if command.exists()}
    if words[0] not in offered:
        what = "option" if words[0].startswith("-") else "command"
        raise ConfigError(f"unknown {what} {words[0]!r}{nearest(words[0], offered)}")
    status: int = importlib.import_module(offered[words[0]].module).main(words[1:])
    sys.stdout.flush()
    return status


def usage() -> str:
    """What ``papd --help`` prints."""
    lines = [f"  {command.name:<11} {command.summary}" for command in COMMANDS if command.exists()]
    return "\n".join(
        [
            "usage: papd COMMAND [OPTIONS]",
            "",
            "Safe reinforcement learning whose learning rate follows the Lagrange multiplier.",
            "",
            *lines,
            "",
            "papd COMMAND --help tells a command's options; papd --version the version.",
        ]
    )
