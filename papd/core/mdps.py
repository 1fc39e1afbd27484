"""Two constrained MDPs whose returns and costs are exact: an LQR with a limit on its state, and a tabular
CMDP.

The LQR is strongly convex in its policy (disturbance feedback), so every assumption of the paper holds in it.
The tabular CMDP has bounded costs and a softmax policy: its Lagrangian is not convex in the policy's
parameters, so the theorems that need no convexity can be met there, and the lemma cannot.
"""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from papd.core.apd import Optimum, Problem, Scalar
from papd.core.linear import solve
from papd.core.problems import Quadratic, quadratic
from papd.errors import ConfigError

SWEEPS = 200
"""Sweeps of soft value iteration: 0.9 ** 200 is below the rounding of the values these problems have."""


Limited = TypeVar("Limited", bound=Problem)


class Tabular(Problem):
    """A CMDP with S states and A actions under a softmax policy, its return with an entropy bonus.

    theta holds the logits, state by state. f = -(J_R + temperature * H), H the discounted entropy of the
    policy's actions. For rewards and costs in [0, 1] and this policy the gradients are Lipschitz with 8 /
    (1-gamma)^3 for a value and (4 + 8 log A) / (1-gamma)^3 for H (Mei, Xiao, Szepesvari and Schuurmans, 2020,
    lemmas 7 and 14): worst cases over all MDPs.
    """

    transition: Float[Array, "S A S"]
    reward: Float[Array, "S A"]
    cost: Float[Array, "m S A"]
    initial: Float[Array, " S"]
    discount: Scalar
    temperature: Scalar
    limits: Float[Array, " m"]
    smoothness_objective: Scalar
    smoothness_costs: Float[Array, " m"]
    strong_convexity: Scalar

    def _values(self, theta: Float[Array, " n"], signals: Float[Array, "k S A"]) -> Float[Array, " k"]:
        """The discounted sums of some signals from the first state, by one linear solve."""
        policy = self.policy(theta)
        chain = jnp.einsum("sa,sat->st", policy, self.transition)
        system = jnp.eye(chain.shape[0]) - self.discount * chain
        visits = solve(system.T, self.initial)  # each column of the system is dominated by its diagonal
        return jnp.einsum("s,sa,ksa->k", visits, policy, signals)

    def policy(self, theta: Float[Array, " n"]) -> Float[Array, "S A"]:
        """pi(a | s)."""
        return jax.nn.softmax(theta.reshape(self.reward.shape), axis=-1)

    def objective(self, theta: Float[Array, " n"]) -> Scalar:
        """-(J_R + temperature * H)."""
        surprise = -jax.nn.log_softmax(theta.reshape(self.reward.shape), axis=-1)
        return -self._values(theta, (self.reward + self.temperature * surprise)[None])[0]

    def costs(self, theta: Float[Array, " n"]) -> Float[Array, " m"]:
        """J_C."""
        return self._values(theta, self.cost)

    def minimiser(self, multiplier: Float[Array, " m"]) -> Float[Array, " n"]:
        """The best policy at this multiplier, by soft value iteration on the reward r - lambda^T c."""
        reward = self.reward - jnp.tensordot(multiplier, self.cost, axes=1)

        def sweep(logits: Float[Array, "S A"], _: None) -> tuple[Float[Array, "S A"], None]:
            value = self.temperature * jax.nn.logsumexp(logits, axis=-1)
            future = self.discount * jnp.einsum("sat,t->sa", self.transition, value)
            return (reward + future) / self.temperature, None

        logits, _ = jax.lax.scan(sweep, reward / self.temperature, length=SWEEPS)
        return (logits - logits.mean(axis=-1, keepdims=True)).reshape(-1)


def tabular(
    seed: int = 0,
    *,
    states: int = 5,
    actions: int = 3,
    discount: float = 0.6,
    temperature: float = 0.1,
    tightness: float = 0.5,
) -> tuple[Tabular, Optimum]:
    """A random CMDP with one cost in [0, 1], so that the paper's B is 1, limited part of the way from the
    return's best policy (``tightness`` 0) to the cost's least (1).
    """
    rng = np.random.default_rng(seed)
    smooth = 8.0 / (1.0 - discount) ** 3
    entropy = (4.0 + 8.0 * np.log(actions)) / (1.0 - discount) ** 3
    reward = rng.uniform(size=(states, actions))
    # Doing well costs: without a conflict the constraint would be idle.
    cost = np.clip(0.7 * reward + 0.3 * rng.uniform(size=(states, actions)), 0.0, 1.0)[None]
    arrays = (
        rng.dirichlet(np.ones(states), size=(states, actions)),
        reward,
        cost,
        np.full(states, 1.0 / states),
        np.asarray(discount),
        np.asarray(temperature),
        np.zeros(1),
        np.asarray(smooth + temperature * entropy),
        np.full(1, smooth),
        np.asarray(0.0),
    )
    free = Tabular(*(jnp.asarray(np.asarray(array, dtype=float)) for array in arrays))
    return _limited(free, tightness)


