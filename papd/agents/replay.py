"""A ring of transitions on the device, with everything that a multi-step target needs in each of them."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int32, PRNGKeyArray


class Transition(eqx.Module):
    """One or many transitions: the action taken, the n-step sums of reward and costs, and where they lead."""

    observation: Float[Array, "... observation"]
    action: Float[Array, "... action"]
    sums: Float[Array, "... k"]
    bootstrap: Float[Array, "... observation"]
    discount: Float[Array, "..."]


class Replay(eqx.Module):
    """The last ``capacity`` transitions. ``head`` is where the next one goes, ``size`` how many there are."""

    rows: Transition
    head: Int32[Array, ""]
    size: Int32[Array, ""]

    @property
    def capacity(self) -> int:
        """How many transitions fit."""
        return int(self.rows.discount.shape[0])


def empty_replay(capacity: int, observation: int, action: int, signals: int) -> Replay:
    """No transitions yet."""
    rows = Transition(
        observation=jnp.zeros((capacity, observation)),
        action=jnp.zeros((capacity, action)),
        sums=jnp.zeros((capacity, signals)),
        bootstrap=jnp.zeros((capacity, observation)),
        discount=jnp.zeros(capacity),
    )
    return Replay(rows, head=jnp.int32(0), size=jnp.int32(0))


def add(replay: Replay, rows: Transition, valid: Bool[Array, " n"]) -> Replay:
    """Write the valid rows, oldest first, over the oldest in the ring (n must not exceed the capacity)."""
    capacity = replay.capacity
    count = jnp.sum(valid, dtype=jnp.int32)
    position = (replay.head + jnp.cumsum(valid, dtype=jnp.int32) - 1) % capacity
    position = jnp.where(valid, position, capacity)
    write = lambda ring, new: ring.at[position].set(new, mode="drop")  # noqa: E731
    return Replay(
        rows=jax.tree.map(write, replay.rows, rows),
        head=(replay.head + count) % capacity,
        size=jnp.minimum(replay.size + count, capacity),
    )


def draw(replay: Replay, key: PRNGKeyArray, count: int) -> Transition:
    """``count`` transitions, uniformly, with replacement."""
    index = jax.random.randint(key, (count,), 0, jnp.maximum(replay.size, 1))
    drawn: Transition = jax.tree.map(lambda ring: ring[index], replay.rows)
    return drawn
