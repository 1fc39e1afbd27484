"""``papd fidelity``: fresh trajectories, a table, a picture; and calibration that finds what made its data."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from papd import cli
from papd.envs.twins import make_twin, twin_with
from papd.envs.twins.calibrate import calibrate, fit
from papd.envs.twins.car import move
from papd.envs.twins.drivers import controller, held, repeating
from papd.envs.twins.fit_car import fit_car
from papd.envs.twins.record import record
from papd.envs.twins.replay import as_jax, one_step, real_path, real_states
from papd.errors import ConfigError, RunError
from papd.results.fidelity import compare, run_fidelity
from papd.results.transfer import Transfer, TransferReport, run_transfer, within


@pytest.mark.bullet
def test_a_report_has_a_row_for_every_driver_and_writes_its_files(tmp_path):
    report = run_fidelity(
        ["SafetyBallRun-v0"],
        episodes=3,
        policies={"SafetyBallRun-v0": {"straight": lambda observation: np.array([0.3, 0.0])}},
        say=lambda line: None,
    )
    assert [row.driver for row in report.rows] == ["held", "controller", "straight"]
    for row in report.rows:
        assert row.reward_error < 1e-4
        assert row.wrong_costs == 0.0
        assert max(row.velocity_error) < 1e-3
        assert row.drift[2] < 1e-3
        assert row.repeat_drift == (0.0, 0.0, 0.0)
    files = report.write(tmp_path)
    assert {file.name for file in files} == {
        f"fidelity.{kind}" for kind in ("json", "md", "pdf", "svg", "png")
    }
    assert json.loads((tmp_path / "fidelity.json").read_text())[0]["env"] == "SafetyBallRun-v0"
    table = (tmp_path / "fidelity.md").read_text().splitlines()
    assert len(table) == 5
    assert table[2].startswith("| SafetyBallRun-v0 | held | 3 |")
    assert (tmp_path / "fidelity.png").stat().st_size > 10_000


def test_the_command_takes_several_policies_and_tells_of_mistakes(capsys):
    words = ["--policies", "no-such-run", "nor-this", "--episodes", "1"]
    for more, told in (
        ([], "no-such-run holds no run"),
        (["--transfer"], "--transfer trains its own policies"),
    ):
        with pytest.raises(SystemExit) as stopped:
            cli.main(["fidelity", *more, *words])
        assert stopped.value.code == 2
        assert told in capsys.readouterr().err


@pytest.mark.bullet
def test_a_wrong_twin_is_found_out():
    real = record("SafetyBallRun-v0", held, 3, seed=81)
    right = make_twin("SafetyBallRun-v0")
    heavy = twin_with(
        right.env_id, right.parameters._replace(acceleration=0.9 * right.parameters.acceleration)
    )
    good, _ = compare(right, real, real, "held", 81)
    bad, _ = compare(heavy, real, real, "held", 81)
    assert good.drift[1] < 1e-4 < 0.02 < bad.drift[1]
    assert bad.velocity_error[0] > 100 * good.velocity_error[0]


@pytest.mark.bullet
def test_a_car_repeats_itself_only_as_far_as_its_motors_forget():
    """A used Car begins as its motors were last told: what the real one differs by from itself."""
    real = record("SafetyCarRun-v0", held, 2, seed=84)
    again = record("SafetyCarRun-v0", repeating(real.action), 2, seed=84, warm_up=10)
    row, _ = compare(make_twin("SafetyCarRun-v0"), real, again, "held", 84)
    assert 1e-4 < row.repeat_drift[1] < 0.2
    assert row.drift[1] < 3.0 * row.repeat_drift[1]


@pytest.mark.bullet
def test_transfer_trains_once_and_refuses_the_agents_of_another_twin(tmp_path):
    def transfer():
        return run_transfer(
            ["SafetyBallRun-v0"],
            tmp_path,
            seeds=1,
            episodes=2,
            steps=4_000,
            workers=1,
            quiet=True,
            say=lambda line: None,
        )

    report = transfer()
    (row,) = report.rows
    assert row.twin_return == pytest.approx(row.bullet_return, rel=1e-3)
    assert row.twin_cost == row.bullet_cost
    policy = tmp_path / "BallRun-seed0" / "policy.safetensors"
    written = policy.stat().st_mtime_ns
    assert transfer().rows == report.rows
    assert policy.stat().st_mtime_ns == written
    (tmp_path / "twins.json").write_text(json.dumps({"SafetyBallRun-v0": "another"}))
    with pytest.raises(RunError, match="trained on a twin with other parameters"):
        transfer()


def test_a_transfer_is_within_its_aims_or_not(tmp_path):
    close = Transfer("SafetyCarRun-v0", 0, 50, 500.0, 4.0, 491.0, 5.4)
    poor = Transfer("SafetyCarRun-v0", 1, 50, 500.0, 4.0, 489.0, 4.0)
    costly = Transfer("SafetyCarRun-v0", 2, 50, 500.0, 4.0, 500.0, 5.6)
    assert [within(row) for row in (close, poor, costly)] == [True, False, False]
    report = TransferReport((close, poor, costly))
    (mean,) = report.means()
    assert mean.seed == 3
    assert mean.return_change == pytest.approx(-20 / 1500)
    report.write(tmp_path)
    lines = (tmp_path / "transfer.md").read_text().splitlines()
    assert lines[2].endswith("| -1.33% | +1.00 | yes |")
    assert [line.split("|")[-2].strip() for line in lines[6:]] == ["yes", "no", "no"]
    assert json.loads((tmp_path / "transfer.json").read_text())[2]["cost_change"] == pytest.approx(1.6)


def test_an_unknown_id_or_no_episodes_are_told():
    with pytest.raises(ConfigError, match="did you mean 'SafetyCarRun-v0'"):
        run_fidelity(["SafetyCarRum-v0"])
    with pytest.raises(ConfigError, match="at least one"):
        run_fidelity(["SafetyCarRun-v0"], episodes=0)
    with pytest.raises(ConfigError, match="did you mean 'SafetyCarRun-v0'"):
        run_transfer(["SafetyCarRum-v0"])
    with pytest.raises(ConfigError, match="seeds=0"):
        run_transfer(["SafetyCarRun-v0"], seeds=0)


@pytest.mark.bullet
def test_calibration_of_the_ball_starts_from_a_guess_and_ends_at_the_truth():
    real = record("SafetyBallRun-v0", controller("SafetyBallRun-v0"), 8, seed=82)
    found = fit(real)
    assert found.acceleration == pytest.approx(3.5 / 0.3, rel=2e-3)
    assert found.rolling_friction == pytest.approx(0.024, rel=0.02)
    assert found.linear_damping + found.angular_damping == pytest.approx(0.08, rel=0.05)


@pytest.mark.bullet
def test_calibration_of_the_car_finds_the_car_that_made_the_data():
    """A recording whose motion is replaced by the twin's own: the fit predicts it nearly without error."""
    real = record("SafetyCarRun-v0", controller("SafetyCarRun-v0"), 12, seed=83)
    twin = make_twin("SafetyCarRun-v0")
    synthetic = _driven_by(twin, real)
    known = {"time_step": 4 / 120, "sub_steps": 4, "walls": False, "landing_steps": 1}
    found = twin_with(twin.env_id, fit_car(synthetic, known, refinements=20))
    truth, predicted = real_path(synthetic), one_step(found, synthetic)
    for name, size in (("forwards", 0.002), ("sideways", 0.004), ("yaw_rate", 0.008)):
        error = getattr(predicted, name)[:, 5:] - getattr(truth, name)[:, 6:]
        assert np.sqrt(np.mean(error**2)) < size, name


