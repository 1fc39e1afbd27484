"""Advantages and multi-step targets, for any number of signals (the reward and each cost) at once.

Arrays are time-major. An episode that *terminated* ends in a state of no value; one that was *truncated* ends in a
state whose value is bootstrapped (``next_values`` holds it). ``ended`` is either. An episode that merely goes on
after the last row is bootstrapped too.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def gae(
    signals: Float[Array, "T N k"],
    values: Float[Array, "T N k"],
    next_values: Float[Array, "T N k"],
    terminated: Bool[Array, "T N"],
    ended: Bool[Array, "T N"],
    gamma: float,
    gae_lambda: float,
) -> tuple[Float[Array, "T N k"], Float[Array, "T N k"]]:
    """Generalised advantages A_t = delta_t + gamma lambda A_{t+1}, cut where episodes end, and returns A + V."""
    alive = 1.0 - terminated[:, :, None].astype(values.dtype)
    goes_on = 1.0 - ended[:, :, None].astype(values.dtype)
    deltas = signals + gamma * next_values * alive - values
    decays = gamma * gae_lambda * goes_on

    def backward(
        later: Float[Array, "N k"], row: tuple[Float[Array, "N k"], Float[Array, "N 1"]]
    ) -> tuple[Float[Array, "N k"], Float[Array, "N k"]]:
        delta, decay = row
        advantage = delta + decay * later
        return advantage, advantage

    _, advantages = jax.lax.scan(backward, jnp.zeros_like(values[0]), (deltas, decays), reverse=True)
    return advantages, advantages + values


def n_step(
    signals: Float[Array, "T N k"],
    next_observation: Float[Array, "T N o"],
    terminated: Bool[Array, "T N"],
    ended: Bool[Array, "T N"],
    gamma: float,
    n: int,
) -> tuple[Float[Array, "T N k"], Float[Array, "T N o"], Float[Array, "T N"]]:
    """What an n-step target needs: sum_{i<n} gamma^i r_{t+i}, the observation to bootstrap from and its discount.

    The target is ``sums + discounts * value(bootstrap)``. The sum stops where the episode (or the batch) ends; the
    discount is 0 where it terminated.
    """
    steps = signals.shape[0]
    sums, bootstrap = signals, next_observation
    discounts = jnp.full(terminated.shape, gamma, signals.dtype)
    stopped, dead = ended, terminated
    for ahead in range(1, n):
        inside = (jnp.arange(steps) + ahead < steps)[:, None]
        extend = inside & ~stopped
        sums = jnp.where(extend[:, :, None], sums + gamma**ahead * _ahead(signals, ahead), sums)
        bootstrap = jnp.where(extend[:, :, None], _ahead(next_observation, ahead), bootstrap)
        discounts = jnp.where(extend, gamma ** (ahead + 1), discounts)
        dead = jnp.where(extend, _ahead(terminated, ahead), dead)
        stopped = stopped | (extend & _ahead(ended, ahead)) | ~inside
    return sums, bootstrap, jnp.where(dead, 0.0, discounts)


def _ahead(x: Array, steps: int) -> Array:
    """Each row holds what stood so many rows later."""
    return jnp.roll(x, -steps, axis=0)