def lqr(
    *, horizon: int = 5, discount: float = 0.95, noise: float = 0.5, tightness: float = 0.3
) -> tuple[Quadratic, Optimum]:
    """A double integrator with noise: cheap control is the return, the expected square of the position is the
    cost.

    The policy is u_t = v_t + sum_{s<t} M_{t,s} w_s (disturbance feedback: every linear feedback on the states
    is one of these) with theta = (v, M). States and actions are affine in theta, so J_R and J_C are
    quadratics, and the price of the action makes f strongly convex. The costs have no bound: B is that of the
    policies visited.
    """
    size = horizon + horizon * (horizon - 1)  # v_t, and the two entries of M_{t,s} for s < t
    weights = discount ** np.arange(horizon)
    objective, cost = _Squares(size), _Squares(size)
    disturbances = [(s, part) for s in range(horizon) for part in range(2)]
    for source in (None, *disturbances):
        weight = weights if source is None else noise**2 * weights
        base = _respond(np.zeros(size), horizon, source)
        maps = np.stack([_respond(row, horizon, source) - base for row in np.eye(size)], axis=-1)
        cost.add(weight, maps[0], base[0])
        objective.add(0.1 * weight, maps[1], base[1])
        objective.add(weight, maps[2], base[2])
    return _limited(
        quadratic(
            objective.hessian,
            objective.linear,
            cost.hessian[None],
            cost.linear[None],
            np.array([cost.constant]),
            np.zeros(1),
        ),
        tightness,
    )


class _Squares:
    """A sum of weighted squares of affine functions, as one quadratic 1/2 t'Ht + l't + c."""

    def __init__(self, size: int):
        self.hessian, self.linear, self.constant = np.zeros((size, size)), np.zeros(size), 0.0

    def add(self, weights: np.ndarray, mapping: np.ndarray, base: np.ndarray) -> None:
        """Add sum_t weights_t (mapping theta + base)_t^2."""
        self.hessian += 2 * mapping.T @ (weights[:, None] * mapping)
        self.linear += 2 * mapping.T @ (weights * base)
        self.constant += float(weights @ base**2)


def _respond(theta: np.ndarray, horizon: int, source: tuple[int, int] | None) -> np.ndarray:
    """Positions, velocities and actions [3, horizon] that follow from one source of motion.

    The sources are the first state with the open-loop actions (None), or one unit of one part of one
    disturbance.
    """
    dynamics, control = np.array([[1.0, 0.3], [0.0, 0.9]]), np.array([0.0, 0.3])
    opened, gains = theta[:horizon], theta[horizon:].reshape(-1, 2)
    state = np.array([1.0, 0.0]) if source is None else np.zeros(2)
    rows = []
    for t in range(horizon):
        action = opened[t] if source is None else 0.0
        if source is not None and source[0] < t:
            action = gains[t * (t - 1) // 2 + source[0], source[1]]
        state = dynamics @ state + control * action
        if source is not None and source[0] == t:
            state = state + np.eye(2)[source[1]]
        rows.append([*state, action])
    return np.array(rows).T


def _limited(problem: Limited, tightness: float) -> tuple[Limited, Optimum]:
    """Give a problem with one cost a limit between its unconstrained cost and its least, and solve it by
    bisection.

    The cost of theta*(lambda) falls as lambda grows (it is the dual's derivative), so its root is lambda*.
    """
    if not 0.0 < tightness < 1.0:
        raise ConfigError(
            f"tightness={tightness}: it must lie between 0 (idle constraint) and 1 (no room inside)"
        )

    def cost_at(multiplier: Float[Array, ""]) -> Float[Array, ""]:
        return problem.costs(problem.minimiser(multiplier[None]))[0]

    cost_at = jax.jit(cost_at)
    low, high = jnp.asarray(0.0), jnp.asarray(1e3)
    limit = (1.0 - tightness) * cost_at(low) + tightness * cost_at(high)
    inside = problem.minimiser(high[None])
    for _ in range(100):
        middle = (low + high) / 2.0
        low, high = (middle, high) if cost_at(middle) > limit else (low, middle)
    multiplier = high[None]
    limited = eqx.tree_at(lambda tree: tree.limits, problem, limit[None])
    return limited, Optimum(limited.minimiser(multiplier), multiplier, inside)
