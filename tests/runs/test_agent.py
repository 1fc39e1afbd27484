"""The Python API: learn, predict, save, load; and one line for every mistake."""

import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import papd
from papd.envs.cmdp import Box
from papd.envs.probes import bandit, gridworld
from papd.errors import ConfigError, EnvironmentFault, PapdError
from papd.runs.agent import Agent, Row
from tests.agents.counting_env import Counting

SMALL = {"hidden_sizes": (8,), "num_envs": 3, "episodes_per_iteration": 3}
TWIN = "SafetyBallRun-v0"


def make(kind: str = "ppol", **changes: object) -> Agent:
    if kind == "ddpgl":
        small = {**SMALL, "buffer_size": 300, "batch_size": 16}
        return papd.DDPGLag(Counting(3, 9, cost=3.0), cost_limit=2.0, **{**small, **changes})
    return papd.PPOLag(Counting(3, 9, cost=3.0), cost_limit=2.0, **{**SMALL, "minibatch_size": 16, **changes})


def assert_same_state(a: Agent, b: Agent) -> None:
    for x, y in zip(jax.tree.leaves(a.state), jax.tree.leaves(b.state), strict=True):
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            x, y = jax.random.key_data(x), jax.random.key_data(y)
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [("ppol", {}), ("ppol", {"rollout": "steps", "steps_per_iteration": 12}), ("ddpgl", {})],
    ids=["ppol", "ppol-steps", "ddpgl"],
)
def test_a_saved_agent_goes_on_exactly_where_it_was(tmp_path: Path, kind: str, changes: dict) -> None:
    whole, broken = make(kind, **changes), make(kind, **changes)
    for _ in range(4):
        whole.iterate()
    for _ in range(2):
        broken.iterate()
    broken.save(tmp_path / "run")
    back = papd.load(tmp_path / "run", env=Counting(3, 9, cost=3.0))
    assert type(back) is type(whole)
    rows = [back.iterate() for _ in range(2)]
    assert rows[-1]["iteration"] == 4
    assert_same_state(whole, back)


def test_every_argument_comes_back(tmp_path: Path) -> None:
    agent = papd.PPOLag(
        Counting(3, 9),
        rate=papd.InvLin(0.002, 4.5, weights=(0.7,)),
        multiplier=papd.PID(0.3, 0.2, 0.1, signed_derivative=True, cap=9.5),
        cost_limit=3.3,
        seed=7,
        gamma=0.9,
        **SMALL,
    )
    agent.save(tmp_path)
    assert papd.load(tmp_path, env=Counting(3, 9)).config() == agent.config()
    for rule in (papd.Fixed(1.5), papd.GradientAscent(0.02, cap=3.0)):
        agent = make(multiplier=rule, rate=papd.Constant(0.001))
        agent.save(tmp_path)
        assert papd.load(tmp_path, env=Counting(3, 9)).config() == agent.config()


def test_learn_takes_whole_iterations_and_calls_back() -> None:
    agent, seen = make(), []

    def watch(which: Agent, row: Row) -> bool:
        seen.append(row)
        return which.env_steps < 60

    assert agent.learn(10_000, callback=watch) is agent
    assert agent.env_steps == seen[-1]["env_steps"] >= 60 > seen[-2]["env_steps"]
    assert [row["iteration"] for row in seen] == list(range(1, len(seen) + 1))
    before = agent.env_steps
    assert agent.learn(1).env_steps > before


def test_predict_one_or_many_in_the_environments_units() -> None:
    agent = make()
    one, state = agent.predict(np.zeros(2))
    many, _ = agent.predict(np.zeros((5, 2)))
    assert state is None
    assert one.shape == (1,)
    assert many.shape == (5, 1)
    np.testing.assert_allclose(many, np.tile(one, (5, 1)), rtol=1e-6)
    assert isinstance(agent.env.action_space, Box)
    sampled, _ = agent.predict(np.zeros((200, 2)), deterministic=False)
    assert sampled.min() >= -2.0
    assert sampled.max() <= 6.0
    assert sampled.std() > 0.1
    again = [agent.predict(np.zeros(2), deterministic=False, key=jax.random.key(1))[0] for _ in range(2)]
    assert again[0] == again[1]
    choice, _ = papd.PPOLag(bandit(), **SMALL).predict(np.ones(1))
    assert choice in (0, 1)


