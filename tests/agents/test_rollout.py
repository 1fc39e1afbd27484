"""Whole episodes and fixed steps, with episodes that end early, on both backends: nothing counted twice or invented."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from papd.agents import ppo_lag
from papd.agents.host_rollout import HostRollout, _seeds
from papd.agents.hyper import PPOHyper
from papd.agents.networks import DeterministicPolicy, make_mlp, make_policy, to_environment
from papd.agents.rollout import Batch, Episodes, collect, initial_player
from papd.envs.cmdp import Box, Discrete
from papd.envs.playing import Actor, PlaySizes, Track, track_layout
from papd.envs.registry import make
from papd.errors import EnvironmentFault
from tests.agents.counting_env import Counting
from tests.agents.counting_gym import LONGEST, SHORTEST

KEY = jax.random.key(3)
History = list[tuple[Batch, Episodes]]
IN_JAX = {
    "early": Counting(SHORTEST, LONGEST),
    "nine": Counting(LONGEST, LONGEST),
    "choices": Counting(SHORTEST, LONGEST, discrete=True),
}


def play_in_jax(name: str, hyper: PPOHyper, times: int = 1) -> History:
    env = IN_JAX[name]
    policy = make_policy(np.random.default_rng(0), 2, (4,), env.action_space, -0.5)
    step = jax.jit(lambda player, key: collect(env, policy, hyper, player, key))
    player, history = initial_player(env, hyper, KEY), []
    for number in range(times):
        player, batch, episodes = step(player, jax.random.fold_in(KEY, number))
        history.append((batch, episodes))
    return history


def play_on_host(name: str, hyper: PPOHyper, times: int = 1) -> History:
    env = make(f"tests.agents.counting_gym:{name}", max_episode_steps=LONGEST)
    policy = make_policy(np.random.default_rng(0), 2, (4,), env.action_space, -0.5)
    rollout = HostRollout(env, hyper, workers=0)
    history = [rollout.collect(policy, jax.random.fold_in(KEY, number)) for number in range(times)]
    rollout.close()
    return history


on_both = pytest.mark.parametrize("play", [play_in_jax, play_on_host])
Play = Callable[..., History]


@on_both
@pytest.mark.parametrize(("count", "side_by_side"), [(4, 4), (7, 3), (2, 5)])
def test_whole_episodes(play: Play, count: int, side_by_side: int) -> None:
    hyper = PPOHyper(episodes_per_iteration=count, num_envs=side_by_side)
    batch, episodes = play("early", hyper)[0]
    valid, ended = np.asarray(batch.valid), np.asarray(batch.ended)
    observed = np.asarray(batch.observation)
    assert int(episodes.count) == count == ended.sum()
    assert int(episodes.steps) == valid.sum()
    assert float(episodes.return_mean) == pytest.approx(valid.sum() / count)
    assert float(episodes.cost_mean[0]) == pytest.approx(0.5 * valid.sum() / count)
    lengths = []
    for n in range(valid.shape[1]):
        rows = np.flatnonzero(valid[:, n])
        taken = observed[rows, n, 0]
        # Each episode counts its steps from 0, and its last row ends it as its length says.
        for begin, end in zip(np.flatnonzero(taken == 0), rows[ended[rows, n]], strict=True):
            length = int(observed[end, n, 1])
            np.testing.assert_array_equal(taken[begin : begin + length], np.arange(length))
            assert observed[end, n, 0] == length - 1
            assert bool(batch.terminated[end, n]) == (length % 2 == 0)
            lengths.append(length)
    assert sum(lengths) == valid.sum()
    np.testing.assert_array_equal(np.asarray(batch.next_observation)[valid][:, 0], observed[valid][:, 0] + 1)
    np.testing.assert_array_equal(np.asarray(batch.reward), valid)


@on_both
@pytest.mark.parametrize(("count", "side_by_side"), [(4, 4), (7, 3)])
def test_within_whole_episodes_the_next_row_tells_the_next_value(
    play: Play, count: int, side_by_side: int
) -> None:
    hyper = PPOHyper(episodes_per_iteration=count, num_envs=side_by_side)
    batch, _ = play("early", hyper)[0]
    networks = ppo_lag.init(hyper, np.random.default_rng(4), 2, IN_JAX["early"].action_space, 1).networks
    assert batch.episodes == count
    ours = ppo_lag.prepare(hyper, networks, batch)
    theirs = ppo_lag.prepare(hyper, networks, dataclasses.replace(batch, episodes=None))
    lived = np.asarray(ours.weight) > 0
    assert lived.sum() == np.asarray(batch.valid).sum()
    np.testing.assert_allclose(ours.advantages[lived], theirs.advantages[lived], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ours.returns[lived], theirs.returns[lived], rtol=1e-5, atol=1e-6)


@on_both
def test_fixed_steps_count_only_whole_episodes(play: Play) -> None:
    hyper = PPOHyper(rollout="steps", steps_per_iteration=12, num_envs=3)
    history = play("early", hyper, times=6)
    observed = np.concatenate([np.asarray(batch.observation) for batch, _ in history])
    ended = np.concatenate([np.asarray(batch.ended) for batch, _ in history])
    begins = observed[:, :, 0] == 0
    np.testing.assert_array_equal(begins[1:], ended[:-1])
    assert ended.sum() == sum(int(episodes.count) for _, episodes in history) > 6
    returns = sum(float(e.return_mean) * int(e.count) for _, e in history if int(e.count))
    assert returns == pytest.approx(observed[:, :, 1][ended].sum())
    assert all(int(episodes.steps) == 12 for _, episodes in history)


@on_both
def test_no_whole_episode_has_no_mean(play: Play) -> None:
    hyper = PPOHyper(rollout="steps", steps_per_iteration=6, num_envs=3)
    _, episodes = play("nine", hyper)[0]
    assert int(episodes.count) == 0
    assert np.isnan(episodes.return_mean)
    assert np.isnan(episodes.cost_mean).all()


@on_both
def test_discrete_actions_are_numbers_of_choices(play: Play) -> None:
    batch, _ = play("choices", PPOHyper(episodes_per_iteration=8, num_envs=8))[0]
    assert batch.action.dtype == jnp.int32
    assert {0, 1, 2} >= set(np.unique(batch.action)) != {0}


def test_actions_fill_the_box_of_the_environment() -> None:
    space = Box((-2.0, 0.0), (6.0, 1.0))
    np.testing.assert_allclose(to_environment(space, jnp.array([0.0, 1.0])), [2.0, 1.0])
    np.testing.assert_allclose(to_environment(space, jnp.array([-9.0, 9.0])), [-2.0, 1.0])
    assert int(to_environment(Discrete(3), jnp.int32(2))) == 2


def collected(workers: int, hyper: PPOHyper, times: int = 2, **deed: object) -> list[np.ndarray]:
    """Every array of some iterations on a point that noise pushes about; the deeds of ``Misbehaves`` are done to it."""
    name = "Misbehaves" if deed else "walk"
    env = make(f"tests.envs.strangers:{name}", max_episode_steps=10, **deed)
    policy = make_policy(np.random.default_rng(0), 2, (4,), env.action_space, -0.5)
    rollout = HostRollout(env, hyper, workers=workers)
    history = [rollout.collect(policy, jax.random.fold_in(KEY, number)) for number in range(times)]
    rollout.close()
    assert rollout.faults == (1 if deed else 0)
    return [np.asarray(leaf) for leaf in jax.tree.leaves(history)]


WHOLE = PPOHyper(episodes_per_iteration=7, num_envs=4)
FIXED = PPOHyper(rollout="steps", steps_per_iteration=48, num_envs=4)


@pytest.mark.parametrize("hyper", [WHOLE, FIXED], ids=["episodes", "steps"])
def test_workers_that_go_each_at_its_own_pace_collect_what_one_process_does(hyper: PPOHyper) -> None:
    alone = collected(0, hyper)
    for workers in (2, 3):
        for ours, theirs in zip(collected(workers, hyper), alone, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("hyper", "seeds", "one"), [(WHOLE, 8, 1), (FIXED, 52, 49)], ids=["episodes", "steps"]
)
@pytest.mark.parametrize("deed", ["die", "hang", "raise"])
def test_an_episode_that_a_fault_broke_off_is_the_same_when_it_is_played_again(
    hyper: PPOHyper, seeds: int, one: int, deed: str, tmp_path: Path
) -> None:
    undisturbed = collected(2, hyper)
    victim = int(_seeds(jax.random.fold_in(KEY, 0), seeds)[one])
    told = {"deed": deed, "at": 4, "marker": str(tmp_path / "done"), "seed": victim, "time_limit": 1.0}
    for ours, theirs in zip(collected(2, hyper, **told), undisturbed, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_faults_in_a_row_end_the_collection_with_one_line(tmp_path: Path) -> None:
    victim = int(_seeds(jax.random.fold_in(KEY, 0), 8)[1])
    always = {"deed": "raise", "at": 4, "marker": str(tmp_path / "always"), "seed": victim, "max_faults": 2}
    with pytest.raises(EnvironmentFault, match=r"environment 1 raised in step 4 .* 3 times in a row") as told:
        collected(2, WHOLE, **always)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("what", ["observation", "reward", "cost"])
@pytest.mark.parametrize("workers", [0, 2])
def test_what_is_not_finite_is_named(what: str, workers: int, tmp_path: Path) -> None:
    victim = int(_seeds(jax.random.fold_in(KEY, 0), 8)[3])
    bad = {"deed": what, "at": 5, "marker": str(tmp_path / "none"), "seed": victim}
    with pytest.raises(
        EnvironmentFault, match=rf"environment 3 returned a non-finite {what} .* in step 5 .* seed {victim}"
    ):
        collected(workers, WHOLE, **bad)


def test_a_policy_that_has_diverged_is_told_and_not_played() -> None:
    env = make("tests.envs.strangers:walk", max_episode_steps=10)
    policy = make_policy(np.random.default_rng(0), 2, (4,), env.action_space, np.inf)
    rollout = HostRollout(env, WHOLE, workers=0)
    with pytest.raises(EnvironmentFault, match="environment 0 is not finite: the policy has diverged"):
        rollout.collect(policy, KEY)
    rollout.close()


POLICIES = {
    "gaussian": make_policy(np.random.default_rng(1), 3, (6, 5), Box((-2.0, 0.0), (6.0, 1.0)), -0.5),
    "categorical": make_policy(np.random.default_rng(1), 3, (6, 5), Discrete(4), 0.0),
    "deterministic": DeterministicPolicy(make_mlp(np.random.default_rng(1), 3, (6, 5), 2), 0.3),
}


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("rows", [range(0, 13), range(4, 9), range(11, 13)])
def test_workers_act_as_the_policy_does(name: str, rows: range) -> None:
    policy, steps, count = POLICIES[name], 3, 13
    space = Discrete(4) if name == "categorical" else Box((-2.0, 0.0), (6.0, 1.0))
    bounds = (None, None) if isinstance(space, Discrete) else (space.low, space.high)
    sizes = PlaySizes(steps, (3, 6, 5, policy.scale.shape[0]), *bounds, auto_reset=False)
    shapes = track_layout(sizes, count, 1)
    track = Track(sizes, {key: np.zeros(shape, kind) for key, (kind, shape) in shapes.items()})
    rng = np.random.default_rng(2)
    track.weights[:] = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(policy.network)])
    track.scale[:] = policy.scale
    track.noise[:] = rng.standard_normal(track.noise.shape)
    track.lengths[:] = rng.integers(0, steps, count)
    observation = rng.standard_normal((count, 3)).astype(np.float32)
    ours = Actor(track, rows).act(observation)
    noise = track.noise[track.lengths, np.arange(count)]
    theirs = jax.vmap(policy.explore)(observation, noise)[rows.start : rows.stop]
    sent = jax.vmap(lambda action: to_environment(space, action))(theirs)
    np.testing.assert_allclose(ours[0], theirs, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ours[1], sent, rtol=1e-5, atol=1e-6)
