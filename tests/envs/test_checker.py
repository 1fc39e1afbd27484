"""``check_env`` names every fault; the documentation's environment has none."""

import re
from pathlib import Path
from typing import ClassVar

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from papd.envs.checker import check_env
from papd.envs.cmdp import Box, Discrete
from papd.envs.gym_adapter import GymnasiumCMDP
from papd.envs.probes import bandit, gridworld
from papd.envs.registry import make
from tests.envs import strangers

DOCS = Path(__file__).parents[2] / "docs" / "environments.md"


def corridor():
    """The class in docs/environments.md."""
    (code,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 42
    namespace = {"__name__": "docs"}
    exec(code, namespace)
    return namespace["Corridor"]


Corridor = corridor()


def test_the_documented_environment_is_sound_and_does_what_it_says():
    env = Corridor()
    assert check_env(env) == []
    assert check_env(Corridor) == []
    keys = jax.random.split(jax.random.key(0), 4)
    state, _ = jax.vmap(env.reset)(keys)
    total = jnp.zeros(4)
    step = jax.jit(jax.vmap(env.step))
    for _ in range(env.max_episode_steps):
        result = step(keys, state, jnp.ones((4, 1)))
        state, total = result.state, total + result.cost[:, 0]
    assert result.truncated.all()
    assert (result.observation[:, 1] > 3.0).all()
    assert total.tolist() == [45.0] * 4


@pytest.mark.parametrize("env", [bandit(), gridworld()], ids=["bandit", "gridworld"])
def test_the_probes_are_sound(env):
    assert check_env(env) == []


@pytest.mark.parametrize("name", ["SafetyBallRun-v0", "SafetyCarCircle-v0"])
def test_the_twins_are_sound(name):
    assert check_env(make(name, backend="twin")) == []


class Faulty(Corridor):
    """The corridor with one thing wrong."""

    wrong: str = ""
    calls: ClassVar[list[int]] = []

    @property
    def cost_names(self):
        return {"names": ("cost", "speed"), "twice": ("cost", "cost")}.get(self.wrong, ("cost",))

    @property
    def action_space(self):
        if self.wrong == "unbounded":
            return Box((-np.inf,), (np.inf,))
        return Discrete(1) if self.wrong == "one action" else super().action_space

    @property
    def observation_space(self):
        return Box((-1.0, -1.0), (1.0, 1.0)) if self.wrong == "outside" else super().observation_space

    @property
    def max_episode_steps(self):
        return 0 if self.wrong == "no steps" else 50

    def reset(self, key):
        state, observation = super().reset(key)
        if self.wrong == "impure reset":
            self.calls.append(1)
            observation = observation + len(self.calls)
        if self.wrong == "reset shape":
            observation = observation[:1]
        if self.wrong == "reset branches" and observation[0] > 0:
            observation = -observation
        return state, observation

    def step(self, key, state, action):
        action = jnp.zeros(1) if self.wrong == "one action" else action
        result = super().step(key, state, action)
        place, speed, steps = result.state
        late = steps > 3
        if self.wrong == "impure step":
            self.calls.append(1)
            return result._replace(reward=result.reward + len(self.calls))
        if self.wrong == "branches" and speed > 0:
            return result
        changes = {
            "nan": {"reward": jnp.where(late, jnp.nan, result.reward)},
            "cost nan": {"cost": jnp.where(late, jnp.nan, result.cost)},
            "observation nan": {"observation": jnp.where(late, jnp.nan, result.observation)},
            "integer cost": {"cost": result.cost.astype(jnp.int32)},
            "scalar cost": {"cost": result.cost[0]},
            "vector reward": {"reward": result.reward[None]},
            "integer flag": {"terminated": jnp.int32(0)},
            "endless": {"truncated": jnp.bool_(False)},
            "state type": {"state": (place, speed, steps.astype(jnp.float32))},
            "state tree": {"state": [place, speed, steps]},
        }
        return result._replace(**changes.get(self.wrong, {}))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("", None),
        ("names", r"the cost is float32\[1\]: it must be float32\[2\]"),
        ("twice", r"cost_names=\('cost', 'cost'\): name one or more costs, each once"),
        ("unbounded", "actions need finite bounds"),
        ("one action", "at least two actions"),
        ("outside", r"step \d+ gave .* at place [01] of the observation.*widen observation_space"),
        ("no steps", "max_episode_steps=0: a whole number >= 1"),
        ("impure reset", "reset gave two different results for one key"),
        ("impure step", "step gave two different results"),
        ("reset shape", r"the observation of reset is float32\[1\]: it must be float32\[2\]"),
        ("reset branches", "reset cannot be compiled by jax.jit: Tracer.*jnp.where"),
        ("branches", "step cannot be compiled by jax.jit: Tracer"),
        ("nan", "step 4 gave the reward nan"),
        ("cost nan", r"step 4 gave the cost \[nan\]"),
        ("observation nan", "step 4 gave a non-finite observation"),
        ("integer cost", r"the cost is int32\[1\]: it must be float32\[1\]"),
        ("scalar cost", r"the cost is float32\[\]: it must be float32\[1\]"),
        ("vector reward", r"the reward is float32\[1\]: it must be float32\[\]"),
        ("integer flag", r"terminated is int32\[\]: it must be bool\[\]"),
        ("endless", "went on after max_episode_steps=50: count the steps"),
        ("state type", r"leaf 2 of the state is int32\[\] after reset and float32\[\] after step"),
        ("state tree", "they must be the same pytree"),
    ],
)
def test_what_is_wrong_with_a_cmdp(wrong, words):
    Faulty.calls.clear()
    problems = check_env(Faulty(wrong=wrong))
    if words is None:
        assert problems == []
    else:
        assert any(re.search(words, problem) for problem in problems), problems
        assert all("\n" not in problem for problem in problems)


