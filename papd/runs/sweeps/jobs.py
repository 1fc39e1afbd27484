"""What a worker does: train a run, try one out, or measure how fast one goes. Everything told is JSON values.

A job is a function of its own description and of what lies in the run's directory, so that any process on any
machine that sees the directory can do it, and go on with it where another one stopped.
"""

import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, final

import jax

from papd.envs.sources import find
from papd.errors import PapdError
from papd.runs.agent import Agent, from_config
from papd.runs.conduct import conduct
from papd.runs.config import RunConfig, from_mapping
from papd.runs.folder import RunFolder
from papd.runs.lock import locked
from papd.runs.logs import Log, TensorBoard
from papd.runs.metrics import Row
from papd.runs.progress import Progress
from papd.runs.stored import check_stored, finished
from papd.runs.train import Stop

EVALUATION = "papd.results.evaluation:evaluate"
"""The evaluation that ends a run stands in a room above this one: it is named here, and found by its name."""

TELL_EVERY_SECONDS = 0.5
MEASURE_SECONDS = 2.0
"""How long a measurement goes on after the program is compiled, at least one iteration."""

Tell = Callable[[dict[str, Any]], None]


def do(job: Mapping[str, Any], tell: Tell, stop: Stop) -> None:
    """Do a job; what a user can mend is told as a failure, in one line."""
    try:
        _JOBS[job["kind"]](job, tell, stop)
    except PapdError as error:
        for run in job["runs"]:
            tell({"event": "ended", "run": run, "status": "failed", "reason": " ".join(str(error).split())})


def train_run(job: Mapping[str, Any], tell: Tell, stop: Stop) -> None:
    """Begin a run or go on with it, unless it is finished already."""
    (run,) = job["runs"]
    config = from_mapping(job["configs"][run])
    folder = RunFolder(Path(job["folder"]) / run)
    reporter = Reporter(run, tell)

    def begun(env_steps: int) -> list[Log]:
        reporter.begin(env_steps)
        return [TensorBoard(folder.path, after_steps=env_steps)]

    with locked(folder.path):
        check_stored(folder, config, resume=True)
        summary = finished(folder, config) or conduct(
            folder,
            config,
            command=job["command"],
            progress=reporter,
            stop=stop,
            begun=begun,
            evaluate=evaluate,
        )
    reporter.close()
    tell({"event": "ended", "run": run, "status": summary["status"], "env_steps": summary["env_steps"]})


def check_run(job: Mapping[str, Any], tell: Tell, stop: Stop) -> None:
    """Make the agent of a configuration: what is wrong with it or its environment shows before anything starts."""
    for run, config in job["configs"].items():
        from_config(from_mapping(config)).close()
        tell({"event": "ended", "run": run, "status": "checked"})


def measure_run(job: Mapping[str, Any], tell: Tell, stop: Stop) -> None:
    """Steps a second of a configuration on this worker, and the seconds that it takes to get going."""
    (run,) = job["runs"]
    began = time.perf_counter()
    with contextlib.closing(from_config(from_mapping(job["configs"][run]))) as agent:
        agent.iterate()
        compiled, before = time.perf_counter(), agent.env_steps
        while time.perf_counter() - compiled < MEASURE_SECONDS and stop.signal is None:
            agent.iterate()
        speed = (agent.env_steps - before) / (time.perf_counter() - compiled)
    told = {"steps_per_second": speed, "start_seconds": compiled - began}
    tell({"event": "ended", "run": run, "status": "measured", **told})


def evaluate(agent: Agent, config: RunConfig) -> dict[str, Any]:
    """The last policy, as the configuration wants it evaluated."""
    result = find(EVALUATION)(agent, config.eval_episodes, config.eval_backend, workers=config.workers)
    values: dict[str, Any] = result.to_json()
    return values


@final
class Reporter(Progress):
    """Tells how far a run is, now and then."""

    def __init__(self, run: str, tell: Tell):
        self._run, self._tell = run, tell
        self._row: Row | None = None
        self._told_at, self._told_steps = time.perf_counter(), 0

    def begin(self, env_steps: int) -> None:
        """It goes on from here."""
        self._told_at, self._told_steps = time.perf_counter(), env_steps
        self._tell({"event": "begun", "run": self._run, "env_steps": env_steps})

    def update(self, row: Row) -> None:
        """Tell it, if it is time."""
        self._row = row
        if time.perf_counter() - self._told_at >= TELL_EVERY_SECONDS:
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


def forget_programs() -> None:
    """Let go of compiled programs: the next runs have another one."""
    jax.clear_caches()  # type: ignore[no-untyped-call]


_JOBS: Mapping[str, Callable[[Mapping[str, Any], Tell, Stop], None]] = {
    "train": train_run,
    "check": check_run,
    "measure": measure_run,
}
