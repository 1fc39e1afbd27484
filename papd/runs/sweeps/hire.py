"""The workforces of a sweep, each begun when it is first needed."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from papd.errors import ConfigError
from papd.runs.sweeps.plan import Engine
from papd.runs.sweeps.pool import Pool, Workforce, anywhere, one_a_core


@dataclass(frozen=True)
class Means:
    """What a sweep may use."""

    workers: int | None = None
    """Runs at a time; one a core, or all that a cluster has, by default."""
    address: str | None = None
    """The Ray cluster; one is started on this machine by default."""
    gpus: float = 0.0
    """What each run takes of a GPU on a Ray cluster."""

    def check(self, engine: Engine) -> None:
        """Nothing that is asked for is ignored."""
        if self.workers is not None and self.workers < 1:
            raise ConfigError(f"workers={self.workers}: a sweep needs one worker or more")
        if not 0 <= self.gpus < float("inf"):
            raise ConfigError(f"gpus={self.gpus}: what a run takes of a GPU is a finite number >= 0")
        if engine == "vmap" and self.workers is not None:
            raise ConfigError(f"workers={self.workers}: a vmap is one process; leave workers out")
        if engine != "ray" and (self.address is not None or self.gpus):
            raise ConfigError("an address or gpus are for engine='ray': choose it, or leave them out")


class Hire(contextlib.AbstractContextManager["Hire"]):
    """Gives the workforce of an engine; all end with it."""

    def __init__(self, folder: Path, logs: Path, means: Means):
        self._folder, self._logs, self._means = folder, logs, means
        self._hired: dict[str, Workforce] = {}
        self._stack = contextlib.ExitStack()

    def __call__(self, engine: str) -> Workforce:
        """The workforce of ``engine``: processes, vmap or ray."""
        if engine not in self._hired:
            self._hired[engine] = self._begin(engine)
        return self._hired[engine]

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        with contextlib.suppress(OSError):  # What workers printed stays.
            self._logs.rmdir()

    def _begin(self, engine: str) -> Workforce:
        if engine == "ray":
            from papd.runs.sweeps.cluster import Cluster

            return self._stack.enter_context(
                Cluster(self._means.address, self._folder, self._means.workers, self._means.gpus)
            )
        places = anywhere() if engine == "vmap" else one_a_core(self._means.workers)
        return self._stack.enter_context(Pool(places, self._logs / engine))
