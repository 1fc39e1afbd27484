"""How fast a twin steps, by itself."""

import time

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from papd.envs.twins import make_twin


def twin_steps_per_second(env_id: str, num_envs: int = 20, *, seconds: float = 2.0) -> float:
    """Environment steps a second over all environments: whole episodes from ``reset``, one compiled program.

    The random actions are drawn before the clock starts; the environments' own noise is part of what is measured.
    Observations, rewards and costs are summed, so that none of them can be left out. The fastest repeat counts.
    """
    twin = make_twin(env_id)
    length, rounds = twin.max_episode_steps, 10
    shape = (rounds, length, num_envs, 2)
    actions = jax.random.uniform(jax.random.key(0), shape, minval=-1.0, maxval=1.0)

    def episode(
        carry: tuple[PRNGKeyArray, Float[Array, " n"]], actions: Float[Array, "t n 2"]
    ) -> tuple[tuple[PRNGKeyArray, Float[Array, " n"]], None]:
        key, total = carry
        key, start = jax.random.split(key)
        state, _ = jax.vmap(twin.reset)(jax.random.split(start, num_envs))

        def step(carry: tuple, inputs: tuple) -> tuple[tuple, None]:  # type: ignore[type-arg]
            state, total = carry
            key, action = inputs
            stepped = jax.vmap(twin.step)(jax.random.split(key, num_envs), state, action)
            seen = stepped.reward + stepped.cost.sum(axis=1) + stepped.observation.sum(axis=1)
            return (stepped.state, total + seen), None

        (_, total), _ = jax.lax.scan(step, (state, total), (jax.random.split(key, length), actions))
        return (key, total), None

    @jax.jit
    def play(key: PRNGKeyArray, actions: Float[Array, "r t n 2"]) -> Float[Array, " n"]:
        (_, total), _ = jax.lax.scan(episode, (key, jnp.zeros(num_envs)), actions)
        return total

    play(jax.random.key(0), actions).block_until_ready()
    steps, fastest, ends = rounds * length * num_envs, float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < ends or fastest == float("inf"):
        began = time.perf_counter()
        play(jax.random.key(1), actions).block_until_ready()
        fastest = min(fastest, time.perf_counter() - began)
    return steps / fastest
