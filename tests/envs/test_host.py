"""Vectors of host environments: the same numbers however they are shared out, masks, seeds, costs, clean ends."""

import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from papd.envs.host import HostVector
from papd.envs.registry import make
from papd.errors import ConfigError, EnvironmentFault
from tests.envs.processes import workers_of

STRANGERS = "tests.envs.strangers"
ENVS, LENGTH = 5, 10


def make_walk(name="walk", **options):
    return make(f"{STRANGERS}:{name}", max_episode_steps=LENGTH, **options)


def random_actions(steps=LENGTH, envs=ENVS):
    return np.random.default_rng(1).uniform(-1.0, 1.0, (steps, envs, 2)).astype(np.float32)


def play(vector: HostVector, actions, seeds=None):
    """An episode of each environment: the first observation, then every step's arrays."""
    rows = [vector.reset(np.arange(vector.num_envs) if seeds is None else seeds)]
    for action in actions:
        step = vector.step(action)
        rows += [step.observation, step.reward, step.cost, step.terminated, step.truncated]
    return rows


def equal(first, second):
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_the_numbers_do_not_depend_on_who_steps_what():
    env, actions = make_walk(), random_actions()
    with (
        env.start(ENVS, workers=0) as here,
        env.start(ENVS, workers=2) as two,
        env.start(ENVS, workers=9) as all_,
    ):
        expected = play(here, actions)
        assert equal(expected, play(two, actions))
        assert equal(expected, play(all_, actions))
        assert equal(expected, play(two, actions)), "a used environment repeats a fresh one"
        assert not equal(expected, play(two, actions, seeds=np.arange(ENVS) + 7))


def test_an_episode_is_a_function_of_its_seed_though_the_others_draw_from_the_same_global_generator():
    actions = random_actions()
    with make_walk().start(ENVS, workers=1) as together, make_walk().start(1, workers=1) as alone:
        rows = play(together, actions)
        for index in range(ENVS):
            single = play(alone, actions[:, index : index + 1], seeds=np.array([index]))
            assert equal([row[index : index + 1] for row in rows], single)


def test_dtypes_and_shapes():
    with make_walk(cost_keys=("cost", "cost_speed")).start(ENVS, workers=2) as vector:
        assert vector.reset(np.arange(ENVS)).dtype == np.float32
        step = vector.step(random_actions()[0])
    assert step.observation.shape == (ENVS, 2)
    assert step.reward.shape == (ENVS,)
    assert step.cost.shape == (ENVS, 2)
    assert {step.observation.dtype, step.reward.dtype, step.cost.dtype} == {np.dtype(np.float32)}
    assert {step.terminated.dtype, step.truncated.dtype, step.restarted.dtype} == {np.dtype(bool)}


def test_only_the_environments_in_the_mask_are_stepped_and_reset():
    actions, mask = random_actions(), np.array([True, False, True, False, False])
    with make_walk().start(ENVS, workers=2) as vector:
        first = vector.reset(np.arange(ENVS))
        step = vector.step(actions[0], mask)
        assert np.array_equal(step.observation[~mask], first[~mask])
        assert not np.any(step.observation[mask] == first[mask])
        again = vector.reset(np.arange(ENVS), ~mask)
        assert np.array_equal(again[~mask], first[~mask])
        assert np.array_equal(again[mask], step.observation[mask])


def test_an_episode_ends_at_its_length_and_must_be_reset_then():
    actions = random_actions()
    with make_walk().start(ENVS, workers=2) as vector:
        rows = play(vector, actions)
        assert rows[-1].all()
        assert not np.any(rows[-6])
        with pytest.raises(ConfigError, match="the episode of environment 0 is over: reset it"):
            vector.step(actions[0])
        vector.reset(np.arange(ENVS), np.arange(ENVS) == 3)
        assert not vector.step(actions[0], np.arange(ENVS) == 3).truncated[3]


def test_our_limit_truncates_where_the_environment_does_not():
    env = make(f"{STRANGERS}:walk", max_episode_steps=4, length=100)
    with env.start(2, workers=0) as vector:
        vector.reset(np.arange(2))
        ends = [vector.step(action).truncated.tolist() for action in random_actions(4, 2)]
    assert ends == [[False, False]] * 3 + [[True, True]]


