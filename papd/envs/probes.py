"""Probe CMDPs with known answers: a constrained bandit in closed form, a gridworld solved by linear programming.

An episode goes on after each step with probability ``survival``, so that its undiscounted return is a discounted one
over an infinite horizon, and the optimum over all policies is a stationary one that linear programming over occupancy
measures finds exactly, with its multipliers:

    max <rho, r>  subject to  sum_a rho(s', a) - survival <rho, P(s' | .)> = start(s'),  <rho, c_i> <= d_i,  rho >= 0
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jaxtyping import Array, Float, Int, PRNGKeyArray

from papd.envs.cmdp import CMDP, Action, Box, Discrete, State, Step
from papd.errors import ConfigError

NEGLIGIBLE = 1e-4
"""Episodes are truncated where fewer than this share of them would still go on."""


@dataclass(frozen=True)
class Optimum:
    """The best feasible policy of a tabular CMDP and what it earns in a mean episode."""

    episode_return: float
    costs: tuple[float, ...]
    multipliers: tuple[float, ...]
    policy: Float[np.ndarray, "states actions"]


class Tabular(CMDP):
    """A finite CMDP: one-hot observations, discrete actions, rewards and costs of (state, action)."""

    transitions: Float[Array, "states actions states"]
    rewards: Float[Array, "states actions"]
    costs: Float[Array, "states actions m"]
    start: Float[Array, " states"]
    survival: float = eqx.field(static=True)
    title: str = eqx.field(static=True)

    @property
    def name(self) -> str:
        """The title it was made with."""
        return self.title

    @property
    def observation_space(self) -> Box:
        """One-hot vectors."""
        states = self.rewards.shape[0]
        return Box((0.0,) * states, (1.0,) * states)

    @property
    def action_space(self) -> Discrete:
        """The columns of the tables."""
        return Discrete(self.rewards.shape[1])

    @property
    def cost_names(self) -> tuple[str, ...]:
        """cost, or cost_0, cost_1, ... for several."""
        count = self.costs.shape[2]
        return ("cost",) if count == 1 else tuple(f"cost_{i}" for i in range(count))

    @property
    def max_episode_steps(self) -> int:
        """Long enough that truncation is negligible."""
        if self.survival == 0:
            return 1
        return int(np.ceil(np.log(NEGLIGIBLE) / np.log(self.survival)))

    def reset(self, key: PRNGKeyArray) -> tuple[State, Float[Array, " observation"]]:
        """A first state, and no step taken."""
        place = jax.random.categorical(key, jnp.log(self.start))
        return (place, jnp.int32(0)), self._observe(place)

    def step(self, key: PRNGKeyArray, state: State, action: Action) -> Step:
        """Earn the table's reward and costs, move, and perhaps end."""
        place, steps = state
        move_key, end_key = jax.random.split(key)
        following = jax.random.categorical(move_key, jnp.log(self.transitions[place, action]))
        terminated = ~jax.random.bernoulli(end_key, self.survival)
        return Step(
            state=(following, steps + 1),
            observation=self._observe(following),
            reward=self.rewards[place, action],
            cost=self.costs[place, action],
            terminated=terminated,
            truncated=~terminated & (steps + 1 >= self.max_episode_steps),
        )

    def _observe(self, place: Int[Array, ""]) -> Float[Array, " observation"]:
        return jax.nn.one_hot(place, self.rewards.shape[0])

    def solve(self, limits: tuple[float, ...]) -> Optimum:
        """The constrained optimum, by linear programming (HiGHS)."""
        states, actions, count = self.costs.shape
        if len(limits) != count:
            raise ConfigError(f"{len(limits)} limits for {count} costs: give one limit for each cost")
        stays = np.repeat(np.eye(states), actions, axis=1)
        flow = stays - self.survival * np.asarray(self.transitions, float).reshape(-1, states).T
        costs = np.asarray(self.costs, float).reshape(-1, count)
        found = scipy.optimize.linprog(
            -np.asarray(self.rewards, float).ravel(),
            A_ub=costs.T,
            b_ub=np.asarray(limits, float),
            A_eq=flow,
            b_eq=np.asarray(self.start, float),
            method="highs",
        )
        if found.status != 0:
            raise ConfigError(f"no policy of {self.name} keeps its costs within {limits}: {found.message}")
        occupancy = found.x.reshape(states, actions)
        visits = np.maximum(occupancy.sum(axis=1, keepdims=True), 1e-12)
        return Optimum(
            episode_return=float(-found.fun),
            costs=tuple(float(c) for c in costs.T @ found.x),
            multipliers=tuple(float(-m) for m in found.ineqlin.marginals),
            policy=occupancy / visits,
        )


def bandit(rewards: tuple[float, float] = (1.0, 0.2), costs: tuple[float, float] = (1.0, 0.0)) -> Tabular:
    """Two arms, one pull an episode.

    With the limit d between the costs, the optimum pulls arm 0 with probability (d - c1) / (c0 - c1) and its
    multiplier is (r0 - r1) / (c0 - c1).
    """
    return Tabular(
        transitions=jnp.ones((1, 2, 1)),
        rewards=jnp.array([rewards]),
        costs=jnp.array(costs).reshape(1, 2, 1),
        start=jnp.ones(1),
        survival=0.0,
        title="papd/Bandit",
    )


MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
"""Up, down, left, right, as (row, column)."""


def gridworld(
    layout: tuple[str, ...] = ("S.#G", "..#.", "....", "...."), *, slip: float = 0.1, survival: float = 0.95
) -> Tabular:
    """A map of S (starts), G (reward 1 a step), # (cost 1 a step), % (a second cost) and free cells.

    A move goes in another random direction with probability ``slip``, and nowhere at the border.
    """
    rows, columns = len(layout), len(layout[0])
    if any(len(row) != columns for row in layout) or not set("".join(layout)) <= set("SG#%."):
        raise ConfigError(f"layout={layout}: rows of one length, made of S, G, #, % and .")
    cells = "".join(layout)
    if "S" not in cells or "G" not in cells:
        raise ConfigError(f"layout={layout}: mark at least one start S and one goal G")
    if not (0 <= slip <= 1 and 0 <= survival < 1):
        raise ConfigError(f"slip={slip}, survival={survival}: slip in [0, 1], survival in [0, 1)")
    steps = np.zeros((rows * columns, len(MOVES), rows * columns))
    for place in range(rows * columns):
        for action, (down, right) in enumerate(MOVES):
            row = min(max(place // columns + down, 0), rows - 1)
            column = min(max(place % columns + right, 0), columns - 1)
            steps[place, action, row * columns + column] += 1
    slipping = steps.mean(axis=1, keepdims=True)
    kinds = [kind for kind in "#%" if kind in cells] or ["#"]
    costs = np.array([[cell == kind for kind in kinds] for cell in cells], np.float32)
    starts = np.array([cell == "S" for cell in cells], np.float32)
    rewards = np.array([cell == "G" for cell in cells], np.float32)
    return Tabular(
        transitions=jnp.asarray((1 - slip) * steps + slip * slipping, jnp.float32),
        rewards=jnp.asarray(np.repeat(rewards[:, None], len(MOVES), axis=1)),
        costs=jnp.asarray(np.repeat(costs[:, None, :], len(MOVES), axis=1)),
        start=jnp.asarray(starts / starts.sum()),
        survival=survival,
        title="papd/Gridworld",
    )
