"""A population: all runs of one program as one ``jax.vmap``, each with its own run directory.

    stacked train states -> one compiled step -> a row for each run -> checkpoints of all, where they are due

What lies on disk is what single runs leave, so that either engine goes on with the other's. Under ``vmap`` sums are
taken in another order: the numbers agree to rounding, not bit for bit.
"""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from papd.agents.hyper import Hyper
from papd.agents.iteration import Metrics, iterate
from papd.agents.state import TrainState, stack
from papd.envs.cmdp import CMDP
from papd.errors import ConfigError, PapdError
from papd.runs.agent import Agent, row_of
from papd.runs.config import from_mapping
from papd.runs.lock import locked
from papd.runs.sweeps.member import Member, at, to_host
from papd.runs.sweeps.memory import compile_largest
from papd.runs.sweeps.reporting import Tell, one_line
from papd.runs.train import CHECKPOINT_SHARE, Stop

Step = Callable[[TrainState], tuple[TrainState, Metrics]]


def train_population(job: Mapping[str, Any], tell: Tell, stop: Stop) -> None:
    """Train the runs of a job, as many at a time as fit into memory. What is wrong with one touches no other."""
    with contextlib.ExitStack() as held:
        members = []
        for name in job["runs"]:
            try:
                members += _enter(name, job, held, tell)
            except PapdError as error:
                tell({"event": "ended", "run": name, "status": "failed", "reason": one_line(error)})
        with stop:
            _train_in_chunks(members, stop)


def _enter(name: str, job: Mapping[str, Any], held: contextlib.ExitStack, tell: Tell) -> list[Member]:
    """A run with its directory locked until ``held`` ends; none where it is finished already."""
    path = Path(job["folder"]) / name
    with contextlib.ExitStack() as mine:
        mine.enter_context(locked(path, patience=job["patience"]))
        member = Member(path, from_mapping(job["configs"][name]), job["command"], tell, job["tell_every"])
        mine.callback(member.close)
        if not member.open():
            return []
        held.enter_context(mine.pop_all())
    return [member]


def measure_population(agents: Sequence[Agent], seconds: float) -> float:
    """Steps a second of all agents together, after the first iteration, which compiles."""
    size, step = _compile(agents[0], len(agents))
    population, _ = step(stack([agent.state for agent in agents[:size]]))
    before, began = _steps(population), time.perf_counter()
    while time.perf_counter() - began < seconds:
        population, _ = step(population)
        _steps(population)
    return (_steps(population) - before) / (time.perf_counter() - began)


def _steps(population: TrainState) -> int:
    return int(jax.device_get(population.counters.env_steps).astype("int64").sum())


def _train_in_chunks(members: Sequence[Member], stop: Stop) -> None:
    if not members:
        return
    size, step = _compile(members[0].agent, len(members))
    for first in range(0, len(members), size):
        chunk = members[first : first + size]
        if stop.signal is None:
            Crew(chunk, step, size).train(stop)
        for member in chunk:
            member.end(stop.signal)


def _compile(agent: Agent, count: int) -> tuple[int, Step]:
    env, hyper = agent.env, agent.hyper
    if not isinstance(env, CMDP):
        raise ConfigError(f"{env.name} is stepped outside JAX: a vmap needs a twin (backend = 'twin')")
    return compile_largest(lambda population: iterate_all(env, hyper, population), agent.state, count)


def iterate_all(env: CMDP, hyper: Hyper, population: TrainState) -> tuple[TrainState, Metrics]:
    """One iteration of every member."""
    return jax.vmap(lambda state: iterate(env, hyper, state))(population)


class Crew:
    """Members that step together. One that is done is stepped along, and what becomes of it is ignored."""

    def __init__(self, members: Sequence[Member], step: Step, size: int):
        self._members, self._step = members, step
        states = [member.state for member in members]
        self._population = stack(states + states[:1] * (size - len(states)))
        self._host: TrainState | None = None
        self._save_seconds, self._saved_at = 0.0, time.perf_counter()
        for index, member in enumerate(members):
            member.follow(lambda index=index: self._slice(index))  # type: ignore[misc]
            member.begin()

    def train(self, stop: Stop) -> None:
        """Until every member is done, or a signal; then each holds its own state."""
        while stop.signal is None and any(member.is_active for member in self._members):
            self._advance()
            self._save_due()
        for member in self._members:
            member.hold()

    def _advance(self) -> None:
        policies = jax.device_get(self._population.learner.policy)
        following, metrics = self._step(self._population)
        counters, metrics = jax.device_get((following.counters, metrics))
        going = [(i, member) for i, member in enumerate(self._members) if member.is_active]
        for index, member in going:
            if not metrics.finite[index]:  # It stays where it was before this iteration.
                member.hold()
        self._population, self._host = following, None
        for index, member in going:
            names = member.agent.env.cost_names
            row = row_of(names, at(counters, index), at(metrics, index), faults=0)
            member.take(row, at(policies, index), finite=bool(metrics.finite[index]))
            if not member.is_active:
                member.hold()

    def _save_due(self) -> None:
        """As often as it takes a small share of the time, for all together."""
        now = time.perf_counter()
        due = now - self._saved_at >= self._save_seconds / CHECKPOINT_SHARE
        for member in self._members:
            if member.is_active:
                member.save(due=due)
        if due:
            self._saved_at = time.perf_counter()
            self._save_seconds = self._saved_at - now

    def _slice(self, index: int) -> TrainState:
        """One member's state, in the host's memory; fetched for all at once."""
        if self._host is None:
            self._host = to_host(self._population)
        state: TrainState = at(self._host, index)
        return state
