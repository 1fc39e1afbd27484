"""The same numbers as the framework that the paper used, from its own recordings (tests/fixtures/README.md)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from papd.agents import ddpg_lag, ppo_lag
from papd.agents.hyper import DDPGHyper, PPOHyper
from papd.agents.networks import MLP, DeterministicPolicy, GaussianPolicy, Linear
from papd.agents.replay import Transition
from papd.agents.returns import n_step
from papd.agents.rollout import Batch
from tests.fixture_files import fixture

TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}
ENVIRONMENTS = 4

prepare = eqx.filter_jit(ppo_lag.prepare)
loss = eqx.filter_jit(ppo_lag.loss)
ppol_update = eqx.filter_jit(ppo_lag.update)
ddpgl_update = eqx.filter_jit(ddpg_lag.update)


def load(name: str) -> dict[str, np.ndarray]:
    with np.load(fixture(name)) as data:
        return {key: data[key] for key in data}


def mlp(data: dict[str, np.ndarray], prefix: str) -> MLP:
    count = sum(key.startswith(prefix + "/layer") and key.endswith("weight") for key in data)
    layers = (
        Linear(jnp.asarray(data[f"{prefix}/layer{i}/weight"].T), jnp.asarray(data[f"{prefix}/layer{i}/bias"]))
        for i in range(count)
    )
    return MLP(tuple(layers))


def batch(data: dict[str, np.ndarray]) -> Batch:
    """The recording is environment after environment; a batch is time-major."""

    def timed(x: np.ndarray) -> jax.Array:
        kind = bool if x.dtype == bool else np.float32
        return jnp.asarray(x.reshape(ENVIRONMENTS, -1, *x.shape[1:]).swapaxes(0, 1).astype(kind))

    ended = data["terminated"] | data["truncated"]
    return Batch(
        observation=timed(data["obs"]),
        action=timed(data["act"]),
        reward=timed(data["rew"]),
        cost=timed(data["cost"][:, None]),
        next_observation=timed(data["obs_next"]),
        terminated=timed(data["terminated"]),
        ended=timed(ended),
        valid=timed(np.ones_like(ended)),
    )


def as_recorded(x: jax.Array) -> np.ndarray:
    """Time-major rows back in the recording's order."""
    rows = np.asarray(x).reshape(-1, ENVIRONMENTS, *x.shape[1:])
    return rows.swapaxes(0, 1).reshape(x.shape)


def assert_same(network: MLP, data: dict[str, np.ndarray], prefix: str) -> None:
    for i, layer in enumerate(network.layers):
        np.testing.assert_allclose(layer.weight, data[f"{prefix}/layer{i}/weight"].T, **TOLERANCE)
        np.testing.assert_allclose(layer.bias, data[f"{prefix}/layer{i}/bias"], **TOLERANCE)


