"""Stable-Baselines3's own PPO under the callback: its rate, its rewards, and a policy within its limit."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from papd.core.multiplier import PID, Fixed
from papd.core.rates import InvLin, InvQua
from papd.errors import ConfigError, EnvironmentFault
from tests.optional import needs

pytestmark = needs("stable_baselines3", "sb3")

LENGTH = 10


class Speed(gymnasium.Env[np.ndarray, np.ndarray]):
    """Ten steps; the reward is the action, the cost its square: within a cost of 2.5 the best return is 5."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
    action_space = gymnasium.spaces.Box(-2.0, 2.0, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        value = float(action[0])
        info = {"cost": value**2, "edge": max(0.0, value)}
        return np.zeros(1, np.float32), value, False, self.steps >= LENGTH, info


def make(num: int = 4) -> Any:
    from stable_baselines3.common.vec_env import DummyVecEnv

    return DummyVecEnv([Speed] * num)


def ppo(env: Any, **options: Any) -> Any:
    from stable_baselines3 import PPO

    small = {"n_steps": 40, "batch_size": 80, "n_epochs": 4, "seed": 0, "device": "cpu", "gamma": 0.9}
    return PPO("MlpPolicy", env, policy_kwargs={"net_arch": [8]}, **{**small, **options})


def test_rewards_are_shaped_by_the_multiplier_and_costs_stay() -> None:
    from papd.integrations.sb3 import LagrangianRewardWrapper

    env = LagrangianRewardWrapper(make(2), cost_key=("cost", "edge"))
    env.reset()
    env.multiplier = np.array([1.0, 2.0])
    _, rewards, _, infos = env.step(np.array([[2.0], [-1.0]], np.float32))
    np.testing.assert_allclose(rewards, [(2.0 - 4.0 - 2.0 * 2.0) / 4.0, (-1.0 - 1.0) / 4.0])
    assert [info["plain_reward"] for info in infos] == [2.0, -1.0]
    assert rewards.dtype == np.float32


def test_each_update_uses_the_rate_of_the_multiplier_of_its_rollout() -> None:
    """The costs of an untrained policy are above the limit: the rate falls below the first, and Adam has it."""
    from papd.integrations.controller import Controller
    from papd.integrations.sb3 import LagrangianRewardWrapper, PAPDCallback

    env = LagrangianRewardWrapper(make())
    model, callback = ppo(env), PAPDCallback(InvQua(0.015, 6.0), PID(1.0, 0.1, 1.0), cost_limit=0.5)
    seen: list[tuple[float, float]] = []
    train = model.train

    def recorded() -> None:
        train()
        seen.append((model.policy.optimizer.param_groups[0]["lr"], float(env.multiplier[0])))

    model.train = recorded
    model.learn(3 * 160, callback=callback)
    reference = Controller(InvQua(0.015, 6.0), Fixed(0.0), 0.5)
    assert len(seen) == 3
    for rate, multiplier in seen:
        assert multiplier > 0.0
        assert rate == pytest.approx(0.015 / (multiplier + 6.0) ** 2)
        assert rate < reference.learning_rate
    assert callback.learning_rate == seen[-1][0]


def watch() -> tuple[Any, list[list[float]]]:
    """A callback that writes down the costs of the episodes that end in each rollout."""
    from stable_baselines3.common.callbacks import BaseCallback

    totals: list[list[float]] = [[]]

    class Watch(BaseCallback):  # type: ignore[misc]
        def _on_training_start(self) -> None:
            self.running = np.zeros(self.training_env.num_envs)

        def _on_step(self) -> bool:
            self.running += [info["cost"] for info in self.locals["infos"]]
            totals[-1].extend(self.running[self.locals["dones"]])
            self.running[self.locals["dones"]] = 0.0
            return True

        def _on_rollout_end(self) -> None:
            totals.append([])

    return Watch(), totals


def test_multiplier_moves_on_the_mean_cost_of_the_episodes_that_ended() -> None:
    from papd.integrations.controller import Controller
    from papd.integrations.sb3 import LagrangianRewardWrapper, PAPDCallback

    watcher, totals = watch()
    callback = PAPDCallback(InvLin(0.001, 3.0), PID(), cost_limit=2.5)
    ppo(LagrangianRewardWrapper(make()), n_steps=25, batch_size=50).learn(300, callback=[watcher, callback])
    reference = Controller(InvLin(0.001, 3.0), PID(), 2.5)
    assert [len(costs) for costs in totals[:3]] == [8, 12, 8]
    for costs in totals[:3]:
        reference.step(np.mean(costs))
    assert callback.multiplier[0] == pytest.approx(reference.multiplier[0], rel=1e-12)


def test_a_rollout_without_a_finished_episode_moves_nothing() -> None:
    from papd.integrations.sb3 import LagrangianRewardWrapper, PAPDCallback

    callback = PAPDCallback(InvLin(0.001, 3.0), PID(1.0, 1.0, 1.0), cost_limit=0.0)
    ppo(LagrangianRewardWrapper(make()), n_steps=5, batch_size=20).learn(20, callback=callback)
    assert callback.multiplier.tolist() == [0.0]
    assert callback.learning_rate == pytest.approx(0.001 / 3.0)


def test_ppo_settles_at_its_limit_and_without_the_multiplier_far_above() -> None:
    """The controller aims at the limit itself: the mean cost of the last fifth of training is within a tenth of it."""
    from papd.integrations.sb3 import LagrangianRewardWrapper, PAPDCallback

    found = {}
    for name, multiplier in (("constrained", PID(0.05, 0.02, 0.1)), ("free", Fixed(0.0))):
        watcher, totals = watch()
        callback = PAPDCallback(InvLin(0.03, 3.0), multiplier, cost_limit=2.5)
        model = ppo(LagrangianRewardWrapper(make(8)), n_steps=20)
        model.learn(100 * 160, callback=[watcher, callback])
        found[name] = float(np.mean(np.concatenate(totals[80:100])))
    assert found["constrained"] == pytest.approx(2.5, rel=0.1)
    assert found["free"] > 20.0


def test_the_rate_survives_saving_and_the_multiplier_goes_on(tmp_path: Path) -> None:
    from stable_baselines3 import PPO

    from papd.integrations.sb3 import LagrangianRewardWrapper, PAPDCallback

    first = PAPDCallback(InvQua(0.015, 6.0), PID(), cost_limit=0.5)
    model = ppo(LagrangianRewardWrapper(make()))
    model.learn(320, callback=first)
    model.save(tmp_path / "model")
    second = PAPDCallback(InvQua(0.015, 6.0), PID(), cost_limit=0.5)
    second.load_state_dict(first.state_dict())
    env = LagrangianRewardWrapper(make())
    again = PPO.load(tmp_path / "model", env=env, device="cpu")
    assert again.lr_schedule(1.0) == pytest.approx(first.learning_rate)
    again.learn(160, callback=second, reset_num_timesteps=False)
    assert second.state_dict() != first.state_dict()
    assert env.multiplier[0] == second.multiplier[0]


def test_only_the_rate_with_a_foreign_loss() -> None:
    from papd.integrations.sb3 import PAPDCallback

    callback = PAPDCallback(InvLin(0.001, 3.0), PID(), cost_limit=0.5, shape_rewards=False)
    model = ppo(make())
    model.learn(160, callback=callback)
    assert model.policy.optimizer.param_groups[0]["lr"] == callback.learning_rate < 0.001 / 3.0


def test_mistakes_are_told() -> None:
    from stable_baselines3 import SAC

    from papd.integrations.sb3 import LagrangianRewardWrapper, PAPDCallback

    rate = InvLin(0.001, 3.0)
    with pytest.raises(ConfigError, match="not wrapped in LagrangianRewardWrapper"):
        ppo(make()).learn(160, callback=PAPDCallback(rate, cost_limit=1.0))
    with pytest.raises(ConfigError, match="the callback's"):
        ppo(LagrangianRewardWrapper(make(), "edge")).learn(160, callback=PAPDCallback(rate, cost_limit=1.0))
    with pytest.raises(ConfigError, match="1 cost limits for 2 cost keys"):
        PAPDCallback(rate, cost_limit=1.0, cost_key=("cost", "edge"))
    with pytest.raises(EnvironmentFault, match="no 'costs'; did you mean 'cost'"):
        ppo(LagrangianRewardWrapper(make(), "costs")).learn(
            160, callback=PAPDCallback(rate, cost_limit=1.0, cost_key="costs")
        )
    with pytest.raises(ConfigError, match="on-policy"):
        SAC("MlpPolicy", LagrangianRewardWrapper(make(1)), device="cpu", buffer_size=100).learn(
            20, callback=PAPDCallback(rate, cost_limit=1.0)
        )
