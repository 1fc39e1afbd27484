"""Workers that die, hang or raise are replaced and their episodes begun again; nothing outlives the parent."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

from papd.envs.registry import make
from papd.errors import EnvironmentFault
from tests.envs.processes import workers_of
from tests.envs.strangers import Misbehaves

PATH = "tests.envs.strangers:Misbehaves"
ENVS, LENGTH = 4, 10
ACTIONS = np.random.default_rng(1).uniform(-1.0, 1.0, (2 * LENGTH, ENVS, 2)).astype(np.float32)


def make_bad(marker, deed="none", at=-1, **options):
    return make(
        PATH, max_episode_steps=LENGTH, deed=deed, at=at, marker=str(marker), time_limit=1.0, **options
    )


def finish_episodes(vector, first):
    """Play each environment's episode to its end, actions by the step of its own episode; what was seen of it."""
    rows = [[first[i].copy()] for i in range(ENVS)]
    alive, restarts = np.ones(ENVS, bool), np.zeros(ENVS, int)
    while alive.any():
        actions = np.stack([ACTIONS[len(rows[i]) - 1, i] for i in range(ENVS)])
        step = vector.step(actions, alive)
        restarts += step.restarted
        for i in np.flatnonzero(alive):
            rows[i] = [step.observation[i]] if step.restarted[i] else [*rows[i], step.observation[i]]
            if step.restarted[i]:
                assert step.reward[i] == 0
                assert not step.cost[i].any()
                assert not step.terminated[i] | step.truncated[i]
        alive &= ~(step.terminated | step.truncated)
    return [np.array(row) for row in rows], restarts.tolist()


def undisturbed(tmp_path):
    with make_bad(tmp_path / "none").start(ENVS, workers=0) as vector:
        return finish_episodes(vector, vector.reset(np.arange(ENVS)))[0]


@pytest.mark.parametrize(
    ("deed", "kind", "words"),
    [
        ("die", "died", "ended by SIGKILL"),
        ("exit", "died", "exited with 3"),
        ("hang", "hung", "no answer within 1 s"),
        ("raise", "raised", "RuntimeError: the wheel came off"),
    ],
)
def test_a_fault_in_a_step_begins_the_workers_episodes_again(tmp_path, caplog, deed, kind, words):
    expected = undisturbed(tmp_path)
    with make_bad(tmp_path / "done", deed, at=4).start(ENVS, workers=2) as vector:
        rows, restarts = finish_episodes(vector, vector.reset(np.arange(ENVS)))
        (fault,) = vector.drain_faults()
        assert vector.drain_faults() == []
    assert restarts == [0, 0, 1, 1]
    assert all(np.array_equal(a, b) for a, b in zip(rows, expected, strict=True))
    assert (fault.env, fault.index, fault.worker, fault.kind, fault.step) == (PATH, 3, 1, kind, 4)
    assert words in fault.message
    assert f"environment 3 {kind} in step 4 of its episode" in str(fault)
    assert [record.getMessage() for record in caplog.records] == [
        f"{fault}: replaced, its episode begins again"
    ]


def test_a_fault_in_a_reset_restarts_the_others_of_its_worker_at_the_next_step(tmp_path):
    with make_bad(tmp_path / "done", "die", at=0).start(ENVS, workers=1) as vector:
        first = vector.reset(np.array([0, 1, 2, 9]))
        vector.step(ACTIONS[0])
        observed = vector.reset(np.array([0, 1, 2, 3]), np.arange(ENVS) == 3)
        (fault,) = vector.drain_faults()
        assert (fault.index, fault.kind, fault.step) == (3, "died", 0)
        assert np.array_equal(observed[:3], first[:3])
        step = vector.step(ACTIONS[0])
        assert step.restarted.tolist() == [True, True, True, False]
        assert np.array_equal(step.observation[:3], first[:3])
        assert not np.array_equal(step.observation[3], observed[3])
        assert not vector.step(ACTIONS[1]).restarted.any()


def test_kill_9_of_a_worker_between_two_steps(tmp_path):
    expected = undisturbed(tmp_path)
    with make_bad(tmp_path / "none").start(ENVS, workers=2) as vector:
        first = vector.reset(np.arange(ENVS))
        vector.step(ACTIONS[0])
        os.kill(min(workers_of(os.getpid())), signal.SIGKILL)
        vector.reset(np.arange(ENVS))
        assert [fault.kind for fault in vector.drain_faults()] == ["died"]
        rows, restarts = finish_episodes(vector, first)
    assert restarts == [0] * ENVS
    assert all(np.array_equal(a, b) for a, b in zip(rows, expected, strict=True))


def test_ended_episodes_are_not_begun_again(tmp_path):
    mask = np.array([False, False, False, True])
    with make_bad(tmp_path / "none").start(ENVS, workers=1) as vector:
        vector.reset(np.arange(ENVS))
        for action in ACTIONS[:LENGTH]:
            step = vector.step(action)
        assert step.truncated.all()
        vector.reset(np.full(ENVS, 8), mask)
        os.kill(workers_of(os.getpid())[0], signal.SIGKILL)
        assert vector.step(ACTIONS[0], mask).restarted.tolist() == mask.tolist()