class TestPPOLag:
    data = load("ppol_update.npz")
    multiplier = jnp.asarray([data["multiplier"]], jnp.float32)
    hyper = PPOHyper(
        gamma=float(data["gamma"]),
        gae_lambda=float(data["gae_lambda"]),
        clip_ratio=float(data["eps_clip"]),
        value_coefficient=float(data["vf_coef"]),
        max_gradient_norm=float(data["max_grad_norm"]),
    )

    def networks(self) -> ppo_lag.PPONetworks:
        policy = GaussianPolicy(
            mlp(self.data, "before/actor"), jnp.asarray(self.data["before/actor/log_std"][:, 0])
        )
        critics = (mlp(self.data, "before/reward_critic"), mlp(self.data, "before/cost_critic"))
        return ppo_lag.PPONetworks(policy, critics)

    def test_values_advantages_returns_and_log_probabilities(self) -> None:
        networks = self.networks()
        rows = prepare(self.hyper, networks, batch(self.data))
        values = jax.vmap(networks.values)(rows.observation)
        for ours, theirs in (
            (values, "values"),
            (rows.advantages, "advantages"),
            (rows.returns, "returns"),
            (rows.log_prob, "logp_old"),
        ):
            np.testing.assert_allclose(as_recorded(ours), self.data[theirs], rtol=1e-5, atol=2e-5)

    def test_losses(self) -> None:
        rows = prepare(self.hyper, self.networks(), batch(self.data))
        total, losses = loss(self.hyper, self.networks(), rows, self.multiplier)
        actor, critic = float(self.data["actor_loss"]), float(self.data["critic_loss"])
        assert float(losses.policy_loss) == pytest.approx(actor, abs=1e-5)
        assert float(losses.critic_loss) == pytest.approx(critic, rel=1e-5)
        assert float(total) == pytest.approx(actor + self.hyper.value_coefficient * critic, rel=1e-5)

    def test_weights_after_two_updates(self) -> None:
        rows = prepare(self.hyper, self.networks(), batch(self.data))
        networks = self.networks()
        state = ppo_lag.PPOState(networks, ppo_lag.optimizer(self.hyper).init(networks))
        for _ in range(2):
            state, losses = ppol_update(
                self.hyper, state, rows, self.multiplier, jnp.float32(self.data["lr"])
            )
            assert int(losses.updates) == 1
        assert_same(state.networks.policy.mean, self.data, "after/actor")
        np.testing.assert_allclose(
            state.networks.policy.log_std, self.data["after/actor/log_std"][:, 0], **TOLERANCE
        )
        assert_same(state.networks.critics[0], self.data, "after/reward_critic")
        assert_same(state.networks.critics[1], self.data, "after/cost_critic")

    def test_improve_is_the_same_updates_on_shuffled_rows(self) -> None:
        hyper = PPOHyper(**{**self.hyper.__dict__, "minibatch_size": 200, "repeats": 2, "target_kl": 100.0})
        networks = self.networks()
        state = ppo_lag.PPOState(networks, ppo_lag.optimizer(hyper).init(networks))
        rate = jnp.float32(self.data["lr"])
        state, losses = ppo_lag.improve(
            hyper, state, batch(self.data), self.multiplier, rate, jax.random.key(0)
        )
        assert int(losses.updates) == 2
        assert_same(state.networks.critics[0], self.data, "after/reward_critic")
        assert_same(state.networks.policy.mean, self.data, "after/actor")


class TestDDPGLag:
    data = load("ddpgl_update.npz")
    hyper = DDPGHyper(gamma=float(data["gamma"]), tau=float(data["tau"]), n_step=int(data["n_step"]))

    def networks(self, prefix: str) -> ddpg_lag.DDPGNetworks:
        policy = DeterministicPolicy(mlp(self.data, f"{prefix}actor"), self.hyper.exploration_noise)
        critics = (mlp(self.data, f"{prefix}reward_critic"), mlp(self.data, f"{prefix}cost_critic"))
        return ddpg_lag.DDPGNetworks(policy, critics)

    def rows(self) -> Transition:
        recorded = batch(self.data)
        parts = n_step(
            recorded.signals(),
            recorded.next_observation,
            recorded.terminated,
            recorded.ended,
            self.hyper.gamma,
            self.hyper.n_step,
        )
        taken = [recorded.observation, recorded.action, *parts]
        flat = [as_recorded(x.reshape(-1, *x.shape[2:]))[self.data["index"]] for x in taken]
        return Transition(*(jnp.asarray(x) for x in flat))

    def test_targets(self) -> None:
        ours = ddpg_lag.targets(self.networks("before/target_"), self.rows())
        np.testing.assert_allclose(ours, self.data["targets"], **TOLERANCE)

    def test_weights_after_one_update(self) -> None:
        networks = self.networks("before/")
        adam = optax.scale_by_adam()
        state = ddpg_lag.DDPGState(
            networks=networks,
            targets=self.networks("before/target_"),
            policy_optimizer=adam.init(networks.policy),
            critic_optimizer=adam.init(networks.critics),
            replay=ddpg_lag.empty_replay(4, 8, 2, 2),
        )
        rates = jnp.float32(self.data["actor_lr"]), jnp.float32(self.data["critic_lr"])
        multiplier = jnp.asarray([self.data["multiplier"]], jnp.float32)
        state, losses = ddpgl_update(self.hyper, state, self.rows(), multiplier, *rates)
        assert int(losses.updates) == 1
        for networks, prefix in ((state.networks, "after/"), (state.targets, "after/target_")):
            assert_same(networks.policy.action, self.data, f"{prefix}actor")
            assert_same(networks.critics[0], self.data, f"{prefix}reward_critic")
            assert_same(networks.critics[1], self.data, f"{prefix}cost_critic")