def _driven_by(twin, real):
    """The recording with the twin's noiseless motion under the recorded actions in place of the real one."""
    first = jax.tree.map(lambda leaf: leaf[:, 0], as_jax(real_states(real)))

    def episode(state, actions):
        def advance(state, action):
            moved = move(twin.parameters, state, action[0], action[1], jnp.zeros(4))
            return moved, moved

        _, states = jax.lax.scan(advance, state, jnp.clip(actions, -1.0, 1.0))
        return jax.tree.map(lambda start, rest: jnp.concatenate([start[None], rest]), state, states)

    states = jax.jit(jax.vmap(episode))(first, jnp.asarray(real.action, jnp.float32))
    s = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), states)
    sine, cosine, none = np.sin(s.heading), np.cos(s.heading), np.zeros_like(s.x)
    return dataclasses.replace(
        real,
        position=np.stack([s.x, s.y, none], axis=-1),
        velocity=np.stack([cosine * s.u - sine * s.v, sine * s.u + cosine * s.v, none], axis=-1),
        rotation=np.stack([none, none, s.heading], axis=-1),
        spin=np.stack([none, none, s.r], axis=-1),
        steering=np.stack([s.steering, s.steering], axis=-1),
    )


@pytest.mark.bullet
def test_calibration_stores_what_it_found_beside_the_others(tmp_path, monkeypatch):
    monkeypatch.setitem(
        __import__("papd.envs.twins.calibrate", fromlist=["EPISODES"]).EPISODES, "SafetyBallRun-v0", 4
    )
    out = tmp_path / "parameters.json"
    out.write_text(json.dumps({"twins": {"another": {"parameters": {}}}}))
    stored = calibrate(("SafetyBallRun-v0",), out, workers=1, say=lambda line: None)
    assert json.loads(out.read_text()) == stored
    assert stored["command"] == "papd fidelity --calibrate"
    assert set(stored["twins"]) == {"another", "SafetyBallRun-v0"}
    assert stored["twins"]["SafetyBallRun-v0"]["data"]["episodes"] == 4
    assert set(stored["packages"]) == {"bullet-safety-gym", "pybullet", "jax"}
