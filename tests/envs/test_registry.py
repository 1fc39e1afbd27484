"""``make``: what is an environment, what is none, and what the answer says."""

import inspect

import gymnasium
import numpy as np
import pytest

import papd
from papd.envs import bullet_ids, registry
from papd.envs.bullet_ids import BULLET_IDS
from papd.envs.cmdp import CMDP, Box, Discrete
from papd.envs.host import HostEnv
from papd.envs.probes import bandit
from papd.envs.registry import list_envs, make
from papd.errors import ConfigError
from tests.envs import strangers
from tests.envs.strangers import Walk

PLACE = "tests.envs.strangers"


@pytest.fixture
def registered():
    """Register ids for one test."""
    names = []

    def register(name, **how):
        gymnasium.register(name, **how)
        names.append(name)
        return name

    yield register
    for name in names:
        gymnasium.envs.registration.registry.pop(name)


def steps_in_two_workers(env: HostEnv) -> bool:
    """Whether other processes can build it; stepped either way."""
    with env.start(2) as vector:
        vector.reset(np.arange(2))
        shape = (2,) if isinstance(env.action_space, Discrete) else (2, len(env.action_space.low))
        kind = int if isinstance(env.action_space, Discrete) else np.float32
        assert np.isfinite(vector.step(np.zeros(shape, kind)).observation).all()
    with pytest.raises(ConfigError) if callable(env.source) else env.start(2, workers=2):
        env.start(2, workers=2)
    return not callable(env.source)


def test_a_registered_id(registered):
    name = registered("Stranger-v0", entry_point=f"{PLACE}:Walk", max_episode_steps=12, kwargs={"size": 3})
    env = make(name)
    assert isinstance(env, HostEnv)
    assert (env.name, env.max_episode_steps, env.cost_names) == (name, 12, ("cost",))
    assert env.observation_space == Box((-np.inf,) * 3, (np.inf,) * 3)
    assert env.action_space == Box((-1.0,) * 3, (1.0,) * 3)
    assert steps_in_two_workers(env)
    assert make(name, size=2, max_episode_steps=7).action_space == Box((-1.0,) * 2, (1.0,) * 2)
    assert make(name, max_episode_steps=7).max_episode_steps == 7


def test_an_id_of_gymnasiums_own_whose_cost_is_another_entry():
    with pytest.raises(ConfigError, match=r"CartPole-v1: .* no 'cost' \(info has no numbers\)"):
        make("CartPole-v1")


def test_an_id_that_only_this_process_can_make(registered):
    assert not steps_in_two_workers(
        make(registered("Here-v0", entry_point=lambda: Walk(), max_episode_steps=9))
    )


def test_a_path_and_its_arguments():
    env = make(f"{PLACE}:walk", max_episode_steps=30, cost_keys=("cost", "cost_speed"), length=4)
    assert env.cost_names == ("cost", "cost_speed")
    assert steps_in_two_workers(env)
    assert make(f"{PLACE}:Chain", max_episode_steps=5).action_space == Discrete(2)


def test_functions_classes_and_objects():
    assert steps_in_two_workers(make(Walk, max_episode_steps=8))
    assert steps_in_two_workers(make(strangers.walk, max_episode_steps=8))
    assert not steps_in_two_workers(make(lambda: Walk(), max_episode_steps=8))
    limited = gymnasium.wrappers.FlattenObservation(gymnasium.wrappers.TimeLimit(Walk(), 10))
    env = make(limited)
    assert env.only_one
    assert env.max_episode_steps == 10
    with pytest.raises(ConfigError, match=r"one environment object, num_envs=2: write num_envs=1"):
        env.start(2)
    with pytest.raises(ConfigError, match="cannot be built in another process: write workers=0"):
        env.start(1, workers=1)
    with env.start(1) as vector:
        assert vector.reset(np.array([1])).shape == (1, 2)


def test_a_cmdp_goes_through_and_so_does_what_makes_one():
    arm = bandit()
    assert make(arm) is arm
    assert isinstance(make(bandit), CMDP)
    assert isinstance(make("papd.envs.probes:bandit"), CMDP)
    host = make(Walk, max_episode_steps=8)
    assert make(host) is host
    with pytest.raises(ConfigError, match=r"cost_keys does not apply to papd/Bandit, which is made already"):
        make(arm, cost_keys=("speed",))
    with pytest.raises(ConfigError, match="time_limit does not apply"):
        make(host, time_limit=3)


