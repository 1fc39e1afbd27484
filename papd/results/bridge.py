"""From theory to practice: the L_R and L_C of a policy in training, and the h1 and h2 that they would
suggest.

papd theory --bridge [--steps N ...] [--out DIR]

The losses are those of PPO-Lagrangian's update (the clipped surrogate of the reward, the surrogate of each
cost, advantages normalised), as functions of the policy alone, at the policy that collected the data. With
one constraint eq. two_lr_prac is h1 = 1/(2 L_C) and h2 = L_R/L_C. Adam divides each direction by a running
size, so the same is measured in Adam's metric too.
"""

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray
from rich import box
from rich.table import Table

from papd.agents.hyper import PPOHyper
from papd.agents.networks import StochasticPolicy
from papd.agents.ppo_lag import PPOState, Rows, ppol_loss, prepare
from papd.agents.rollout import collect
from papd.core.curvature import Ends, spectrum_ends
from papd.envs.cmdp import CMDP
from papd.errors import ConfigError
from papd.runs.agent import Agent, PPOLag, Row

ENVIRONMENTS = ("SafetyBallRun-v0", "SafetyCarRun-v0", "SafetyBallCircle-v0", "SafetyCarCircle-v0")
"""The paper's four."""
STEPS = (20_000, 100_000, 300_000)
"""Where in training the curvature is measured."""
PRODUCTS = 30
"""Hessian-vector products for each spectrum."""
MOST_ROWS = 2000
"""Transitions the losses are means over: the batch of the moment, thinned out evenly."""
ADAM_DECAY, ADAM_EPSILON = 0.999, 1e-8
"""What optax.scale_by_adam has by default, and the trainer uses."""


@dataclass(frozen=True)
class Curvature:
    """One measurement, plain or in Adam's metric."""

    objective: float
    """L_R: the largest eigenvalue, in size, of the reward loss's Hessian."""
    cost: float
    """L_C of the first cost."""
    lowest: float
    """The least eigenvalue of the Lagrangian's Hessian at the multiplier of the moment: negative, there is no
    mu.
    """
    residual: float
    """The largest relative residual of the eigenvalues."""

    @property
    def h1(self) -> float:
        """1 / (2 L_C)."""
        return 1.0 / (2.0 * self.cost)

    @property
    def h2(self) -> float:
        """L_R / L_C."""
        return self.objective / self.cost


@dataclass(frozen=True)
class Bridge:
    """What theory would have suggested at one moment of one training."""

    env: str
    seed: int
    env_steps: int
    return_mean: float
    cost_mean: float
    multiplier: float
    plain: Curvature
    adam: Curvature
    products: int
    """Hessian-vector products of both measurements."""
    seconds: float
    """What both measurements took, compiled."""
    iteration_seconds: float
    """What one iteration of training takes, to set it against."""

    def to_json(self) -> dict[str, Any]:
        """JSON values, with the suggestions."""
        value = asdict(self)
        for name, measured in (("plain", self.plain), ("adam", self.adam)):
            value[name] |= {"h1": measured.h1, "h2": measured.h2}
        return value


def measure(agent: PPOLag, key: PRNGKeyArray) -> tuple[Curvature, Curvature]:
    """The curvature of an agent's losses where it stands: plain, and in the metric of its Adam."""
    learner = agent.state.learner
    if not isinstance(agent.env, CMDP) or not isinstance(learner, PPOState):
        raise ConfigError(
            f"{agent.env.name}: the curvature is measured for PPOLag on an environment written in JAX"
        )
    assert isinstance(agent.hyper, PPOHyper)
    multiplier = agent.state.multiplier.value
    ends = _measure(agent.env, agent.hyper, learner, agent.state.player, multiplier, key)
    plain, adam = (_curvature(found) for found in jax.device_get(ends))
    return plain, adam


def _curvature(ends: tuple[Ends, Ends, Ends]) -> Curvature:
    objective, cost, whole = ends
    return Curvature(
        objective=float(objective.lipschitz),
        cost=float(cost.lipschitz),
        lowest=float(whole.lowest),
        residual=max(float(found.residual) for found in ends),
    )


@partial(jax.jit, static_argnums=1)
def _measure(
    env: CMDP,
    hyper: PPOHyper,
    learner: PPOState,
    player: Any,
    multiplier: Float[Array, " m"],
    key: PRNGKeyArray,
) -> tuple[tuple[Ends, Ends, Ends], tuple[Ends, Ends, Ends]]:
    collect_key, start_key = jax.random.split(key)
    _, batch, _ = collect(env, learner.policy, hyper, player, collect_key)
    rows = _thinned(prepare(hyper, learner.networks, batch))
    at, unravel = ravel_pytree(learner.policy)
    alone = dataclasses.replace(hyper, rescale_loss=False)
    nothing = jnp.zeros_like(multiplier)
    first = nothing.at[0].set(1.0)

    def ends(scale: Float[Array, " n"] | None) -> tuple[Ends, Ends, Ends]:
        def of(reward: float, costs: Float[Array, " m"]) -> Ends:
            def loss(vector: Float[Array, " n"]) -> Float[Array, ""]:
                return surrogate(alone, unravel(vector), rows, reward, costs)

            return spectrum_ends(loss, at, start_key, scale=scale, products=PRODUCTS)

        return of(1.0, nothing), of(0.0, first), of(1.0, multiplier)

    return ends(None), ends(adam_scale(learner))


