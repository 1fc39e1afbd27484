"""The hyper-parameters of the agents, with the defaults of the paper's table and of its framework. No JAX here.

They are static: two agents with the same ones share one compiled program. What a population varies (seed, rate,
multiplier, cost limit) is traced and lives in ``papd.agents.state.Controls``.
"""

import dataclasses
import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

from papd.errors import ConfigError

Rollout = Literal["episodes", "steps"]


def _require(holds: bool, name: str, value: object, rule: str) -> None:
    if not holds:
        raise ConfigError(f"{name}={value!r}: {name} must be {rule}")


def _require_kinds(hyper: Any) -> None:
    """Numbers where numbers belong, and no text that would count as true."""
    for field in dataclasses.fields(hyper):
        value = getattr(hyper, field.name)
        truth = isinstance(value, bool)
        if field.type is bool:
            _require(truth, field.name, value, "True or False")
        elif field.type in (int, float):
            _require(isinstance(value, Real) and not truth, field.name, value, "a number")


def _require_fraction(name: str, value: float) -> None:
    _require(0.0 <= value <= 1.0, name, value, "between 0 and 1")


def _require_positive(name: str, value: float) -> None:
    _require(math.isfinite(value) and value > 0, name, value, "a finite number > 0")


def _require_count(name: str, value: int) -> None:
    _require(isinstance(value, int) and value >= 1, name, value, "a whole number >= 1")


def _require_networks(hidden_sizes: tuple[int, ...]) -> None:
    rule = "one or more layer sizes >= 1, for example (128, 128)"
    sizes = hidden_sizes if isinstance(hidden_sizes, tuple) else ()
    fits = len(sizes) > 0 and all(isinstance(size, int) and size >= 1 for size in sizes)
    _require(fits, "hidden_sizes", hidden_sizes, rule)


def _require_rollout(rollout: str, steps_per_iteration: int, num_envs: int) -> None:
    _require(rollout in ("episodes", "steps"), "rollout", rollout, "'episodes' or 'steps'")
    rule = f"at least num_envs ({num_envs}) and a multiple of it"
    fits = steps_per_iteration >= num_envs and steps_per_iteration % num_envs == 0
    _require(rollout == "episodes" or fits, "steps_per_iteration", steps_per_iteration, rule)


@dataclass(frozen=True)
class PPOHyper:
    """PPO-Lagrangian: what is fixed when its program is compiled."""

    hidden_sizes: tuple[int, ...] = (128, 128)
    """Units of each hidden ReLU layer, of the policy and of every critic."""
    gamma: float = 0.99
    """Discount factor."""
    gae_lambda: float = 0.95
    """Lambda of generalised advantage estimation."""
    clip_ratio: float = 0.2
    """The probability ratio is clipped to 1 +- this."""
    target_kl: float = 0.02
    """A repeat whose mean KL passes 1.5 times this is the last of its iteration."""
    value_coefficient: float = 0.25
    """Weight of the critics' loss beside the policy's."""
    max_gradient_norm: float = 0.5
    """The gradient of all networks together is clipped to this norm."""
    minibatch_size: int = 256
    """Transitions in a minibatch; the remainder of the batch is shared out evenly."""
    repeats: int = 4
    """Passes over the batch in an iteration, at most."""
    normalize_advantages: bool = True
    """Advantages of each minibatch are brought to mean 0 and standard deviation 1, for the reward and each cost."""
    rescale_loss: bool = True
    """The policy's loss is divided by 1 + the sum of the multipliers."""
    initial_log_std: float = -0.5
    """Where the policy's state-independent log standard deviation starts."""
    rollout: Rollout = "episodes"
    """An iteration is whole episodes, or a fixed number of steps with automatic reset."""
    episodes_per_iteration: int = 20
    """Whole episodes in an iteration, with rollout "episodes"."""
    steps_per_iteration: int = 4000
    """Steps in an iteration over all environments, with rollout "steps"."""
    num_envs: int = 20
    """Environments stepped side by side."""

    def __post_init__(self) -> None:
        _require_kinds(self)
        _require_networks(self.hidden_sizes)
        _require_fraction("gamma", self.gamma)
        _require_fraction("gae_lambda", self.gae_lambda)
        for name in ("clip_ratio", "target_kl", "max_gradient_norm"):
            _require_positive(name, getattr(self, name))
        _require(self.value_coefficient >= 0, "value_coefficient", self.value_coefficient, ">= 0")
        _require(
            math.isfinite(self.initial_log_std), "initial_log_std", self.initial_log_std, "a finite number"
        )
        for name in (
            "minibatch_size",
            "repeats",
            "episodes_per_iteration",
            "steps_per_iteration",
            "num_envs",
        ):
            _require_count(name, getattr(self, name))
        _require_rollout(self.rollout, self.steps_per_iteration, self.num_envs)


@dataclass(frozen=True)
class DDPGHyper:
    """DDPG-Lagrangian: what is fixed when its program is compiled."""

    hidden_sizes: tuple[int, ...] = (128, 128)
    """Units of each hidden ReLU layer, of the policy and of every critic."""
    gamma: float = 0.97
    """Discount factor."""
    tau: float = 0.05
    """Share of the networks that each update mixes into their targets."""
    exploration_noise: float = 0.1
    """Standard deviation of the Gaussian added to the action, which spans -1 to 1."""
    n_step: int = 2
    """Rewards summed before the target bootstraps."""
    buffer_size: int = 100_000
    """Transitions kept for replay."""
    batch_size: int = 256
    """Transitions drawn for an update."""
    updates_per_step: float = 0.2
    """Updates for each environment step."""
    critic_learning_rate: float = 1e-3
    """The critics' constant learning rate."""
    scale_critic_rate: bool = False
    """The critics' rate follows the multiplier too: their constant times rate(lambda) / rate(0)."""
    rescale_loss: bool = True
    """The policy's loss is divided by 1 + the sum of the multipliers."""
    rollout: Rollout = "episodes"
    """An iteration is whole episodes, or a fixed number of steps with automatic reset."""
    episodes_per_iteration: int = 2
    """Whole episodes in an iteration, with rollout "episodes"."""
    steps_per_iteration: int = 400
    """Steps in an iteration over all environments, with rollout "steps"."""
    num_envs: int = 2
    """Environments stepped side by side."""

    def __post_init__(self) -> None:
        _require_kinds(self)
        _require_networks(self.hidden_sizes)
        _require_fraction("gamma", self.gamma)
        _require_fraction("tau", self.tau)
        for name in ("updates_per_step", "critic_learning_rate"):
            _require_positive(name, getattr(self, name))
        _require(self.exploration_noise >= 0, "exploration_noise", self.exploration_noise, ">= 0")
        counts = (
            "n_step",
            "buffer_size",
            "batch_size",
            "episodes_per_iteration",
            "steps_per_iteration",
            "num_envs",
        )
        for name in counts:
            _require_count(name, getattr(self, name))
        _require_rollout(self.rollout, self.steps_per_iteration, self.num_envs)


Hyper = PPOHyper | DDPGHyper
