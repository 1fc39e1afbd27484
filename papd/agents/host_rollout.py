"""Experience from environments outside JAX: the same batches and episodes as :mod:`papd.agents.rollout` makes.

Every episode has a seed of its own, drawn from the iteration's key, so that with whole episodes an iteration is a
function of the train state wherever the simulator is. With automatic reset the simulators themselves hold part of the
state: a resumed run begins their episodes anew.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int64, PRNGKeyArray

from papd.agents.hyper import Hyper
from papd.agents.networks import Policy, to_environment
from papd.agents.rollout import Batch, Episodes, rounds_of
from papd.envs.cmdp import Discrete, Space
from papd.envs.host import HostEnv, HostStep, HostVector

Actions = Float[Array, "N action"] | Int[Array, " N"]


@partial(jax.jit, static_argnums=(2, 3))
def _noise(policy: Policy, key: PRNGKeyArray, steps: int, count: int) -> Float[Array, "steps count n"]:
    """What exploration needs for so many steps of each environment."""
    return jax.vmap(jax.vmap(policy.noise))(jax.random.split(key, (steps, count)))


@partial(jax.jit, static_argnums=0)
def _explore(
    space: Space, policy: Policy, observation: Float[Array, "N o"], noise: Float[Array, "N n"]
) -> tuple[Actions, Actions]:
    """An exploring action for each observation: as the policy knows it, and as the environment does."""
    action = jax.vmap(policy.explore)(observation, noise)
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
        for number in range(rounds):
            wanted = number * count + np.arange(count) < self._hyper.episodes_per_iteration
            self._one_round(policy, jax.random.fold_in(key, number), recorder, seeds[number], wanted)
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
        seeds: Int64[np.ndarray, " N"],
        alive: Bool[np.ndarray, " N"],
    ) -> None:
        """One episode in each environment, all beginning in the row after the longest of the last round."""
        count = seeds.shape[0]
        vector = self._start(count)
        noise = _noise(policy, key, self._env.max_episode_steps, count)
        going = _Going(vector.reset(seeds), alive.copy(), recorder)

        def after(share: slice, ended: Bool[np.ndarray, " rows"]) -> None:
            going.alive[share] &= ~ended

        recorder.play(self._env.action_space, vector, policy, np.asarray(noise), going, after)
        self.faults += len(vector.drain_faults())

    def _fixed_steps(self, policy: Policy, key: PRNGKeyArray) -> tuple[Batch, Episodes]:
        count = self._hyper.num_envs
        steps = self._hyper.steps_per_iteration // count
        vector = self._start(count)
        noise = _noise(policy, key, steps, count)
        recorder = _Recorder(self._env, steps, count)
        seeds = _seeds(key, (steps + 1) * count).reshape(steps + 1, count)
        if self._going is None:
            self._going = _Going(vector.reset(seeds[steps]), np.ones(count, bool), recorder)
        going = self._going
        going.rewind()

        def after(share: slice, ended: Bool[np.ndarray, " rows"]) -> None:
            over = np.zeros(count, bool)
            over[share] = ended
            if ended.any():
                going.begin(over, vector.reset(seeds[going.rows - 1, np.arange(count)], over))
            going.alive[share] = going.rows[share] < steps

        recorder.play(self._env.action_space, vector, policy, np.asarray(noise), going, after)
        self.faults += len(vector.drain_faults())
        return recorder.batch(), recorder.episodes()


class _Going:
    """Environments in the middle of their episodes, with what each has collected and its next row."""

    def __init__(
        self, observation: Float[np.ndarray, "N o"], alive: Bool[np.ndarray, " N"], recorder: "_Recorder"
    ):
        self.observation = observation.copy()
        self.alive = alive
        self.first = recorder.rows
        self.rows = np.full(alive.shape[0], self.first)
        self.total_return = np.zeros(alive.shape[0])
        self.total_cost = np.zeros((alive.shape[0], recorder.costs))

    def rewind(self) -> None:
        """The same episodes go on in the first rows of another recorder."""
        self.first = 0
        self.rows[:] = 0
        self.alive[:] = True

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
        self._finished: dict[tuple[int, int], tuple[float, np.ndarray]] = {}
        self.rows = 0
        """Up to here rows are taken."""

    def play(
        self,
        space: Space,
        vector: HostVector,
        policy: Policy,
        noise: Float[np.ndarray, "steps N n"],
        going: _Going,
        after: Callable[[slice, Bool[np.ndarray, " rows"]], None],
    ) -> None:
        """Step the live environments until none is left, each worker's as soon as it has done its last step.

        ``after`` is called after a worker's step, with the share's rows whose episode has ended. What an environment
        does in a row depends on its seed and its noise, so that the order in which workers get done changes nothing.
        """
        actions: dict[int, np.ndarray] = {}
        every = np.arange(vector.num_envs)

        def send(share: int) -> None:
            # All rows, though only the share's are sent: products of other shapes would be rounded otherwise, and the
            # number of workers would change the run.
            ahead = np.minimum(going.rows - going.first, noise.shape[0] - 1)
            action, sent = map(np.asarray, _explore(space, policy, going.observation, noise[ahead, every]))
            rows = vector.shares[share]
            actions[share] = action[rows]
            vector.send(share, sent[rows], going.alive[rows])

        busy = [share for share, rows in enumerate(vector.shares) if going.alive[rows].any()]
        for share in busy:
            send(share)
        while busy:
            share = vector.first_done(busy)
            rows = vector.shares[share]
            after(rows, self._record(rows, actions[share], vector.receive(share), going))
            if going.alive[rows].any():
                send(share)
            else:
                busy.remove(share)
        self.rows = int(going.rows.max())

    def _record(
        self, rows: slice, action: np.ndarray, step: HostStep, going: _Going
    ) -> Bool[np.ndarray, " rows"]:
        """A step of a worker's environments, each into its next row; a replaced one goes back. Which have ended."""
        alive = going.alive[rows]
        kept = alive & ~step.restarted
        index = np.flatnonzero(kept) + rows.start
        row, taken = going.rows[index], index - rows.start
        self._observation[row, index] = going.observation[index]
        self._action[row, index] = action[taken]
        self._reward[row, index], self._cost[row, index] = step.reward[taken], step.cost[taken]
        self._next[row, index] = step.observation[taken]
        self._terminated[row, index] = step.terminated[taken]
        ended: np.ndarray = kept & (step.terminated | step.truncated)
        self._ended[row, index] = ended[taken]
        self._valid[row, index] = True
        going.total_return[index] += step.reward[taken]
        going.total_cost[index] += step.cost[taken]
        for i in np.flatnonzero(ended) + rows.start:
            totals = (float(going.total_return[i]), going.total_cost[i].copy())
            self._finished[int(going.rows[i]), int(i)] = totals
        going.rows[index] += 1
        own = np.flatnonzero(alive)
        going.observation[own + rows.start] = step.observation[own]
        for i in np.flatnonzero(alive & step.restarted) + rows.start:
            self._forget(int(i), going)
        return ended

    def _forget(self, env: int, going: _Going) -> None:
        """Drop the rows of an episode that a fault broke off: it is played again."""
        ends = np.flatnonzero(self._ended[going.first : going.rows[env], env])
        begin = going.first + (int(ends[-1]) + 1 if ends.size else 0)
        self._valid[begin : going.rows[env], env] = False
        going.rows[env] = begin
        going.total_return[env] = 0.0
        going.total_cost[env] = 0.0

    def batch(self) -> Batch:
        """What was recorded; where rows are missing (after a fault), what stands before them is bootstrapped."""
        followed = np.concatenate([self._valid[1:], np.ones_like(self._valid[:1])])
        self._ended |= self._valid & ~followed
        parts = (self._observation, self._action, self._reward, self._cost, self._next)
        flags = (self._terminated, self._ended, self._valid)
        return Batch(*(jnp.asarray(part) for part in (*parts, *flags)))

    def episodes(self) -> Episodes:
        """The whole episodes that ended."""
        finished = [self._finished[place] for place in sorted(self._finished)]
        returns = np.array([r for r, _ in finished])
        costs = np.array([c for _, c in finished]).reshape(-1, self.costs)
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
