"""Experience from environments outside JAX: the same batches and episodes as :mod:`papd.agents.rollout` makes.

Every episode has a seed of its own, drawn from the iteration's key, so that with whole episodes an iteration is a
function of the train state wherever the simulator is. With automatic reset the simulators themselves hold part of the
state: a resumed run begins their episodes anew.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int64, PRNGKeyArray

from papd.agents.hyper import Hyper
from papd.agents.networks import Policy, to_environment
from papd.agents.rollout import Batch, Episodes, rounds_of
from papd.envs.cmdp import Discrete, Space
from papd.envs.host import HostEnv, HostVector

Actions = Float[Array, "N action"] | Int[Array, " N"]


@partial(jax.jit, static_argnums=0)
def _act(
    space: Space, policy: Policy, key: PRNGKeyArray, step: Any, observation: Float[Array, "N o"]
) -> tuple[Actions, Actions]:
    """An exploring action for each observation: as the policy knows it, and as the environment does."""
    keys = jax.random.split(jax.random.fold_in(key, step), observation.shape[0])
    action = jax.vmap(policy.sample)(keys, observation)
    return action, jax.vmap(lambda a: to_environment(space, a))(action)


class HostRollout:
    """Plays a policy in a vector of host environments, which it starts when first needed and owns."""

    def __init__(self, env: HostEnv, hyper: Hyper, *, workers: int | None = None):
        self._env, self._hyper, self._workers = env, hyper, workers
        self._vector: HostVector | None = None
        self._going: _Going | None = None
        self.faults = 0

    def collect(self, policy: Policy, key: PRNGKeyArray) -> tuple[Batch, Episodes]:
        """The experience of one iteration."""
        if self._hyper.rollout == "steps":
            return self._fixed_steps(policy, key)
        rounds, count = rounds_of(self._hyper)
        recorder = _Recorder(self._env, rounds * self._env.max_episode_steps, count)
        seeds = _seeds(key, rounds * count).reshape(rounds, count)
        first = 0
        for number in range(rounds):
            wanted = number * count + np.arange(count) < self._hyper.episodes_per_iteration
            first = self._one_round(policy, key, recorder, first, seeds[number], wanted)
        return recorder.batch(), recorder.episodes()

    def close(self) -> None:
        """Stop the workers."""
        if self._vector is not None:
            self._vector.close()
        self._vector = self._going = None

    def _start(self, count: int) -> HostVector:
        if self._vector is None:
            self._vector = self._env.start(count, workers=self._workers)
        return self._vector

    def _one_round(
        self,
        policy: Policy,
        key: PRNGKeyArray,
        recorder: "_Recorder",
        first: int,
        seeds: Int64[np.ndarray, " N"],
        alive: Bool[np.ndarray, " N"],
    ) -> int:
        """One episode in each environment; returns the row after the longest."""
        vector = self._start(seeds.shape[0])
        going = _Going(vector.reset(seeds), alive.copy(), recorder.costs)
        lengths = np.full(seeds.shape[0], first)
        while going.alive.any():
            recorder.play(self._env.action_space, vector, policy, key, going, lengths, first)
            going.alive &= ~going.ended
        self.faults += len(vector.drain_faults())
        return int(lengths.max())

    def _fixed_steps(self, policy: Policy, key: PRNGKeyArray) -> tuple[Batch, Episodes]:
        count = self._hyper.num_envs
        steps = self._hyper.steps_per_iteration // count
        vector = self._start(count)
        recorder = _Recorder(self._env, steps, count)
        seeds = _seeds(key, (steps + 1) * count).reshape(steps + 1, count)
        if self._going is None:
            self._going = _Going(vector.reset(seeds[steps]), np.ones(count, bool), recorder.costs)
        going = self._going
        lengths = np.zeros(count, int)
        for number in range(steps):
            recorder.play(self._env.action_space, vector, policy, key, going, lengths, 0)
            if going.ended.any():
                going.begin(going.ended, vector.reset(seeds[number], going.ended))
        self.faults += len(vector.drain_faults())
        return recorder.batch(), recorder.episodes()


class _Going:
    """Environments in the middle of their episodes, with what each has collected."""

    def __init__(self, observation: Float[np.ndarray, "N o"], alive: Bool[np.ndarray, " N"], costs: int):
        self.observation = observation.copy()
        self.alive = alive
        self.ended = np.zeros_like(alive)
        self.total_return = np.zeros(alive.shape[0])
        self.total_cost = np.zeros((alive.shape[0], costs))

    def begin(self, mask: Bool[np.ndarray, " N"], observation: Float[np.ndarray, "N o"]) -> None:
        """New episodes where the mask holds."""
        self.observation[mask] = observation[mask]
        self.total_return[mask] = 0.0
        self.total_cost[mask] = 0.0


class _Recorder:
    """The arrays of one iteration while they fill up; each environment has its own next row."""

    def __init__(self, env: HostEnv, rows: int, count: int):
        self.costs = len(env.cost_names)
        shape = (rows, count)
        inputs = (*shape, env.observation_space.shape[0])
        kind = np.int32 if isinstance(env.action_space, Discrete) else np.float32
        self._observation, self._next = np.zeros(inputs, np.float32), np.zeros(inputs, np.float32)
        self._action = np.zeros((*shape, *env.action_space.shape), kind)
        self._reward, self._cost = np.zeros(shape, np.float32), np.zeros((*shape, self.costs), np.float32)
        self._terminated, self._ended, self._valid = (np.zeros(shape, bool) for _ in range(3))
        self._finished: list[tuple[float, np.ndarray]] = []
        self._calls = 0

    def play(
        self,
        space: Space,
        vector: HostVector,
        policy: Policy,
        key: PRNGKeyArray,
        going: _Going,
        lengths: Int64[np.ndarray, " N"],
        first: int,
    ) -> None:
        """One step of every live environment into its next row (``lengths``, moved on); a replaced one goes back."""
        alive = going.alive
        action, sent = map(np.asarray, _act(space, policy, key, np.uint32(self._calls), going.observation))
        self._calls += 1
        step = vector.step(sent, alive)
        kept = alive & ~step.restarted
        index, row = np.flatnonzero(kept), lengths[kept]
        self._observation[row, index] = going.observation[kept]
        self._action[row, index] = action[kept]
        self._reward[row, index], self._cost[row, index] = step.reward[kept], step.cost[kept]
        self._next[row, index] = step.observation[kept]
        self._terminated[row, index] = step.terminated[kept]
        ended = kept & (step.terminated | step.truncated)
        self._ended[row, index] = ended[kept]
        self._valid[row, index] = True
        going.total_return[kept] += step.reward[kept]
        going.total_cost[kept] += step.cost[kept]
        self._finished += [
            (float(going.total_return[i]), going.total_cost[i].copy()) for i in np.flatnonzero(ended)
        ]
        lengths[kept] += 1
        going.ended = ended
        going.observation[alive] = step.observation[alive]
        for i in np.flatnonzero(alive & step.restarted):
            self._forget(int(i), first, lengths)
            going.begin(np.arange(alive.shape[0]) == i, step.observation)

    def _forget(self, env: int, first: int, lengths: Int64[np.ndarray, " N"]) -> None:
        """Drop the rows of an episode that a fault broke off: it is played again."""
        ends = np.flatnonzero(self._ended[first : lengths[env], env])
        begin = first + (int(ends[-1]) + 1 if ends.size else 0)
        self._valid[begin : lengths[env], env] = False
        lengths[env] = begin

    def batch(self) -> Batch:
        """What was recorded; where rows are missing (after a fault), what stands before them is bootstrapped."""
        followed = np.concatenate([self._valid[1:], np.ones_like(self._valid[:1])])
        self._ended |= self._valid & ~followed
        parts = (self._observation, self._action, self._reward, self._cost, self._next)
        flags = (self._terminated, self._ended, self._valid)
        return Batch(*(jnp.asarray(part) for part in (*parts, *flags)))

    def episodes(self) -> Episodes:
        """The whole episodes that ended."""
        returns = np.array([r for r, _ in self._finished])
        costs = np.array([c for _, c in self._finished]).reshape(-1, self.costs)
        none = returns.size == 0
        return Episodes(
            count=jnp.int32(returns.size),
            steps=jnp.int32(self._valid.sum()),
            return_mean=jnp.float32(np.nan if none else returns.mean()),
            cost_mean=jnp.full(self.costs, np.nan) if none else jnp.asarray(costs.mean(axis=0), jnp.float32),
        )


def _seeds(key: PRNGKeyArray, count: int) -> Int64[np.ndarray, " count"]:
    """A seed for each episode."""
    drawn = jax.random.randint(jax.random.fold_in(key, 2**31), (count,), 0, 2**31 - 1)
    return np.asarray(drawn, np.int64)