def _thinned(rows: Rows) -> Rows:
    """Every so-many-th row. Whole episodes keep their padding at weight 0, which thins out with the rest."""
    stride = -(-rows.log_prob.shape[0] // MOST_ROWS)
    thin: Rows = jax.tree.map(lambda leaf: leaf[::stride], rows)
    return thin


def surrogate(
    hyper: PPOHyper, policy: StochasticPolicy, rows: Rows, reward: float, costs: Float[Array, " m"]
) -> Float[Array, ""]:
    """``reward`` times the reward's loss plus ``costs`` times the costs', as PPO-Lagrangian's update has
    them.
    """
    log_prob = jax.vmap(policy.log_prob)(rows.observation, rows.action)
    weight = rows.weight / jnp.sum(rows.weight)
    advantages = rows.advantages
    if hyper.normalize_advantages:
        centred = advantages - (weight @ advantages)[None, :]
        deviation = jnp.sqrt(weight @ centred**2) + 1e-8
        advantages = centred / deviation[None, :]
    advantages = advantages * jnp.concatenate([jnp.full(1, reward), jnp.ones_like(costs)])[None, :]
    return ppol_loss(hyper, log_prob - rows.log_prob, advantages, costs, weight)


def adam_scale(learner: PPOState) -> Float[Array, " n"]:
    """The root of what Adam multiplies each direction of the policy with: (sqrt(v) + eps) ** -1/2."""
    states = [state for state in learner.optimizer if isinstance(state, optax.ScaleByAdamState)]
    second, _ = ravel_pytree(states[0].nu.policy)
    unbiased = second / (1.0 - ADAM_DECAY ** states[0].count.astype(second.dtype))
    return jnp.sqrt(1.0 / (jnp.sqrt(unbiased) + ADAM_EPSILON))


def bridge(envs: Sequence[str] = ENVIRONMENTS, steps: Sequence[int] = STEPS, seeds: int = 1) -> list[Bridge]:
    """Train PPO-Lagrangian with the paper's InvQua on the twins and measure along the way."""
    return [row for env in envs for seed in range(seeds) for row in _one_run(env, seed, sorted(steps))]


def _one_run(env: str, seed: int, steps: Sequence[int]) -> list[Bridge]:
    agent = PPOLag(env, backend="twin", seed=seed)
    rows = []
    for goal in steps:
        history: list[Row] = []

        def keep(_: Agent, row: Row, history: list[Row] = history) -> None:
            history.append(row)

        begun = time.perf_counter()
        agent.learn(max(1, goal - agent.env_steps), keep)
        each = (time.perf_counter() - begun) / len(history)
        key = jax.random.fold_in(jax.random.key(seed), goal)
        measure(agent, key)  # compiles
        begun = time.perf_counter()
        plain, adam = measure(agent, key)
        seconds = time.perf_counter() - begun
        late = history[-max(1, len(history) // 10) :]
        rows.append(
            Bridge(
                env=env,
                seed=seed,
                env_steps=agent.env_steps,
                return_mean=float(np.mean([row["return_mean"] for row in late])),
                cost_mean=float(np.mean([row["cost_mean"] for row in late])),
                multiplier=float(late[-1]["multiplier"]),
                plain=plain,
                adam=adam,
                products=2 * 3 * PRODUCTS,
                seconds=seconds,
                iteration_seconds=each,
            )
        )
    return rows


def bridge_table(rows: Sequence[Bridge]) -> Table:
    """One line a measurement: plain, and in Adam's metric."""
    table = Table(
        title="What the theory would suggest for h1 and h2", box=box.SIMPLE_HEAD, title_justify="left"
    )
    for column in ("environment", "steps", "lambda", "metric", "L_R", "L_C", "h2", "h1", "lowest", "seconds"):
        table.add_column(column, justify="left" if column in ("environment", "metric") else "right")
    for row in rows:
        for name, found in (("plain", row.plain), ("Adam", row.adam)):
            head = (row.env, f"{row.env_steps}", f"{row.multiplier:.2g}") if name == "plain" else ("", "", "")
            cost = f"{row.seconds:.2g}" if name == "plain" else ""
            measured = (found.objective, found.cost, found.h2, found.h1, found.lowest)
            table.add_row(*head, name, *(f"{value:.2g}" for value in measured), cost)
    return table