def test_faults_in_a_row_end_with_one_line(tmp_path):
    env = make_bad(tmp_path / "always", "raise", at=2, max_faults=2)
    with env.start(ENVS, workers=2) as vector:
        first = vector.reset(np.arange(ENVS))
        with pytest.raises(
            EnvironmentFault, match=r"environment 3 raised in step 2 .* 3 times in a row"
        ) as told:
            finish_episodes(vector, first)
        assert "\n" not in str(told.value)
        assert len(vector.drain_faults()) == 3


def test_a_finished_episode_ends_the_row_of_faults(tmp_path):
    with make_bad(tmp_path / "done", "raise", at=2, max_faults=1).start(ENVS, workers=1) as vector:
        for _ in range(3):
            (tmp_path / "done").unlink(missing_ok=True)
            finish_episodes(vector, vector.reset(np.arange(ENVS)))
        assert len(vector.drain_faults()) == 3


def test_faults_here_are_mended_where_the_environment_can_be_made_again(tmp_path):
    expected = undisturbed(tmp_path)
    with make_bad(tmp_path / "done", "raise", at=4).start(ENVS, workers=0) as vector:
        rows, restarts = finish_episodes(vector, vector.reset(np.arange(ENVS)))
    assert restarts == [1] * ENVS
    assert all(np.array_equal(a, b) for a, b in zip(rows, expected, strict=True))
    object_ = make(Misbehaves("raise", 2, str(tmp_path / "other")), max_episode_steps=LENGTH)
    with object_.start(1) as vector:
        vector.reset(np.array([3]))
        vector.step(ACTIONS[0, :1])
        with pytest.raises(EnvironmentFault, match=r"the wheel came off.*one object cannot be replaced"):
            vector.step(ACTIONS[0, :1])


@pytest.mark.parametrize("what", ["observation", "reward", "cost"])
@pytest.mark.parametrize("workers", [0, 2])
def test_what_is_not_finite_is_named(tmp_path, what, workers):
    with make_bad(tmp_path / "none", what, at=5).start(ENVS, workers=workers) as vector:
        first = vector.reset(np.arange(ENVS))
        with pytest.raises(
            EnvironmentFault, match=rf"environment 3 returned a non-finite {what} .* in step 5 .* seed 3"
        ):
            finish_episodes(vector, first)


def test_an_environment_that_cannot_be_built_in_a_worker_is_told():
    env = make("tests.envs.strangers:only_in", max_episode_steps=LENGTH, process=os.getpid())
    with pytest.raises(
        EnvironmentFault, match=r"built in a worker: raised \(PermissionError: the device is busy"
    ):
        env.start(2, workers=1)
    env.start(2, workers=0).close()


SCRIPT = """
    import signal
    import sys
    import numpy as np
    from papd.envs.registry import make
    signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell's background jobs ignore it.
    env = make(
        "tests.envs.strangers:Misbehaves",
        max_episode_steps=10,
        deed=sys.argv[1],
        at=1 if sys.argv[1] == "doze" else 2,
        marker=sys.argv[2],
        time_limit=2 if sys.argv[1] == "doze" else 60,
    )
    vector = env.start(4, workers=2)
    vector.reset(np.arange(4))
    vector.step(np.zeros((4, 2), np.float32))
    print("stepping", flush=True)
    if sys.argv[3] == "raise":
        sys.stdin.readline()
        raise RuntimeError("the learner's own fault")
    while True:
        vector.reset(np.arange(4))
        for _ in range(10):
            vector.step(np.zeros((4, 2), np.float32))
"""


def start_script(tmp_path, deed, *words):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    return subprocess.Popen(
        [sys.executable, script, deed, tmp_path / "done", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        start_new_session=True,
    )


def test_time_that_a_stopped_job_slept_is_no_hang(tmp_path):
    """Ctrl-Z stops learner and workers together, here for longer than the limit; ``fg`` lets them go on."""
    learner = start_script(tmp_path, "doze", "raise")
    marker = tmp_path / "done"
    while not marker.exists():
        time.sleep(0.01)
    os.killpg(learner.pid, signal.SIGSTOP)
    time.sleep(2.5)
    os.killpg(learner.pid, signal.SIGCONT)
    _, told = learner.communicate("go on\n", timeout=60)
    assert "the learner's own fault" in told
    assert "hung" not in told


@pytest.mark.parametrize(
    ("deed", "end"),
    [
        ("none", "SIGKILL"),
        ("hang", "SIGKILL"),
        ("spin", "SIGKILL"),
        ("none", "SIGINT"),
        ("hang", "SIGINT"),
        ("none", "SIGTERM"),
        ("none", "raise"),
    ],
)
def test_no_worker_outlives_its_parent(tmp_path, deed, end):
    parent = start_script(tmp_path, deed, end)
    assert parent.stdout.readline() == "stepping\n"
    workers = workers_of(parent.pid)
    assert len(workers) == 2
    time.sleep(0.3)  # For the parent to be within a step.
    if end == "SIGINT":  # A terminal's Ctrl-C reaches the whole group.
        os.killpg(parent.pid, signal.SIGINT)
    elif end != "raise":
        parent.send_signal(getattr(signal, end))
    _, errors = parent.communicate(timeout=120)
    for _ in range(250):  # Looks, not seconds: this test may have been stopped itself.
        if not any(os.path.exists(f"/proc/{worker}") for worker in workers):
            break
        time.sleep(0.02)
    assert not [worker for worker in workers if os.path.exists(f"/proc/{worker}")]
    assert "resource_tracker" not in errors
    assert errors.count("Traceback") == {"SIGINT": 1, "raise": 1}.get(end, 0)