def test_discrete_actions_are_counted_from_zero():
    env = make(f"{STRANGERS}:Chain", max_episode_steps=20)
    with env.start(3, workers=1) as vector:
        vector.reset(np.arange(3))
        for _ in range(3):
            vector.step(np.array([1, 1, 0]))
        step = vector.step(np.array([1, 0, 1]))
        assert step.terminated.tolist() == [True, False, False]
        assert step.observation.argmax(axis=1).tolist() == [4, 2, 1]
        np.testing.assert_allclose(step.cost[:, 0], [0.4, 0.2, 0.1], rtol=1e-6)
        with pytest.raises(EnvironmentFault, match="the action 2 for environment 1 is none of 0 to 1"):
            vector.step(np.array([0, 2, 0]), np.array([False, True, False]))


def test_costs_from_info_from_chosen_keys_and_from_the_sixth_value():
    actions = random_actions()
    with make_walk(cost_keys=("cost_speed", "cost_even")).start(2, workers=0) as vector:
        rows = play(vector, actions[:3, :2])
    assert [row.tolist() for row in rows[3::5]] == [[[0.25, 0.0]] * 2, [[0.25, 1.0]] * 2, [[0.25, 0.0]] * 2]
    with make_walk("SixValues").start(2, workers=0) as vector:
        assert play(vector, actions[:1, :2])[3].tolist() == [[0.5], [0.5]]


def test_wrong_actions_seeds_and_numbers_are_told():
    env = make_walk()
    with env.start(2, workers=0) as vector:
        with pytest.raises(ConfigError, match="seeds must be whole numbers"):
            vector.reset(np.array([0, -1]))
        vector.reset(np.arange(2))
        with pytest.raises(ConfigError, match=r"needs \(2, 2\)"):
            vector.step(np.zeros((2, 3), np.float32))
        diverged = np.array([[0.0, 0.0], [np.nan, 0.0]], np.float32)
        with pytest.raises(EnvironmentFault, match="environment 1 is not finite: the policy has diverged"):
            vector.step(diverged)
        assert np.isfinite(vector.step(diverged, np.array([True, False])).observation).all()
    with pytest.raises(ConfigError, match="closed"):
        vector.step(diverged)
    with pytest.raises(ConfigError, match="num_envs=0"):
        env.start(0)
    with pytest.raises(ConfigError, match="workers=-1"):
        env.start(2, workers=-1)


def test_stepping_here_leaves_the_global_generators_alone():
    with make_walk().start(1) as vector:
        np.random.seed(5)
        play(vector, random_actions(envs=1))
        drawn = np.random.uniform()
    np.random.seed(5)
    assert drawn == np.random.uniform()


def test_a_worker_imports_no_jax():
    code = "import sys, papd.envs.workers; print('jax' in sys.modules, 'equinox' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_a_script_without_a_main_guard_is_run_once(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent(
            """
            import gymnasium, numpy as np
            from papd.envs.registry import make
            from tests.envs.strangers import Walk
            print("begin")
            gymnasium.register("Mine-v0", entry_point=lambda: Walk(), max_episode_steps=10)
            gymnasium.register("Theirs-v0", entry_point="tests.envs.strangers:Walk", max_episode_steps=10)
            for name in ("Mine-v0", "Theirs-v0"):
                with make(name).start(3) as vector:
                    vector.reset(np.arange(3))
                    print(name, vector.step(np.zeros((3, 2), np.float32)).truncated.tolist())
            """
        )
    )
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.splitlines() == [
        "begin",
        "Mine-v0 [False, False, False]",
        "Theirs-v0 [False, False, False]",
    ]
    assert done.stderr == ""


def test_closing_leaves_no_process_and_no_descriptor():
    make_walk().start(2, workers=2).close()
    before = sorted(os.listdir("/proc/self/fd"))
    vector = make_walk().start(4, workers=2)
    vector.reset(np.arange(4))
    children = workers_of(os.getpid())
    assert len(children) == 2
    vector.close()
    vector.close()
    del vector
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert not [child for child in children if os.path.exists(f"/proc/{child}")]


def test_a_step_that_was_interrupted_does_not_spoil_the_next(tmp_path):
    def interrupt(*_):
        raise KeyboardInterrupt

    env = make(
        f"{STRANGERS}:Misbehaves",
        max_episode_steps=LENGTH,
        deed="hang",
        at=1,
        marker=str(tmp_path / "done"),
        time_limit=0.6,
    )
    handler = signal.signal(signal.SIGALRM, interrupt)
    try:
        with make_walk().start(ENVS, workers=0) as here, env.start(ENVS, workers=2) as vector:
            vector.reset(np.arange(ENVS))
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(KeyboardInterrupt):
                vector.step(random_actions()[0])
            assert equal(play(here, random_actions()), play(vector, random_actions()))
            assert [fault.kind for fault in vector.drain_faults()] == ["hung"]
    finally:
        signal.signal(signal.SIGALRM, handler)
