"""Stable-Baselines3: its PPO becomes PPO-Lagrangian with the adaptive rate in two lines.

    env = LagrangianRewardWrapper(make_vec_env(make_env, n_envs=20))
    PPO("MlpPolicy", env).learn(1_000_000, callback=PAPDCallback(papd.InvQua(0.015, 6.0), cost_limit=10.0))

The agent then maximises (r - lambda . c) / (1 + sum of lambda). docs/integrations.md: how that differs from papd's own.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper

from papd.core.multiplier import PID, Multiplier
from papd.core.rates import Rate
from papd.errors import ConfigError, EnvironmentFault, nearest
from papd.integrations.controller import Controller

CostKeys = str | Sequence[str]


def _names(cost_key: CostKeys) -> tuple[str, ...]:
    return (cost_key,) if isinstance(cost_key, str) else tuple(cost_key)


def _costs(infos: Sequence[Mapping[str, Any]], names: tuple[str, ...]) -> np.ndarray:
    """The costs of one step: [environments, constraints]."""
    for info in infos:
        for name in names:
            if name not in info:
                raise EnvironmentFault(
                    f"a step's info has no {name!r}{nearest(name, map(str, info))}; choose cost_key"
                )
    return np.array([[float(info[name]) for name in names] for info in infos])


class LagrangianRewardWrapper(VecEnvWrapper):
    """Rewards (r - lambda . c) / (1 + sum of lambda), with the costs of each step's info. A callback moves lambda."""

    def __init__(self, venv: VecEnv, cost_key: CostKeys = "cost"):
        super().__init__(venv)
        self.cost_names = _names(cost_key)
        self.multiplier = np.zeros(len(self.cost_names))

    def reset(self) -> Any:
        """Reset every environment."""
        return self.venv.reset()

    def step_wait(self) -> tuple[Any, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """The step with its reward shaped; the reward itself is in ``info["plain_reward"]``."""
        observations, rewards, dones, infos = self.venv.step_wait()
        priced = _costs(infos, self.cost_names) @ self.multiplier
        for info, reward in zip(infos, rewards, strict=True):
            info["plain_reward"] = float(reward)
        shaped = (rewards - priced) / (1.0 + self.multiplier.sum())
        return observations, shaped.astype(rewards.dtype), dones, infos


class PAPDCallback(BaseCallback):
    """After each rollout: multiplier from the mean cost of the episodes that ended in it, learning rate from that.

    The environment must be wrapped in :class:`LagrangianRewardWrapper`, which gets the multiplier. With
    ``shape_rewards=False`` only the rate follows, for losses that have the multiplier already (``multiplier``).
    """

    def __init__(
        self,
        rate: Rate,
        multiplier: Multiplier | None = None,
        *,
        cost_limit: float | Sequence[float],
        cost_key: CostKeys = "cost",
        shape_rewards: bool = True,
        verbose: int = 0,
    ):
        super().__init__(verbose)
        self._controller = Controller(rate, PID() if multiplier is None else multiplier, cost_limit)
        self._cost_names = _names(cost_key)
        if self._controller.constraints != len(self._cost_names):
            raise ConfigError(
                f"{self._controller.constraints} cost limits for {len(self._cost_names)} cost keys"
            )
        self._shape_rewards = shape_rewards
        self._running = np.zeros((0, len(self._cost_names)))
        self._ended: list[np.ndarray] = []
        self._wrapper: LagrangianRewardWrapper | None = None

    @property
    def multiplier(self) -> np.ndarray:
        """lambda, one number a constraint."""
        return self._controller.multiplier

    @property
    def learning_rate(self) -> float:
        """eta at this multiplier."""
        return self._controller.learning_rate

    def state_dict(self) -> dict[str, list[float]]:
        """The multiplier's memory, to save beside the model: SB3 does not save callbacks."""
        return self._controller.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with the multiplier of a :meth:`state_dict`."""
        self._controller.load_state_dict(state)

    def _init_callback(self) -> None:
        self._wrapper = _find_wrapper(self.training_env)
        if self._shape_rewards and self._wrapper is None:
            raise ConfigError(
                "the environment is not wrapped in LagrangianRewardWrapper, so no cost would reach the agent: wrap it, "
                "or say shape_rewards=False where the loss has the multiplier already"
            )
        if self._wrapper is not None and self._wrapper.cost_names != self._cost_names:
            raise ConfigError(
                f"the wrapper's cost_key is {self._wrapper.cost_names}, the callback's {self._cost_names}"
            )
        if self._shape_rewards and isinstance(self.model, OffPolicyAlgorithm):
            raise ConfigError(
                f"{type(self.model).__name__} replays rewards shaped by old multipliers: use an on-policy algorithm, "
                "or papd.DDPGLag"
            )

    def _on_training_start(self) -> None:
        if self.model.num_timesteps == 0 or len(self._running) != self.training_env.num_envs:
            self._running = np.zeros((self.training_env.num_envs, len(self._cost_names)))
            self._ended = []
        self._apply()

    def _on_step(self) -> bool:
        self._running += _costs(self.locals["infos"], self._cost_names)
        ended = np.asarray(self.locals["dones"], dtype=bool)
        self._ended.extend(self._running[ended].copy())
        self._running[ended] = 0.0
        return True

    def _on_rollout_end(self) -> None:
        """Before the update on this rollout; where no episode has ended yet everything stays as it is."""
        if self._ended:
            costs = np.mean(self._ended, axis=0)
            self._ended = []
            self._controller.step(costs)
            for name, cost, value in zip(self._cost_names, costs, self.multiplier, strict=True):
                self.logger.record(f"papd/{name}_mean", float(cost))
                self.logger.record(f"papd/{name}_multiplier", float(value))
        self._apply()

    def _apply(self) -> None:
        """Set the rate where SB3 takes it from at each update, and from where it makes that anew after loading."""
        self.model.learning_rate = self.learning_rate
        self.model._setup_lr_schedule()
        if self._wrapper is not None and self._shape_rewards:
            self._wrapper.multiplier = self.multiplier


def _find_wrapper(env: VecEnv) -> LagrangianRewardWrapper | None:
    """The reward wrapper among the wrappers around an environment."""
    while isinstance(env, VecEnvWrapper):
        if isinstance(env, LagrangianRewardWrapper):
            return env
        env = env.venv
    return None
