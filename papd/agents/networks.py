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


NARROW = 32
"""Up to so many inputs a layer is computed again, transposed, in less time than its output takes to be transposed."""


@jax.custom_vjp
def rows_product(
    x: Float[Array, "n i"], transposed: Float[Array, "i n"], weight: Float[Array, "i o"]
) -> Float[Array, "n o"]:
    """x W for many rows; ``transposed`` is x^T, for the gradient of W and nothing else.

    The gradient is x^T g. As automatic differentiation writes it, XLA's CPU runtime computes it at half the speed of
    its other products, and at a tenth where g is narrow. With x^T at hand, or as (g^T x)^T, it is as fast as they are.
    """
    return x @ weight


def _product_and_factors(
    x: Array, transposed: Array, weight: Array
) -> tuple[Array, tuple[Array, Array, Array]]:
    return x @ weight, (x, transposed, weight)


def _product_gradient(given: tuple[Array, Array, Array], gradient: Array) -> tuple[Array, Array, Array]:
    x, transposed, weight = given
    inputs, outputs = weight.shape
    by_weight = _apart(gradient.T @ x).T if outputs < inputs else transposed @ gradient
    return gradient @ weight.T, jnp.zeros_like(transposed), by_weight


rows_product.defvjp(_product_and_factors, _product_gradient)


def _apart(x: Array) -> Array:
    """The same; a transposition before or after it is not folded into a product."""
    same: Array = jax.lax.optimization_barrier(x)  # type: ignore[no-untyped-call]
    return same


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

    def rows(self, x: Float[Array, "n inputs"]) -> Float[Array, "n outputs"]:
        """``jax.vmap`` of the network, faster to differentiate by its weights (in reverse mode alone)."""
        across = _apart(x.T)
        for layer in self.layers[:-1]:
            narrow = x.shape[1] <= NARROW
            y = jax.nn.relu(
                rows_product(x, jax.lax.stop_gradient(across), layer.weight) + layer.bias[None, :]
            )
            across = jax.nn.relu(layer.weight.T @ across + layer.bias[:, None]) if narrow else _apart(y.T)
            x = y
        last = self.layers[-1]
        return rows_product(x, jax.lax.stop_gradient(across), last.weight) + last.bias[None, :]


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
    """A distribution over actions for each observation, written as a function of the observation and of noise."""

    @property
    @abc.abstractmethod
    def network(self) -> MLP:
        """What maps an observation to the distribution's parameters."""

    @property
    @abc.abstractmethod
    def scale(self) -> Float[Array, " n"]:
        """What :meth:`explore` multiplies the noise by."""

    @abc.abstractmethod
    def mode(self, observation: Float[Array, " observation"]) -> AgentAction:
        """The most likely action."""

    @abc.abstractmethod
    def noise(self, key: PRNGKeyArray) -> Float[Array, " n"]:
        """What a random action is made of beside the observation. It can be drawn long before."""

    @abc.abstractmethod
    def explore(self, observation: Float[Array, " observation"], noise: Float[Array, " n"]) -> AgentAction:
        """The random action of this noise."""

    def sample(self, key: PRNGKeyArray, observation: Float[Array, " observation"]) -> AgentAction:
        """A random action."""
        return self.explore(observation, self.noise(key))


class StochasticPolicy(Policy):
    """A policy whose probabilities PPO needs: a distribution that its network's output names."""

    @abc.abstractmethod
    def log_prob_of(self, output: Float[Array, " k"], action: AgentAction) -> Float[Array, ""]:
        """The logarithm of the action's density (or probability), given the network's output."""

    @abc.abstractmethod
    def entropy_of(self, output: Float[Array, " k"]) -> Float[Array, ""]:
        """The entropy of the distribution, given the network's output."""

    def log_prob(self, observation: Float[Array, " observation"], action: AgentAction) -> Float[Array, ""]:
        """The logarithm of the action's density (or probability)."""
        return self.log_prob_of(self.network(observation), action)

    def entropy(self, observation: Float[Array, " observation"]) -> Float[Array, ""]:
        """The entropy of the distribution."""
        return self.entropy_of(self.network(observation))


