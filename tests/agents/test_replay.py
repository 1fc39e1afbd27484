"""The ring keeps the newest transitions, in order, and draws from nothing else."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from papd.agents.replay import Transition, add, draw, empty_replay

CAPACITY = 7


def rows(numbers: np.ndarray) -> Transition:
    column = jnp.asarray(numbers, jnp.float32)[:, None]
    return Transition(column, column, column, column, column[:, 0])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=6))
def test_the_ring_is_a_bounded_queue_of_the_valid_rows(batches: list[list[bool]]) -> None:
    replay, queue = empty_replay(CAPACITY, 1, 1, 1), []
    for number, valid in enumerate(batches):
        numbers = 10.0 * number + np.arange(1, 6)
        replay = add(replay, rows(numbers), jnp.asarray(valid))
        queue = (queue + [x for x, kept in zip(numbers, valid, strict=True) if kept])[-CAPACITY:]
    assert int(replay.size) == len(queue)
    held = np.asarray(replay.rows.discount)
    order = (int(replay.head) - len(queue) + np.arange(len(queue))) % CAPACITY
    np.testing.assert_array_equal(held[order], queue)


def test_draws_are_uniform_over_what_is_there() -> None:
    replay = add(empty_replay(CAPACITY, 1, 1, 1), rows(np.arange(1, 5)), jnp.ones(4, bool))
    drawn = np.asarray(draw(replay, jax.random.key(0), 4000).discount)
    values, counts = np.unique(drawn, return_counts=True)
    np.testing.assert_array_equal(values, [1, 2, 3, 4])
    assert counts.min() > 850
