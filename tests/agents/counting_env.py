"""An environment whose every number is known: it counts its steps, and ends as it is told."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from papd.envs.cmdp import CMDP, Action, Box, Discrete, Space, State, Step


class Counting(CMDP):
    """Reward 1 and cost ``cost`` a step; the episode lasts a random length from ``shortest`` to ``longest``.

    It terminates if that length is even and is truncated if it is odd. The observation is (steps, length).
    """

    shortest: int
    longest: int
    cost: float = 0.5
    discrete: bool = False

    @property
    def name(self) -> str:
        return "test/Counting"

    @property
    def observation_space(self) -> Box:
        return Box((0.0, 0.0), (100.0, 100.0))

    @property
    def action_space(self) -> Space:
        return Discrete(3) if self.discrete else Box((-2.0,), (6.0,))

    @property
    def cost_names(self) -> tuple[str, ...]:
        return ("cost",)

    @property
    def max_episode_steps(self) -> int:
        return self.longest

    def reset(self, key: PRNGKeyArray) -> tuple[State, Float[Array, " observation"]]:
        length = jax.random.randint(key, (), self.shortest, self.longest + 1)
        return (jnp.int32(0), length), jnp.stack([jnp.float32(0), length.astype(jnp.float32)])

    def step(self, key: PRNGKeyArray, state: State, action: Action) -> Step:
        steps, length = state
        steps = steps + 1
        over, even = steps >= length, length % 2 == 0
        observation = jnp.stack([steps, length]).astype(jnp.float32)
        cost = jnp.full(1, self.cost)
        return Step((steps, length), observation, jnp.float32(1), cost, over & even, over & ~even)
