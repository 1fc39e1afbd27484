"""The training loop of the command, and what it leaves on disk so that nothing is lost whenever it ends.

    agent.iterate()  ->  metrics row  ->  checkpoint, where one is due  ->  progress

A checkpoint is the agent's whole train state, the best policy so far and the position; resuming is loading it and
cutting ``metrics.csv`` back to it. An iteration is a function of the state: a resumed run repeats what was lost.
"""

import json
import math
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from types import FrameType
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np

from papd.errors import EnvironmentFault, RunError
from papd.runs.checkpoint import load_beside, load_tree, save_tree
from papd.runs.config import RunConfig
from papd.runs.files import remove_leftovers, write_json
from papd.runs.folder import RunFolder, RunStoppedError
from papd.runs.logs import Log
from papd.runs.metrics import MetricsFile, Row, last_tenth, read_metrics
from papd.runs.progress import Progress

CHECKPOINT_SHARE = 0.05
"""The share of the time that checkpoints may take where their number is left to us."""

BAD_ITERATIONS = 10
"""So many iterations in a row with an update skipped, because it was not finite, end a run."""


@runtime_checkable
class Trainable(Protocol):
    """What the loop needs of an agent: ``state.learner.policy`` are the policy's parameters."""

    state: Any

    def iterate(self) -> Row:
        """One iteration."""
        ...


@dataclass(frozen=True)
class Best:
    """The best policy so far, by an iteration's episodes: least violation of the limits, then most return."""

    iteration: int = 0
    violation: float = math.inf
    return_mean: float = -math.inf
    costs: tuple[float, ...] = ()

    def beaten_by(self, other: "Best") -> bool:
        """Whether ``other`` is better; a draw keeps the older."""
        return (other.violation, -other.return_mean) < (self.violation, -self.return_mean)


@dataclass(frozen=True)
class Position:
    """How far a run is: what a checkpoint's header holds beside the arrays."""

    iteration: int = 0
    env_steps: int = 0
    seconds: float = 0.0
    skipped_updates: int = 0
    faults: int = 0
    bad_iterations: int = 0
    best: Best = Best()

    def to_meta(self) -> dict[str, Any]:
        """JSON values, infinities as text."""
        return {"position": json.dumps(asdict(self))}

    @staticmethod
    def from_meta(meta: Mapping[str, Any]) -> "Position":
        """The inverse of :meth:`to_meta`."""
        values = json.loads(meta["position"])
        best = values.pop("best")
        return Position(**values, best=Best(**{**best, "costs": tuple(best["costs"])}))


