"""The Ray engine: each job is a task of a Ray cluster, which runs it again where its worker or its node died.

    driver: tasks -> Ray's scheduler -> a worker process on some node -> the run's directory, on storage all nodes share

Over the network go a configuration there, a few numbers a second while it runs, and how it ended; what a run makes is
written where it belongs. A task that is run again goes on from the newest checkpoint.
"""

import contextlib
import importlib
import os
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import papd
from papd.errors import ConfigError, RunError
from papd.runs.sweeps.pool import ONE_THREAD, Event, Job, Watch

RETRIES = 3
"""How often a task is run again whose worker or node died."""

IN_FLIGHT = 10_000
"""Tasks that Ray is given at a time; a queue that is longer waits here."""

LOOK_EVERY_SECONDS = 0.5
TELL_EVERY_SECONDS = 5.0
"""All runs of a cluster tell one process how far they are: less often than on one machine."""

PATIENCE_SECONDS = 60.0
"""How long a task waits for the directory of a run whose last process is about to be found dead."""


class Cluster:
    """The workforce of a Ray cluster: one that runs at ``address``, or one of this machine alone."""

    def __init__(self, address: str | None, folder: Path, at_a_time: int | None = None, gpus: float = 0.0):
        self._alone = address is None and "RAY_ADDRESS" not in os.environ
        if self._alone:
            keep_to_loopback()
        self._ray = _import_ray()
        self._address, self._at_a_time, self._gpus = address, at_a_time, gpus
        self._storage = next(
            path for path in (folder.absolute(), *folder.absolute().parents) if path.is_dir()
        )
        self._mark = self._storage / f".papd-{uuid.uuid4().hex}"
        self._stack = contextlib.ExitStack()

    @property
    def size(self) -> int:
        """As many runs as the cluster has CPUs, or as were asked for."""
        cores = max(1, int(self._ray.cluster_resources().get("CPU", 0)))
        return min(cores, self._at_a_time or cores)

    def __enter__(self) -> "Cluster":
        with contextlib.ExitStack() as stack:
            if not self._ray.is_initialized():
                self._connect()
                stack.callback(self._ray.shutdown)
            elif self._address is not None:
                raise ConfigError(
                    f"address={self._address!r}: this process is connected to a Ray cluster already; leave it out"
                )
            _write_mark(self._mark)
            stack.callback(self._mark.unlink, missing_ok=True)
            self._check_nodes()
            self._mailbox = self._ray.remote(Mailbox).options(num_cpus=0, **self._here()).remote()
            stack.callback(self._ray.kill, self._mailbox)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, jobs: Sequence[Job], watch: Watch, stopped: Callable[[], int | None]) -> None:
        """Do all jobs, as :class:`papd.runs.sweeps.pool.Workforce` says."""
        self._check_sizes(jobs)
        queue, going = deque(jobs), dict[Any, Job]()
        running: set[str] = set()
        asked = False
        while queue or going:
            if stopped() is not None:
                queue.clear()
                asked = asked or self._cancel(going)
            while queue and len(going) < (self._at_a_time or IN_FLIGHT):
                job = queue.popleft()
                going[self._submit(job)] = job
            done, _ = self._ray.wait(list(going), num_returns=len(going), timeout=LOOK_EVERY_SECONDS)
            self._pass_on(watch, running)
            for task in done:
                job = going.pop(task)
                for event in self._outcome(task, job, stopping=asked):
                    running.discard(event["run"])
                    watch(event)
            watch({"event": "tick"})

    def _connect(self) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if self._alone:
            options |= {"address": "local", "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        else:
            options |= {"address": self._address}
        try:
            self._ray.init(**options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            where = self._address or os.environ.get("RAY_ADDRESS", "this machine")
            words = " ".join(str(error).split())[:300]
            raise RunError(f"no Ray cluster at {where}: {words}") from error

    def _here(self, node: str | None = None) -> dict[str, Any]:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        name = node or self._ray.get_runtime_context().get_node_id()
        return {"scheduling_strategy": NodeAffinitySchedulingStrategy(name, soft=False)}

    def _check_nodes(self) -> None:
        """Every node sees the folder and has this papd."""
        looks = self._ray.remote(look)
        asked = {
            node["NodeManagerAddress"]: looks.options(num_cpus=0, **self._here(node["NodeID"])).remote(
                str(self._mark)
            )
            for node in self._ray.nodes()
            if node["Alive"]
        }
        for name, answer in asked.items():
            try:
                version, sees = self._ray.get(answer)
            except self._ray.exceptions.RayError as error:
                raise RunError(f"node {name} cannot run papd: {_last_line(error)}") from error
            if version != papd.__version__:
                raise RunError(
                    f"node {name} has papd {version}, this process {papd.__version__}: install the same one"
                )
            if not sees:
                raise RunError(
                    f"node {name} does not see {self._storage}: a sweep on Ray needs an --out on storage that all "
                    "nodes share"
                )

    def _check_sizes(self, jobs: Sequence[Job]) -> None:
        """Nobody waits for a node that there is not."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        most, gpus = (max(node.get(kind, 0) for node in nodes) for kind in ("CPU", "GPU"))
        for job in jobs:
            if _cpus(job) > most:
                words = f"has workers={_cpus(job)}; the largest node has {most:g} CPUs"
                raise ConfigError(f"run {job['runs'][0]!r} {words}")
        if self._gpus > gpus:
            raise ConfigError(f"a run takes {self._gpus:g} of a GPU; the largest node has {gpus:g} GPUs")

    def _submit(self, job: Job) -> Any:
        task = self._ray.remote(work).options(num_cpus=_cpus(job), num_gpus=self._gpus, max_retries=RETRIES)
        own = {"tell_every": TELL_EVERY_SECONDS, "patience": PATIENCE_SECONDS, "gpus": self._gpus}
        return task.remote({**job, **own, "mark": str(self._mark)}, self._mailbox)

    def _cancel(self, going: Mapping[Any, Job]) -> bool:
        """What Ray sends to a running task is a Ctrl-C: it saves its state."""
        for task in going:
            self._ray.cancel(task, force=False)
        return True

    def _pass_on(self, watch: Watch, running: set[str]) -> None:
        """What running tasks have told, and which of them have begun again."""
        for event in self._ray.get(self._mailbox.take.remote()):
            if event["event"] == "begun":
                if event["run"] in running:
                    text = f"{event['run']}: its worker or node died; going on at step {event['env_steps']:,}"
                    watch({"event": "note", "text": text})
                running.add(event["run"])
            watch(event)

    def _outcome(self, task: Any, job: Job, *, stopping: bool) -> list[Event]:
        """How the runs of a job ended."""
        try:
            ended: list[Event] = self._ray.get(task)
        except self._ray.exceptions.RayError as error:
            told = (
                {"status": "interrupted"} if stopping else {"status": "failed", "reason": _last_line(error)}
            )
            ended = [{"event": "ended", "run": run, **told} for run in job["runs"]]
        return ended


class Mailbox:
    """Beside the driver: what running tasks tell, until it is fetched."""

    def __init__(self) -> None:
        self._events: list[Event] = []

    def put(self, event: Event) -> None:
        """Leave it here."""
        self._events.append(event)

    def take(self) -> list[Event]:
        """All that came since."""
        events, self._events = self._events, []
        return events


class _Last:
    program: str | None = None


def look(mark: str) -> tuple[str, bool]:
    """On a node: its papd, and whether it sees the driver's folder."""
    return papd.__version__, Path(mark).exists()


def work(job: Job, mailbox: Any) -> list[Event]:
    """On a node, in one of Ray's worker processes: do a job, tell the mailbox how it goes, return how it ended."""
    _settle(job["gpus"])
    from papd.runs.sweeps import jobs
    from papd.runs.train import Stop

    if not Path(job["mark"]).exists():
        reason = f"its node does not see {job['folder']}, which all nodes must share"
        return [{"event": "ended", "run": run, "status": "failed", "reason": reason} for run in job["runs"]]
    if _Last.program not in (None, job["program"]):
        jobs.forget_programs()
    _Last.program = job["program"]
    ended: list[Event] = []
    last: list[Any] = []

    def tell(event: Event) -> None:
        if event["event"] == "ended":
            ended.append(event)
        else:
            last[:] = [mailbox.put.remote(event)]

    jobs.do(
        {**job, "configs": {run: _one_worker(config) for run, config in job["configs"].items()}}, tell, Stop()
    )
    _import_ray().get(last)  # Whoever learns that the task has ended finds all that it told.
    return ended


def _settle(gpus: float) -> None:
    """Before JAX is imported: one thread, as a pinned worker of the local engine has, and the CPU where no GPU is."""
    os.environ["PJRT_NPROC"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    if ONE_THREAD not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {ONE_THREAD}".strip()
    if gpus:
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # Runs share it.
    else:
        os.environ["JAX_PLATFORMS"] = "cpu"


def _cpus(job: Job) -> int:
    """The processes that step its environment, where the spec asks for several."""
    return max(1, *(config["workers"] or 1 for config in job["configs"].values()))


def _one_worker(config: Mapping[str, Any]) -> dict[str, Any]:
    """A node's cores are shared: one process steps a real environment, where the spec does not say how many."""
    return {**config, "workers": 1 if config["workers"] is None else config["workers"]}


def _write_mark(path: Path) -> None:
    try:
        path.touch()
    except OSError as error:
        raise RunError(f"cannot write {path.parent}: {error.strerror}") from error


def _last_line(error: Exception) -> str:
    """The end of a remote traceback, which is what went wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__


def keep_to_loopback() -> None:
    """Before Ray is imported: 127.0.0.1 stays 127.0.0.1, where Ray would take this machine's address in the network."""
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")


def _import_ray() -> ModuleType:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise ConfigError("engine 'ray' needs Ray: pip install 'papd[ray]'") from error
