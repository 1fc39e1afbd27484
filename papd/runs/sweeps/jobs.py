"""What a worker does: train runs, make their agents, or measure how fast they go. Everything told is JSON values.

A job is a function of its own description and of what lies in the run's directory, so that any process on any
machine that sees the directory can do it, and go on with it where another one stopped.
"""

import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax

from papd.envs.cmdp import CMDP
from papd.errors import PapdError
from papd.runs.agent import from_config
from papd.runs.conduct import conduct
from papd.runs.config import from_mapping
from papd.runs.folder import RunFolder
from papd.runs.lock import locked
from papd.runs.logs import Log, TensorBoard
from papd.runs.stored import check_stored, finished
from papd.runs.sweeps.population import measure_population, train_population
from papd.runs.sweeps.reporting import Reporter, Tell, evaluate, one_line
from papd.runs.train import Stop

MEASURE_SECONDS = 2.0
"""How long a measurement goes on after the program is compiled, at least one iteration."""


def do(job: Mapping[str, Any], tell: Tell, stop: Stop) -> None:
    """Do a job; what a user can mend is told as a failure, in one line."""
    try:
        _JOBS[job["kind"]](job, tell, stop)
    except PapdError as error:
        for run in job["runs"]:
            tell({"event": "ended", "run": run, "status": "failed", "reason": one_line(error)})


def train_run(job: Mapping[str, Any], tell: Tell, stop: Stop) -> None:
    """Begin a run or go on with it, unless it is finished already."""
    (run,) = job["runs"]
    config = from_mapping(job["configs"][run])
    folder = RunFolder(Path(job["folder"]) / run)
    reporter = Reporter(run, tell, job["tell_every"])

    def begun(env_steps: int) -> list[Log]:
        reporter.begin(env_steps)
        return [TensorBoard(folder.path, after_steps=env_steps)]

    with locked(folder.path, patience=job["patience"]):
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
        with contextlib.closing(from_config(from_mapping(config))) as agent:
            in_jax = isinstance(agent.env, CMDP)
        tell({"event": "ended", "run": run, "status": "checked", "in_jax": in_jax})


def measure_run(job: Mapping[str, Any], tell: Tell, stop: Stop) -> None:
    """Steps a second of a configuration on this worker, after the first iteration, which compiles."""
    (run,) = job["runs"]
    with contextlib.closing(from_config(from_mapping(job["configs"][run]))) as agent:
        agent.iterate()
        began, before = time.perf_counter(), agent.env_steps
        while time.perf_counter() - began < MEASURE_SECONDS and stop.signal is None:
            agent.iterate()
        speed = (agent.env_steps - before) / (time.perf_counter() - began)
    tell({"event": "ended", "run": run, "status": "measured", "steps_per_second": speed})


def measure_runs(job: Mapping[str, Any], tell: Tell, stop: Stop) -> None:
    """Steps a second of several runs as one population, all together."""
    agents = [from_config(from_mapping(config)) for config in job["configs"].values()]
    speed = measure_population(agents, MEASURE_SECONDS)
    for run in job["runs"]:
        tell({"event": "ended", "run": run, "status": "measured", "steps_per_second": speed})


def forget_programs() -> None:
    """Let go of compiled programs: the next runs have another one."""
    jax.clear_caches()  # type: ignore[no-untyped-call]


_JOBS: Mapping[str, Callable[[Mapping[str, Any], Tell, Stop], None]] = {
    "train": train_run,
    "train population": train_population,
    "check": check_run,
    "measure": measure_run,
    "measure population": measure_runs,
}
