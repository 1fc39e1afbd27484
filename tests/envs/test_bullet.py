"""The lean steppers against the package itself, bit for bit; reproducible episodes; the table of ids."""

import os
import subprocess
import sys

import gymnasium
import numpy as np
import pytest

from papd.envs import bullet
from papd.envs.bullet_ids import BULLET_IDS
from papd.envs.equality import compare_episodes
from papd.envs.measure import compare, random_player
from papd.envs.registry import make
from papd.envs.sources import own_generators
from papd.errors import ConfigError

pytestmark = pytest.mark.bullet

COUNT = {
    "SafetyBallRun-v0": 100,
    "SafetyBallCircle-v0": 100,
    "SafetyBallReach-v0": 6,
    "SafetyBallGather-v0": 6,
    "SafetyCarRun-v0": 6,
    "SafetyCarCircle-v0": 4,
    "SafetyCarReach-v0": 2,
    "SafetyCarGather-v0": 2,
}
"""Random episodes compared here. ``python benchmarks/envs.py --equal 100`` compares 100 of each."""

REPRODUCIBLE = (
    "SafetyBallRun-v0",
    "SafetyBallCircle-v0",
    "SafetyBallGather-v0",
    "SafetyBallPush-v0",
    "SafetyCarRun-v0",
    "SafetyCarCircle-v0",
    "SafetyCarGather-v0",
    "SafetyDroneRun-v0",
    "SafetyDroneCircle-v0",
    "SafetyAntRun-v0",
    "SafetyAntCircle-v0",
)
"""Their episodes are functions of seed and actions: docs/environments.md says so, and why the others are not."""


@pytest.mark.parametrize("name", COUNT)
def test_equal_to_the_package_bit_for_bit(name):
    result = compare_episodes(name, COUNT[name])
    assert result.steps >= 10 * COUNT[name]
    assert result.differing == ()


def actions_of(name, steps=60):
    width = len(BULLET_IDS[name].action_space.low)
    return np.random.default_rng(3).uniform(-1.0, 1.0, (steps, width)).astype(np.float32)


def fresh_episode_of_the_package(name, seed):
    with bullet.quiet(), own_generators(seed):
        env = gymnasium.make(name, disable_env_checker=True).unwrapped
    rows = []
    with own_generators(seed):
        observation, _ = env.reset()
        rows.append(observation)
        for action in actions_of(name):
            observation, _, terminated, _, _ = env.step(action)
            rows.append(observation)
            if terminated:
                break
    env.close()
    return np.array(rows, np.float32)


@pytest.mark.parametrize("name", REPRODUCIBLE)
def test_an_episode_on_a_used_environment_equals_one_of_the_package_on_a_fresh_one(name):
    with make(name).start(1) as vector:
        for seed in (5, 6, 7):
            expected = fresh_episode_of_the_package(name, seed)
            rows = [vector.reset(np.array([seed]))[0]]
            rows += [
                vector.step(action[None]).observation[0] for action in actions_of(name)[: len(expected) - 1]
            ]
            assert np.array_equal(np.array(rows), expected)


@pytest.mark.parametrize("name", BULLET_IDS)
def test_every_id_is_as_the_table_says_and_steps_in_workers(name):
    known = BULLET_IDS[name]
    with bullet.quiet():
        env = gymnasium.make(name, disable_env_checker=True)
    assert env.spec.max_episode_steps == known.max_episode_steps
    assert env.observation_space.low.tolist() == list(known.observation_space.low)
    assert env.observation_space.high.tolist() == list(known.observation_space.high)
    assert env.action_space.low.tolist() == list(known.action_space.low)
    assert env.action_space.high.tolist() == list(known.action_space.high)
    env.close()
    with make(name, cost_keys=("cost", *known.cost_keys)).start(2, workers=1) as vector:
        observation = vector.reset(np.arange(2))
        assert np.ptp(observation, axis=1).all()
        step = vector.step(np.full((2, len(known.action_space.low)), 0.5, np.float32))
        assert not np.array_equal(step.observation, observation)
        assert step.cost.shape == (2, 1 + len(known.cost_keys))
        assert vector.drain_faults() == []


def test_the_table_is_the_packages_whole_list():
    registered = {name for name in gymnasium.envs.registration.registry if name.startswith("Safety")}
    assert set(BULLET_IDS) == registered


def test_the_packages_own_code_on_request():
    lean, package = make("SafetyBallRun-v0"), make("SafetyBallRun-v0", lean=False)
    actions = actions_of("SafetyBallRun-v0")
    with lean.start(2, workers=1) as ours, package.start(2, workers=1) as theirs:
        assert np.array_equal(ours.reset(np.arange(2)), theirs.reset(np.arange(2)))
        for action in actions:
            mine, yours = ours.step(np.stack([action] * 2)), theirs.step(np.stack([action] * 2))
            assert np.array_equal(mine.observation, yours.observation)
            assert np.array_equal(mine.reward, yours.reward)


def test_costs_by_key():
    env = make("SafetyBallRun-v0", cost_keys=("cost_outside_bounds", "cost_velocity_violation"))
    assert env.cost_names == ("cost_outside_bounds", "cost_velocity_violation")
    with env.start(1) as vector:
        vector.reset(np.array([0]))
        sideways = [vector.step(np.array([[0.0, 1.0]], np.float32)).cost[0].tolist() for _ in range(60)]
    assert sideways[0] == [0.0, 0.0]
    assert [0.0, 1.0] in sideways
    assert sideways[-1] == [1.0, 1.0]
    with pytest.raises(ConfigError, match="no cost 'cost_velocity'; did you mean 'cost_velocity_violation'"):
        make("SafetyBallRun-v0", cost_keys=("cost_velocity",))


def test_bare_loops_and_ours_are_measured_in_turn():
    asked = []

    def ours(seconds):
        asked.append(seconds)
        return 1000.0 * len(asked)

    found = compare("SafetyBallRun-v0", ours, seconds=0.05, rounds=3)
    assert asked == [0.05] * 3
    assert found.workers == (1000.0, 2000.0, 3000.0)
    ratios = [mine / theirs for mine, theirs in zip(found.workers, found.bare, strict=True)]
    assert found.ratio == sorted(ratios)[1] > 0
    with random_player("SafetyBallRun-v0", num_envs=2) as play:
        assert play(0.05) > 0


def test_standard_output_belongs_to_the_user():
    code = """if True:
        import numpy as np
        from papd.envs.registry import make
        for settings in ({"num_envs": 1}, {"num_envs": 2, "workers": 1}):
            with make("SafetyCarRun-v0").start(**settings) as vector:
                vector.reset(np.arange(settings["num_envs"]))
        print("only this")
    """
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert done.stdout == "only this\n"
    assert done.stderr == ""
