"""Experience from environments outside JAX: the same batches and episodes as :mod:`papd.agents.rollout` makes.

Every episode has a seed of its own, drawn from the iteration's key, so that with whole episodes an iteration is a
function of the train state wherever the simulator is. With automatic reset the simulators themselves hold part of the
state: a resumed run begins their episodes anew.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int64, PRNGKeyArray

from papd.agents.hyper import Hyper
from papd.agents.networks import Policy
from papd.agents.rollout import Batch, Episodes, rounds_of, whole
from papd.envs.cmdp import Box
from papd.envs.host import HostEnv, HostVector
from papd.envs.playing import PlaySizes, Track


class HostRollout:
    """Plays a policy in a vector of host environments, which it starts when first needed and owns."""

    def __init__(self, env: HostEnv, hyper: Hyper, *, workers: int | None = None):
        self._env, self._hyper, self._workers = env, hyper, workers
        self._vector: HostVector | None = None
        self._carried: _Carried | None = None
        self.faults = 0

    def collect(self, policy: Policy, key: PRNGKeyArray) -> tuple[Batch, Episodes]:
        """The experience of one iteration."""
        if self._hyper.rollout == "steps":
            return self._fixed_steps(policy, key)
        rounds, count = rounds_of(self._hyper)
        vector = self._prepare(policy, key, rounds * self._env.max_episode_steps, count)
        seeds = _seeds(key, rounds * count).reshape(rounds, count)
        track = vector.track
        played = np.zeros(track.ended.shape, bool)
        for number in range(rounds):
            # Every round begins in the row after the longest episode of the last one.
            first = int(track.lengths.max()) if number else 0
            track.lengths[:] = first
            wanted = number * count + np.arange(count) < self._hyper.episodes_per_iteration
            vector.reset(seeds[number], wanted)
            vector.play(wanted)
            for env in np.flatnonzero(wanted):
                played[first : track.lengths[env], env] = True
        batch, episodes = self._told(vector, played, _Carried(count, len(self._env.cost_names)))
        return whole(batch, self._hyper.episodes_per_iteration), episodes

    def close(self) -> None:
        """Stop the workers."""
        if self._vector is not None:
            self._vector.close()
        self._vector = self._carried = None

    def _fixed_steps(self, policy: Policy, key: PRNGKeyArray) -> tuple[Batch, Episodes]:
        count = self._hyper.num_envs
        steps = self._hyper.steps_per_iteration // count
        vector = self._prepare(policy, key, steps, count)
        seeds = _seeds(key, (steps + 1) * count).reshape(steps + 1, count)
        vector.track.next_seeds[:] = seeds[:steps]
        if self._carried is None:
            vector.reset(seeds[steps])
            self._carried = _Carried(count, len(self._env.cost_names))
        vector.track.lengths[:] = 0
        self._carried.forget(vector.play(np.ones(count, bool)))
        return self._told(vector, np.ones((steps, count), bool), self._carried)

    def _prepare(self, policy: Policy, key: PRNGKeyArray, steps: int, count: int) -> HostVector:
        """The environments, with the policy and its noise for so many steps."""
        network, scale = policy.network, policy.scale
        if self._vector is None:
            space = self._env.action_space
            sizes = PlaySizes(
                steps,
                layers=(*(layer.weight.shape[0] for layer in network.layers), scale.shape[0]),
                low=space.low if isinstance(space, Box) else None,
                high=space.high if isinstance(space, Box) else None,
                auto_reset=self._hyper.rollout == "steps",
            )
            self._vector = self._env.start(count, workers=self._workers, play=sizes)
        track = self._vector.track
        track.weights[:] = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(network)])
        track.scale[:] = scale
        track.noise[:] = _noise(policy, key, steps, count)
        return self._vector

    def _told(
        self, vector: HostVector, played: Bool[np.ndarray, "T N"], carried: "_Carried"
    ) -> tuple[Batch, Episodes]:
        """What was played: as a batch to learn from, and its episodes."""
        self.faults += len(vector.drain_faults())
        track, kept = vector.track, played[:, :, None]
        ended = track.ended & played
        batch = Batch(
            observation=jnp.asarray(track.observations * kept),
            action=jnp.asarray(track.actions * played if track.actions.ndim == 2 else track.actions * kept),
            reward=jnp.asarray(track.rewards * played),
            cost=jnp.asarray(track.costs * kept),
            next_observation=jnp.asarray(track.next_observations * kept),
            terminated=jnp.asarray(track.terminated & played),
            ended=jnp.asarray(ended),
            valid=jnp.asarray(played),
        )
        returns, costs = carried.episodes(track, played, ended)
        none = returns.size == 0
        episodes = Episodes(
            count=jnp.int32(returns.size),
            steps=jnp.int32(played.sum()),
            return_mean=jnp.float32(np.nan if none else returns.mean()),
            cost_mean=jnp.full(costs.shape[1], np.nan)
            if none
            else jnp.asarray(costs.mean(axis=0), jnp.float32),
        )
        return batch, episodes


class _Carried:
    """What the episodes that go on have collected before this iteration."""

    def __init__(self, count: int, costs: int):
        self._totals = np.zeros((count, 1 + costs))

    def forget(self, void: Bool[np.ndarray, " N"]) -> None:
        """Nothing, of episodes that a fault broke off."""
        self._totals[void] = 0.0

    def episodes(
        self, track: Track, played: Bool[np.ndarray, "T N"], ended: Bool[np.ndarray, "T N"]
    ) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "k m"]]:
        """Returns and costs of the episodes that ended; the others are carried on."""
        signals = np.concatenate([track.rewards[:, :, None], track.costs], axis=2, dtype=np.float64)
        finished = []
        for env in range(ended.shape[1]):
            rows = np.flatnonzero(played[:, env])
            parts = np.split(signals[rows, env], np.flatnonzero(ended[rows, env]) + 1)
            sums = np.array([part.sum(axis=0) for part in parts])
            sums[0] += self._totals[env]
            self._totals[env] = sums[-1]
            finished.append(sums[:-1])
        whole = np.concatenate(finished)
        return whole[:, 0], whole[:, 1:]


@partial(jax.jit, static_argnums=(2, 3))
def _noise(policy: Policy, key: PRNGKeyArray, steps: int, count: int) -> Float[Array, "steps count n"]:
    """What exploration needs for so many steps of each environment."""
    return jax.vmap(jax.vmap(policy.noise))(jax.random.split(key, (steps, count)))


def _seeds(key: PRNGKeyArray, count: int) -> Int64[np.ndarray, " count"]:
    """A seed for each episode."""
    drawn = jax.random.randint(jax.random.fold_in(key, 2**31), (count,), 0, 2**31 - 1)
    return np.asarray(drawn, np.int64)