class Stop:
    """Within this, Ctrl-C and SIGTERM ask the loop to stop after its iteration; a second does what it did before.

    ``asked`` is called in the first signal's handler.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, asked: Callable[[], None] = lambda: None) -> None:
        self.signal: int | None = None
        self._tell = asked
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Stop":
        self._before = {number: signal.signal(number, self._asked) for number in self.SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _asked(self, number: int, _: FrameType | None) -> None:
        self.signal = number
        self._restore()
        self._tell()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


class Run:
    """One process's work on a run directory, whose lock the caller holds."""

    def __init__(
        self,
        folder: RunFolder,
        config: RunConfig,
        agent: Trainable,
        progress: Progress,
    ):
        self.folder, self.config, self.agent, self.progress = folder, config, agent, progress
        self.logs: list[Log] = []
        self.position, self._best_policy, self._metrics = self._load()
        self._faults_before = self.position.faults
        self._saved, self._policies_saved = self.position.iteration, False
        self._save_seconds, self._saved_at = 0.0, time.perf_counter()
        self._began = time.perf_counter() - self.position.seconds
        self._row_at = time.perf_counter()

    def advance(self) -> None:
        """One iteration, its row, and its checkpoint where one is due."""
        policy = _copy(self.agent.state.learner.policy)
        self.record(self.agent.iterate(), policy)
        if self._checkpoint_due():
            self.save()

    def record(self, row: Row, policy: Any) -> None:
        """An iteration that is over: its row, and the ``policy`` that played its episodes, should it be the best."""
        row = {**row, "faults": row["faults"] + self._faults_before}
        self._move(row, policy)
        timed = self._timed(row)
        self._metrics.append(timed)
        for log in self.logs:
            log.write(timed)
        self.progress.update(timed)
        if self.position.bad_iterations >= BAD_ITERATIONS:
            good = f"iteration {self._saved} is saved" if self._saved else "none before them was good"
            raise RunStoppedError(
                f"the last {BAD_ITERATIONS} iterations had updates that were no finite numbers, which were skipped: "
                f"lower the rate (h1 is {self.config.h1:g}) or check the environment; {good}"
            )

    def save(self) -> None:
        """A checkpoint, after the rows that it counts on, then the policies that follow from it."""
        began = time.perf_counter()
        self.position = replace(self.position, seconds=began - self._began)
        iteration = self.position.iteration
        self._metrics.sync()
        about = {"identity": self.config.identity(), "metrics": self._metrics.digest}
        save_tree(
            self.folder.checkpoint(iteration),
            self.agent.state,
            {**self.position.to_meta(), **about},
            {"best": self._best_policy},
        )
        self.folder.prune(self.config.keep)
        best = self.position.best
        save_tree(self.folder.policy, self.agent.state.learner.policy, {"iteration": iteration})
        save_tree(self.folder.best, self._best_policy, {"iteration": best.iteration})
        self._saved, self._policies_saved = iteration, True
        self._saved_at = time.perf_counter()
        self._save_seconds = self._saved_at - began

    def save_if_moved(self) -> None:
        """A checkpoint and the policies, unless this process wrote those of this iteration."""
        if self._saved != self.position.iteration or not self._policies_saved:
            self.save()

    def close(self) -> None:
        """Close the files and the logs."""
        self._metrics.close()
        for log in self.logs:
            log.close()

    def _load(self) -> tuple[Position, Any, MetricsFile]:
        """Where the newest usable checkpoint left off, or the beginning."""
        for folder in (self.folder.path, self.folder.checkpoints):
            remove_leftovers(folder)
        found, refused = self.folder.newest(self._load_checkpoint)
        for reason in refused:
            self.progress.note(f"{reason}; going on from the one before")
        if found is None:
            return Position(), _copy(self.agent.state.learner.policy), MetricsFile(self.folder.metrics)
        state, best, position, metrics = found
        self.folder.forget_after(position.iteration)
        self.agent.state = state
        return position, best, metrics

    def _load_checkpoint(self, iteration: int) -> tuple[Any, Any, Position, MetricsFile]:
        path = self.folder.checkpoint(iteration)
        state, meta = load_tree(path, self.agent.state)
        best = load_beside(path, "best", self.agent.state.learner.policy)
        if "position" not in meta:
            raise RunError(
                f"{path} was written by agent.save(): papd.load({str(self.folder.path)!r}) goes on with it"
            )
        if meta.get("identity") != self.config.identity():
            raise RunError(f"{path} belongs to another configuration than {self.folder.config}")
        return (
            state,
            best,
            Position.from_meta(meta),
            MetricsFile(self.folder.metrics, iteration, meta["metrics"]),
        )

    def _move(self, row: Row, policy: Any) -> None:
        """The position after an iteration whose episodes ``policy`` played."""
        now = self.position
        best = _score(row, self.config.cost_limit)
        if not now.best.beaten_by(best):
            best, policy = now.best, self._best_policy
        self._best_policy = policy
        bad = row["skipped_updates"] > now.skipped_updates
        self.position = Position(
            iteration=int(row["iteration"]),
            env_steps=int(row["env_steps"]),
            seconds=now.seconds,
            skipped_updates=int(row["skipped_updates"]),
            faults=int(row["faults"]),
            bad_iterations=now.bad_iterations + 1 if bad else 0,
            best=best,
        )
        self._covered = int(row["env_steps"]) - now.env_steps

    def _timed(self, row: Row) -> Row:
        before, self._row_at = self._row_at, time.perf_counter()
        speed = self._covered / (self._row_at - before)
        return {**row, "steps_per_second": speed, "wall_seconds": self._row_at - self._began}

    def _checkpoint_due(self) -> bool:
        if self.position.bad_iterations:
            return False
        if self.config.checkpoint_every:
            return self.position.iteration % self.config.checkpoint_every == 0
        return time.perf_counter() - self._saved_at >= self._save_seconds / CHECKPOINT_SHARE


def train(run: Run, stop: Stop) -> bool:
    """Iterate until the run's steps are done (True) or ``stop`` is asked for (False), and save the state."""
    try:
        while run.position.env_steps < run.config.steps and stop.signal is None:
            run.advance()
    except EnvironmentFault as error:
        run.save_if_moved()
        raise RunStoppedError(f"{error}; iteration {run.position.iteration} is saved") from error
    except RunError as error:
        raise error if isinstance(error, RunStoppedError) else RunStoppedError(str(error)) from error
    run.save_if_moved()
    return run.position.env_steps >= run.config.steps


def summarise(run: Run, status: str, **more: Any) -> dict[str, Any]:
    """Write ``summary.json``: how far, the means of the last tenth of training, the best policy."""
    rows = read_metrics(run.folder.metrics)
    position = run.position
    best = {**asdict(position.best), "costs": list(position.best.costs)} if position.best.iteration else None
    summary = {
        "status": status,
        **more,
        "iterations": position.iteration,
        "env_steps": position.env_steps,
        "wall_seconds": position.seconds,
        "cost_limit": list(run.config.cost_limit),
        "last_tenth": last_tenth(rows),
        "best": best,
    }
    write_json(run.folder.summary, summary)
    return summary


def _score(row: Row, limits: tuple[float, ...]) -> Best:
    """This iteration's episodes as a candidate for the best; one without a whole episode is none."""
    names = [name for name in row if name.startswith("cost_mean_")] or ["cost_mean"]
    each = limits if len(limits) == len(names) else limits * len(names)
    costs = tuple(float(row[name]) for name in names)
    violation = sum(max(0.0, cost - limit) for cost, limit in zip(costs, each, strict=True))
    if not math.isfinite(violation) or not math.isfinite(row["return_mean"]):
        return Best()
    return Best(int(row["iteration"]), violation, float(row["return_mean"]), costs)


def _copy(tree: Any) -> Any:
    """Values that stay when the agent gives its buffers away."""
    return jax.tree.map(lambda leaf: np.array(leaf), tree)