class GaussianPolicy(StochasticPolicy):
    """A normal distribution with tanh-bounded mean and a standard deviation that no state changes."""

    mean: MLP
    log_std: Float[Array, " action"]

    @property
    def network(self) -> MLP:
        """The mean's, before the tanh."""
        return self.mean

    @property
    def scale(self) -> Float[Array, " action"]:
        """The standard deviation."""
        return jnp.exp(self.log_std)

    def mode(self, observation: Float[Array, " observation"]) -> AgentAction:
        """The mean, in [-1, 1]."""
        return jnp.tanh(self.mean(observation))

    def noise(self, key: PRNGKeyArray) -> Float[Array, " action"]:
        """Standard normal."""
        return jax.random.normal(key, self.log_std.shape)

    def explore(
        self, observation: Float[Array, " observation"], noise: Float[Array, " action"]
    ) -> AgentAction:
        """Mean plus scaled noise, which may leave [-1, 1]."""
        return self.mode(observation) + self.scale * noise

    def log_prob_of(self, output: Float[Array, " action"], action: AgentAction) -> Float[Array, ""]:
        """Summed over the action's dimensions."""
        z = (action - jnp.tanh(output)) * jnp.exp(-self.log_std)
        return -0.5 * jnp.sum(z * z) - jnp.sum(self.log_std) - 0.5 * math.log(2 * math.pi) * z.size

    def entropy_of(self, output: Float[Array, " action"]) -> Float[Array, ""]:
        """The same everywhere."""
        return jnp.sum(self.log_std) + 0.5 * (1 + math.log(2 * math.pi)) * output.size


class CategoricalPolicy(StochasticPolicy):
    """A softmax over the numbers of a discrete action space."""

    logits: MLP

    @property
    def network(self) -> MLP:
        """The logits'."""
        return self.logits

    @property
    def scale(self) -> Float[Array, " choices"]:
        """Noise as it is."""
        return jnp.ones_like(self.logits.layers[-1].bias)

    def mode(self, observation: Float[Array, " observation"]) -> AgentAction:
        """The choice of the largest logit."""
        return jnp.argmax(self.logits(observation))

    def noise(self, key: PRNGKeyArray) -> Float[Array, " choices"]:
        """Gumbel's distribution: the largest of logits plus this is drawn from their softmax."""
        return jax.random.gumbel(key, self.logits.layers[-1].bias.shape)

    def explore(
        self, observation: Float[Array, " observation"], noise: Float[Array, " choices"]
    ) -> AgentAction:
        """A choice drawn from the softmax."""
        return jnp.argmax(self.logits(observation) + self.scale * noise)

    def log_prob_of(self, output: Float[Array, " choices"], action: AgentAction) -> Float[Array, ""]:
        """The log-softmax at the choice."""
        return jax.nn.log_softmax(output)[action]

    def entropy_of(self, output: Float[Array, " choices"]) -> Float[Array, ""]:
        """-sum p log p."""
        log_p = jax.nn.log_softmax(output)
        return -jnp.sum(jnp.exp(log_p) * log_p)


class DeterministicPolicy(Policy):
    """A tanh-bounded action, explored with Gaussian noise of a fixed standard deviation (DDPG)."""

    action: MLP
    exploration: float = eqx.field(static=True)
    """Standard deviation."""

    @property
    def network(self) -> MLP:
        """The action's, before the tanh."""
        return self.action

    @property
    def scale(self) -> Float[Array, " action"]:
        """The same for each action."""
        return jnp.full_like(self.action.layers[-1].bias, self.exploration)

    def mode(self, observation: Float[Array, " observation"]) -> AgentAction:
        """The action, in [-1, 1]."""
        return jnp.tanh(self.action(observation))

    def modes(self, observation: Float[Array, "n observation"]) -> Float[Array, "n action"]:
        """The actions for many observations, to be differentiated by the weights."""
        return jnp.tanh(self.action.rows(observation))

    def noise(self, key: PRNGKeyArray) -> Float[Array, " action"]:
        """Standard normal."""
        return jax.random.normal(key, self.action.layers[-1].bias.shape)

    def explore(
        self, observation: Float[Array, " observation"], noise: Float[Array, " action"]
    ) -> AgentAction:
        """The action plus scaled noise, which may leave [-1, 1]."""
        return self.mode(observation) + self.scale * noise


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