class NoStep(Corridor):
    """Returns what a Gymnasium environment would."""

    def step(self, key, state, action):
        return tuple(super().step(key, state, action))


def test_a_step_must_return_step():
    (problem,) = check_env(NoStep())
    assert "step returned a tuple: it must return papd.envs.cmdp.Step" in problem


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (strangers.Pixels, "the observation space .* is no vector: .*FlattenObservation"),
        (strangers.Unbounded, "is not bounded: .*RescaleAction"),
        (strangers.ManySwitches, "neither a vector of real numbers nor Discrete"),
        (strangers.NoCost, r"reported no 'cost' \(info has the numbers penalty\): .* cost_keys="),
        (strangers.WrongShape, r"reset\(seed=0\) gave an observation of shape \(1,\), its space says \(2,\)"),
        (strangers.Unseeded, "gave two different observations: draw from self.np_random"),
        (strangers.Breaks, "step 3 raised ZeroDivisionError: no such thing"),
        (strangers.NoSpaces, "no attribute 'observation_space': set observation_space and action_space"),
        (strangers.NoInfo, "step 1 returned the info None: it must be a dictionary"),
        (strangers.WordsForNumbers, r"reset\(seed=0\) gave an observation of <U5 .* it must be numbers"),
        (strangers.ManyEnds, "returned terminated=.*each must be one bool"),
        (strangers.Walk, r"has no episode length: .*max_episode_steps=1000"),
    ],
)
def test_what_is_wrong_with_a_gymnasium_environment(env, words):
    problems = check_env(env())
    assert any(re.search(words, problem) for problem in problems), problems
    assert check_env(gymnasium.wrappers.TimeLimit(strangers.Walk(), 10)) == []


def test_ids_and_paths_are_checked_too():
    assert (
        check_env(
            "tests.envs.strangers:Breaks",
        )
        != []
    )
    assert check_env("CartPole-v1") != []
    (problem,) = check_env("SafetyBallRum-v0")
    assert "did you mean 'SafetyBallRun-v0'" in problem


@pytest.mark.bullet
def test_the_real_environments_are_sound():
    assert check_env("SafetyBallRun-v0") == []
    assert check_env("SafetyDroneRun-v0") == []


def test_a_cmdp_as_a_gymnasium_environment():
    env = GymnasiumCMDP(Corridor())
    made = make(env)
    assert check_env(env) == []
    assert made.max_episode_steps == 50
    first, info = env.reset(seed=3)
    assert info == {}
    rows = [env.step(np.ones(1, np.float32)) for _ in range(50)]
    assert rows[-1][3] is True
    assert [row[4]["cost"] for row in rows].count(1.0) == 45
    assert np.array_equal(first, env.reset(seed=3)[0])
    assert not np.array_equal(first, env.reset(seed=4)[0])
    assert env.observation_space.contains(first)
