"""Policies and critics: multilayer perceptrons with ReLU, orthogonally initialised, as pytrees of arrays.

Every network maps one observation; batches are ``jax.vmap``. Initialisation runs in NumPy, outside any compiled
program: a batched QR inside one deadlocks on two CPU cores (see docs/agents.md).
"""

import abc
import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from papd.envs.cmdp import Box, Discrete, Space

AgentAction = Float[Array, " action"] | Int[Array, ""]
"""An action as the policy knows it: a vector around [-1, 1], or the number of a choice."""


class Linear(eqx.Module):
    """x W + b."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        """The affine map of one vector."""
        return x @ self.weight + self.bias


class MLP(eqx.Module):
    """Hidden ReLU layers and a linear output layer."""

    layers: tuple[Linear, ...]

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        """The network's value at one vector."""
        for layer in self.layers[:-1]:
            x = jax.nn.relu(layer(x))
        return self.layers[-1](x)


def make_mlp(rng: np.random.Generator, inputs: int, hidden_sizes: tuple[int, ...], outputs: int) -> MLP:
    """A network with orthogonal weights and no bias."""
    sizes = (inputs, *hidden_sizes, outputs)
    return MLP(
        tuple(Linear(jnp.asarray(orthogonal(rng, i, o)), jnp.zeros(o)) for i, o in itertools.pairwise(sizes))
    )


def orthogonal(rng: np.random.Generator, rows: int, columns: int) -> Float[np.ndarray, "rows columns"]:
    """A uniformly random matrix with orthonormal rows or columns, whichever are fewer."""
    q, r = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
    q = q * np.sign(np.diag(r))[None, :]
    return (q if rows >= columns else q.T).astype(np.float32)


class Policy(eqx.Module):
    """A distribution over actions for each observation."""

    @abc.abstractmethod
    def mode(self, observation: Float[Array, " observation"]) -> AgentAction:
        """The most likely action."""

    @abc.abstractmethod
    def sample(self, key: PRNGKeyArray, observation: Float[Array, " observation"]) -> AgentAction:
        """A random action."""


class StochasticPolicy(Policy):
    """A policy whose probabilities PPO needs."""

    @abc.abstractmethod
    def log_prob(self, observation: Float[Array, " observation"], action: AgentAction) -> Float[Array, ""]:
        """The logarithm of the action's density (or probability)."""

    @abc.abstractmethod
    def entropy(self, observation: Float[Array, " observation"]) -> Float[Array, ""]:
        """The entropy of the distribution."""


class GaussianPolicy(StochasticPolicy):
    """A normal distribution with tanh-bounded mean and a standard deviation that no state changes."""

    mean: MLP
    log_std: Float[Array, " action"]

    def mode(self, observation: Float[Array, " observation"]) -> AgentAction:
        """The mean, in [-1, 1]."""
        return jnp.tanh(self.mean(observation))

    def sample(self, key: PRNGKeyArray, observation: Float[Array, " observation"]) -> AgentAction:
        """Mean plus noise, which may leave [-1, 1]."""
        noise = jax.random.normal(key, self.log_std.shape)
        return self.mode(observation) + jnp.exp(self.log_std) * noise

    def log_prob(self, observation: Float[Array, " observation"], action: AgentAction) -> Float[Array, ""]:
        """Summed over the action's dimensions."""
        z = (action - self.mode(observation)) * jnp.exp(-self.log_std)
        return -0.5 * jnp.sum(z * z) - jnp.sum(self.log_std) - 0.5 * math.log(2 * math.pi) * z.size

    def entropy(self, observation: Float[Array, " observation"]) -> Float[Array, ""]:
        """The same everywhere."""
        return jnp.sum(self.log_std) + 0.5 * (1 + math.log(2 * math.pi)) * self.log_std.size


class CategoricalPolicy(StochasticPolicy):
    """A softmax over the numbers of a discrete action space."""

    logits: MLP

    def mode(self, observation: Float[Array, " observation"]) -> AgentAction:
        """The choice of the largest logit."""
        return jnp.argmax(self.logits(observation))

    def sample(self, key: PRNGKeyArray, observation: Float[Array, " observation"]) -> AgentAction:
        """A choice drawn from the softmax."""
        return jax.random.categorical(key, self.logits(observation))

    def log_prob(self, observation: Float[Array, " observation"], action: AgentAction) -> Float[Array, ""]:
        """The log-softmax at the choice."""
        return jax.nn.log_softmax(self.logits(observation))[action]

    def entropy(self, observation: Float[Array, " observation"]) -> Float[Array, ""]:
        """-sum p log p."""
        log_p = jax.nn.log_softmax(self.logits(observation))
        return -jnp.sum(jnp.exp(log_p) * log_p)


class DeterministicPolicy(Policy):
    """A tanh-bounded action, explored with Gaussian noise of a fixed standard deviation (DDPG)."""

    action: MLP
    noise: float = eqx.field(static=True)

    def mode(self, observation: Float[Array, " observation"]) -> AgentAction:
        """The action, in [-1, 1]."""
        return jnp.tanh(self.action(observation))

    def sample(self, key: PRNGKeyArray, observation: Float[Array, " observation"]) -> AgentAction:
        """The action plus noise, which may leave [-1, 1]."""
        mode = self.mode(observation)
        return mode + self.noise * jax.random.normal(key, mode.shape)


def make_policy(
    rng: np.random.Generator,
    inputs: int,
    hidden_sizes: tuple[int, ...],
    space: Space,
    initial_log_std: float,
) -> StochasticPolicy:
    """The stochastic policy that fits an action space."""
    if isinstance(space, Discrete):
        return CategoricalPolicy(make_mlp(rng, inputs, hidden_sizes, space.n))
    size = space.shape[0]
    return GaussianPolicy(
        make_mlp(rng, inputs, hidden_sizes, size), jnp.full(size, initial_log_std, jnp.float32)
    )


def to_environment(space: Space, action: AgentAction) -> AgentAction:
    """The action in the environment's units: [-1, 1], clipped, stretched over the box."""
    if not isinstance(space, Box):
        return action
    low, high = space.bounds()
    middle, half = (high + low) / 2, (high - low) / 2
    stretched: AgentAction = middle + half * jnp.clip(action, -1.0, 1.0)
    return stretched
