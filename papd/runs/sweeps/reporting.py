"""What a run of a sweep tells while it goes, as JSON values, and the evaluation that ends it."""

import time
from collections.abc import Callable
from typing import Any, final

from papd.envs.sources import find
from papd.runs.agent import Agent
from papd.runs.config import RunConfig
from papd.runs.metrics import Row
from papd.runs.progress import Progress

EVALUATION = "papd.results.evaluation:evaluate"
"""The evaluation that ends a run stands in a room above this one: it is named here, and found by its name."""

TELL_EVERY_SECONDS = 0.5

Tell = Callable[[dict[str, Any]], None]


def evaluate(agent: Agent, config: RunConfig) -> dict[str, Any]:
    """The last policy, as the configuration wants it evaluated."""
    result = find(EVALUATION)(agent, config.eval_episodes, config.eval_backend, workers=config.workers)
    values: dict[str, Any] = result.to_json()
    return values


def one_line(error: Exception) -> str:
    """What an error says, without line breaks."""
    return " ".join(str(error).split())


@final
class Reporter(Progress):
    """Tells how far a run is, no more often than ``every`` so many seconds."""

    def __init__(self, run: str, tell: Tell, every: float = TELL_EVERY_SECONDS):
        self._run, self._tell, self._every = run, tell, every
        self._row: Row | None = None
        self._told_at, self._told_steps = time.perf_counter(), 0

    def begin(self, env_steps: int) -> None:
        """It goes on from here."""
        self._told_at, self._told_steps = time.perf_counter(), env_steps
        self._tell({"event": "begun", "run": self._run, "env_steps": env_steps})

    def update(self, row: Row) -> None:
        """Tell it, if it is time."""
        self._row = row
        if time.perf_counter() - self._told_at >= self._every:
            self.close()

    def note(self, text: str) -> None:
        """Something that happened."""
        self._tell({"event": "note", "text": f"{self._run}: {text}"})

    def close(self) -> None:
        """Tell what was not told yet."""
        if self._row is not None:
            now, env_steps = time.perf_counter(), int(self._row["env_steps"])
            covered, seconds = env_steps - self._told_steps, now - self._told_at
            self._told_at, self._told_steps = now, env_steps
            values = {name: self._row[name] for name in ("env_steps", "return_mean", "cost_mean")}
            self._tell({"event": "row", "run": self._run, "covered": covered, "seconds": seconds, **values})
        self._row = None