def test_two_limits_have_two_columns() -> None:
    agent = papd.PPOLag(gridworld(("S#%G", "....")), cost_limit=(0.5, 0.1), **SMALL)
    row = agent.iterate()
    assert row["cost_mean"] == pytest.approx(row["cost_mean_cost_0"] + row["cost_mean_cost_1"])
    assert row["multiplier"] == pytest.approx(row["multiplier_cost_0"] + row["multiplier_cost_1"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"cost_limit": -1.0}, "cost_limit=-1.0: a limit must be"),
        ({"cost_limit": float("nan")}, "a limit must be a finite number"),
        ({"workers": -1}, "workers=-1: a whole number >= 0"),
        ({"cost_limit": (1.0, 2.0)}, "1 constraint .cost. needs 1 limit, one each"),
        ({"hidden_sizes": ()}, "hidden_sizes must be one or more layer sizes"),
        ({"gama": 0.9}, "unknown argument 'gama'; did you mean 'gamma'"),
        ({"seed": -1}, "a seed is a whole number"),
        ({"multiplier": papd.PID(kp=(1.0, 2.0))}, "one value for all constraints or one for each"),
        ({"rollout": "steps", "steps_per_iteration": 10, "num_envs": 3}, "a multiple of it"),
    ],
)
def test_wrong_arguments_are_told_in_one_line(arguments: dict, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as raised:
        papd.PPOLag(Counting(3, 9), **arguments)
    assert "\n" not in str(raised.value)


def test_wrong_rates_environments_and_spaces_are_told() -> None:
    for call, words in (
        (lambda: papd.InvQua(0.0, 6.0), "h1=0.0"),
        (lambda: papd.InvLin(0.1, -1.0), "h2=-1.0"),
        (lambda: papd.Constant(float("nan")), "learning_rate=nan"),
        (lambda: papd.PID(kp=-0.1), "kp=-0.1"),
        (lambda: papd.PPOLag("SafetyBalRun-v0", backend="twin"), "did you mean 'SafetyBallRun-v0'"),
        (lambda: papd.DDPGLag(bandit()), "use PPOLag"),
        (
            lambda: papd.PPOLag(gridworld(("S#%G",)), cost_limit=1.0),
            "2 constraints .cost_0, cost_1. need 2 limits",
        ),
        (lambda: papd.DDPGLag(Counting(3, 9), buffer_size=10), "buffer_size=10"),
    ):
        with pytest.raises(PapdError, match=words) as raised:
            call()
        assert "\n" not in str(raised.value)


def test_observations_that_are_no_numbers_or_misfit_are_refused() -> None:
    agent = make()
    with pytest.raises(ConfigError, match="an array of numbers"):
        agent.predict("a")
    with pytest.raises(ConfigError, match="a callback is a function"):
        agent.learn(1, callback="often")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="contains NaN"):
        agent.predict(np.array([0.0, np.nan]))
    with pytest.raises(ConfigError, match=r"observations of shape \(2,\)"):
        agent.predict(np.zeros(3))
    with pytest.raises(ConfigError, match="steps must be"):
        agent.learn(0)


WRONG_KINDS = {
    "papd.PPOLag(bandit(), cost_limit='ten')": "cost_limit='ten': a limit must be a finite number >= 0",
    "papd.PPOLag(bandit(), rate=0.001)": "rate=0.001: give papd.Constant, papd.InvLin or papd.InvQua",
    "papd.PPOLag(bandit(), multiplier=1.0)": "multiplier=1.0: give papd.PID, papd.GradientAscent or papd.Fixed",
    "papd.PPOLag(bandit(), hidden_sizes=128)": "hidden_sizes must be one or more layer sizes >= 1",
    "papd.PPOLag(bandit(), gamma='0.9')": "gamma='0.9': gamma must be a number",
    "papd.PPOLag(bandit(), normalize_advantages='no')": "normalize_advantages must be True or False",
    "papd.PPOLag(bandit(), workers='two')": "workers='two': a whole number >= 0",
    "papd.PPOLag(bandit()).learn('10')": "steps='10': steps must be a number >= 1",
    "papd.InvQua('a', 6.0)": "h1='a': the learning rate's numerator must be a finite number > 0",
    "papd.InvQua(0.1, 6.0, weights=[1.0])": "weights=[1.0]: a finite number >= 0, or a tuple of one a constraint",
    "papd.PID(kp='a')": "kp='a': a multiplier's gain must be a finite number >= 0",
}


def test_values_of_a_wrong_kind_are_told_in_one_line() -> None:
    """In a process of its own, as a user runs it: here the tests' type checker would be the first to speak."""
    lines = ["import papd", "from papd.envs.probes import bandit"]
    for call in WRONG_KINDS:
        lines += ["try:", f"    {call}", "except papd.errors.ConfigError as error:", "    print(error)"]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True
    )
    told = done.stdout.splitlines()
    assert len(told) == len(WRONG_KINDS)
    assert [words for words, line in zip(WRONG_KINDS.values(), told, strict=True) if words not in line] == []


def test_a_reward_that_is_no_number_stops_the_run_and_keeps_the_state() -> None:
    agent = papd.PPOLag(Counting(3, 9, cost=float("nan")), **SMALL)
    with pytest.raises(EnvironmentFault, match=r"test/Counting: .* iteration 1 is no finite number"):
        agent.iterate()
    assert agent.env_steps == 0


def test_a_host_environment_that_no_agent_can_use_is_told() -> None:
    from papd.envs.registry import make as make_env

    for name, words in (
        ("tests.envs.strangers:NoCost", r"reported no 'cost' .* put info\['cost'\] = 0.0 or more"),
        (
            "tests.envs.strangers:ManySwitches",
            "neither a vector of real numbers nor Discrete: wrap the environment",
        ),
        ("tests.agents.counting_gym:broken", r"step 3 gave a non-finite observation"),
    ):
        with pytest.raises(ConfigError, match=words) as raised:
            make_env(name, max_episode_steps=9)
        assert "\n" not in str(raised.value)


def test_a_twin_by_its_id(tmp_path: Path) -> None:
    agent = papd.PPOLag(
        TWIN, backend="twin", seed=1, hidden_sizes=(16,), num_envs=4, episodes_per_iteration=4
    )
    agent.learn(400)
    agent.save(tmp_path)
    back = papd.load(tmp_path)
    assert back.config() == agent.config()
    assert_same_state(agent, back)