def test_the_recipe_makes_it_again():
    given = {"env": f"{PLACE}:walk", "cost_keys": ("cost", "cost_speed"), "max_episode_steps": 9, "length": 4}
    env = make(**given)
    again = make(**env.recipe)
    assert again == env
    assert make(Walk, max_episode_steps=8).recipe["env"] == f"{PLACE}:Walk"
    assert make(lambda: Walk(), max_episode_steps=8).recipe is None
    assert make(Walk(), max_episode_steps=8).recipe is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"env": "SafetyBalRun-v0"},
            "unknown environment 'SafetyBalRun-v0': did you mean 'SafetyBallRun-v0'",
        ),
        ({"env": "zzz"}, "unknown environment 'zzz': 'papd envs' lists"),
        ({"env": "no_such_module:make"}, "cannot import 'no_such_module'"),
        ({"env": ":make"}, "':make': cannot import '' .ValueError: Empty module name"),
        ({"env": ".near:make"}, "cannot import '.near' .TypeError"),
        ({"env": f"{PLACE}:Wlak"}, "has no attribute 'Wlak'"),
        ({"env": f"{PLACE}:signal"}, "is a module: name a function"),
        ({"env": "json:dumps", "obj": 1}, "json:dumps made a str, no gymnasium.Env"),
        ({"env": f"{PLACE}:walk", "speed": 3}, "cannot be made: TypeError: .*speed"),
        ({"env": f"{PLACE}:walk", "length": object()}, "length=.* cannot be sent to a worker process"),
        ({"env": f"{PLACE}:walk", "max_episode_steps": 0}, "max_episode_steps=0: must be >= 1"),
        ({"env": f"{PLACE}:walk"}, r"no episode length: .* papd.make\(..., max_episode_steps=1000\)"),
        ({"env": f"{PLACE}:walk", "max_episode_steps": 9, "time_limit": 0}, "time_limit=0"),
        ({"env": f"{PLACE}:walk", "max_episode_steps": 9, "max_faults": -1}, "max_faults=-1"),
        ({"env": 7}, "7 is no environment: give an id"),
        ({"env": Walk(), "size": 3}, "'size' does not apply to an environment object"),
        ({"env": "SafetyBallRun-v0", "backend": "twins"}, "backend='twins'; did you mean 'twin'"),
        (
            {"env": "SafetyAntRun-v0", "backend": "twin"},
            "has no twin: write backend='bullet', or take SafetyBallRun",
        ),
        ({"env": "SafetyBalRun-v0", "backend": "twin"}, "has no twin; did you mean 'SafetyBallRun-v0'"),
        ({"env": Walk(), "backend": "twin"}, "has no twin: backend='twin' is for ids"),
        ({"env": "SafetyBallRun-v0", "backend": "twin", "lean": True}, "a twin has no option 'lean'"),
        ({"env": "SafetyBallRun-v0", "leen": True}, "has no option 'leen'; did you mean 'lean'"),
        ({"env": "SafetyBallRun-v0", "max_episode_steps": 5}, "whose episodes have 100 steps"),
        ({"env": "SafetyBallRun-v0", "cost_keys": "cost"}, r"write a tuple, cost_keys=\('cost',\)"),
        ({"env": "SafetyBallRun-v0", "cost_keys": ()}, "name one or more different keys"),
        ({"env": "SafetyBallRun-v0", "cost_keys": ("cost", "cost")}, "name one or more different keys"),
        ({"env": "SafetyBallRun-v0", "cost_keys": ("costs",)}, "has no cost 'costs'; did you mean 'cost'"),
    ],
)
def test_one_line_that_names_the_fix(arguments, words):
    with pytest.raises(ConfigError, match=words) as told:
        inspect.unwrap(make)(**arguments)  # Without the tests' check of types, which a user has not.
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ("Pixels", "FlattenObservation"),
        ("Unbounded", "RescaleAction"),
        ("ManySwitches", "ActionWrapper"),
        ("NoCost", "or name other keys with cost_keys="),
        ("WrongShape", "mend one of them"),
        ("Breaks", "step 3 raised ZeroDivisionError"),
    ],
)
def test_what_cannot_be_trained_in_is_refused_at_once(env, words):
    with pytest.raises(ConfigError, match=words):
        make(f"{PLACE}:{env}", max_episode_steps=10)


def test_costs_by_other_names():
    env = make(f"{PLACE}:NoCost", max_episode_steps=10, cost_keys=("penalty",))
    assert env.cost_names == ("penalty",)
    with pytest.raises(ConfigError, match="gave the note 'words': it must be one number"):
        make(f"{PLACE}:NoCost", max_episode_steps=10, cost_keys=("note",))


def test_without_the_simulator_one_line_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(registry, "is_installed", lambda: False)
    with pytest.raises(
        ConfigError, match=r"SafetyBallRun-v0 needs the real simulator: pip install 'papd\[bullet\]'"
    ):
        make("SafetyBallRun-v0")
    assert not any(info.installed for info in list_envs())
    monkeypatch.setattr(bullet_ids.importlib.util, "find_spec", lambda name: None)
    assert not bullet_ids.is_installed()


def test_the_list():
    listed = {info.id: info for info in papd.list_envs()}
    assert list(listed) == list(BULLET_IDS)
    ball, ant = listed["SafetyBallRun-v0"], listed["SafetyAntCircle-v0"]
    assert (ball.backends, ant.backends) == (("bullet", "twin"), ("bullet",))
    assert ball.cost_keys == ("cost", "cost_outside_bounds", "cost_velocity_violation")
    assert (ball.max_episode_steps, ball.observation_space.shape, ball.action_space.shape) == (
        100,
        (7,),
        (2,),
    )


def test_twins_and_their_costs():
    twin = make(
        "SafetyBallRun-v0", backend="twin", cost_keys=["cost_outside_bounds", "cost_velocity_violation"]
    )
    assert isinstance(twin, CMDP)
    assert twin.cost_names == ("cost_outside_bounds", "cost_velocity_violation")
    real = BULLET_IDS["SafetyBallRun-v0"]
    assert twin.action_space == real.action_space
    assert twin.max_episode_steps == real.max_episode_steps
    assert twin.observation_space.shape == real.observation_space.shape
