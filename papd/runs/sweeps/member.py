"""One run of a population: its directory, its rows and its checkpoints. While it trains, its state is a slice."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from papd.agents.state import TrainState
from papd.errors import PapdError
from papd.runs.agent import Agent, Row, from_config
from papd.runs.conduct import add_evaluation, open_run
from papd.runs.config import RunConfig
from papd.runs.folder import RunFolder, RunStoppedError
from papd.runs.logs import TensorBoard
from papd.runs.stored import check_stored, finished
from papd.runs.sweeps.reporting import Reporter, Tell, evaluate, one_line
from papd.runs.train import Run, summarise


def to_host(tree: Any) -> Any:
    """Arrays in the host's memory; random keys stay what they are."""
    return jax.tree.map(lambda leaf: leaf if _is_key(leaf) else np.asarray(leaf), tree)


def at(tree: Any, index: int) -> Any:
    """One member of a stacked tree, in memory of its own."""
    return jax.tree.map(lambda leaf: leaf[index] if _is_key(leaf) else np.array(leaf[index]), tree)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


class Member:
    """One run of a population; the caller holds the lock of its directory."""

    def __init__(self, path: Path, config: RunConfig, command: Sequence[str], tell: Tell, tell_every: float):
        self.name, self.config, self._folder = path.name, config, RunFolder(path)
        self._command, self._tell = command, tell
        self._reporter = Reporter(path.name, tell, tell_every)
        self._error: PapdError | None = None
        self.agent: Agent = from_config(config)
        self._state: Callable[[], TrainState] | None = None
        self._run: Run | None = None

    def open(self) -> bool:
        """Where it left off, or its beginning. A run that is finished is told, and not opened."""
        check_stored(self._folder, self.config, resume=True)
        summary = finished(self._folder, self.config)
        if summary is not None:
            self._ended(status="finished", env_steps=summary["env_steps"])
            return False
        self._run = open_run(self._folder, self.config, self, self._command, self._reporter)
        self._run.logs.append(TensorBoard(self._folder.path, after_steps=self._run.position.env_steps))
        return True

    @property
    def run(self) -> Run:
        """Its work on the directory, once it is open."""
        assert self._run is not None, "open it first"
        return self._run

    @property
    def state(self) -> TrainState:
        """The whole train state."""
        return self.agent.state if self._state is None else self._state()

    @state.setter
    def state(self, state: TrainState) -> None:
        self.agent.state, self._state = state, None

    def follow(self, state: Callable[[], TrainState]) -> None:
        """From now on the state is what this gives."""
        self._state = state

    def hold(self) -> None:
        """Its state is the one of this moment, however the population goes on."""
        if self._state is not None:
            self.state = self._state()

    def iterate(self) -> Row:
        """Not by itself."""
        raise TypeError(f"{self.name} goes on with its population")

    @property
    def is_active(self) -> bool:
        """Whether it still has steps to go, and can."""
        return self._error is None and self.run.position.env_steps < self.config.steps

    def begin(self) -> None:
        """Its population starts."""
        self._reporter.begin(self.run.position.env_steps)

    def take(self, row: Row, policy: Any, *, finite: bool) -> None:
        """The outcome of one iteration, whose episodes ``policy`` played."""
        if finite:
            self._guarded(lambda: self.run.record(row, policy))
            return
        self._error = RunStoppedError(
            f"{self.agent.env.name}: an observation, reward or cost of iteration {row['iteration']} is no finite "
            f"number; iteration {self.run.position.iteration} is saved"
        )
        with contextlib.suppress(PapdError):  # The first error is the one to tell.
            self.run.save_if_moved()

    def save(self, *, due: bool) -> None:
        """A checkpoint, where one is due for all or by its own count."""
        every = self.config.checkpoint_every
        if every:
            due = self.run.position.iteration % every == 0
        if due and not self.run.position.bad_iterations:
            self._guarded(self.run.save)

    def end(self, signal: int | None) -> None:
        """Checkpoint, summary, and the evaluation of a run that has all its steps."""
        if self._error is None:
            self._guarded(lambda: self._finish(signal))
        self._reporter.close()
        if self._error is None:
            status = "interrupted" if self.is_active else "finished"
            self._ended(status=status, env_steps=self.run.position.env_steps)
            return
        with contextlib.suppress(PapdError):  # A full disk may be what stopped it.
            summarise(self.run, "stopped", reason=str(self._error))
        self._ended(status="failed", reason=one_line(self._error), env_steps=self.run.position.env_steps)

    def close(self) -> None:
        """Close its files."""
        if self._run is not None:
            self._run.close()
        self.agent.close()

    def _finish(self, signal: int | None) -> None:
        self.run.save_if_moved()
        if self.is_active:
            summarise(self.run, "interrupted", signal=signal)
            return
        summarise(self.run, "finished")
        if self.config.eval_episodes:
            add_evaluation(self._folder, self.config, evaluate(self.agent, self.config))

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except PapdError as error:
            self._error = error

    def _ended(self, **told: Any) -> None:
        self._tell({"event": "ended", "run": self.name, **told})
