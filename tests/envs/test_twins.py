"""The twins: exact formulas, physics that no action can drive out of bounds, and the real simulator beside them."""

import dataclasses
import functools
import json
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_gymnasium
from scipy import stats

from papd.envs.bullet import release_motors
from papd.envs.gym_adapter import GymnasiumCMDP
from papd.envs.twins import TWINS, Ball, Car, make_twin
from papd.envs.twins.ball import BallState, nearest_wall
from papd.envs.twins.ball import move as move_ball
from papd.envs.twins.car import CarState
from papd.envs.twins.drivers import controller, held, mixture, repeating
from papd.envs.twins.parameters import FILE, from_json, to_json
from papd.envs.twins.record import make_real, record
from papd.envs.twins.replay import as_jax, one_step, open_loop, real_path, real_states
from papd.envs.twins.tasks import Circle, Motion, Run
from papd.errors import ConfigError
from papd.results.fidelity import formula_errors

CARS = tuple(env_id for env_id in TWINS if "Car" in env_id)
BALLS = tuple(env_id for env_id in TWINS if "Ball" in env_id)
LENGTHS = {
    "SafetyBallRun-v0": 100,
    "SafetyCarRun-v0": 200,
    "SafetyBallCircle-v0": 200,
    "SafetyCarCircle-v0": 300,
}


@functools.cache
def player(twin):
    """Whole episodes [N] under actions [N, T, 2]: the steps, with axes [N, T]."""

    def play(key, actions):
        reset_key, key = jax.random.split(key)
        state, _ = twin.reset(reset_key)

        def advance(state, inputs):
            stepped = twin.step(*inputs[:1], state, inputs[1])
            return stepped.state, stepped

        return jax.lax.scan(advance, state, (jax.random.split(key, actions.shape[0]), actions))[1]

    return jax.jit(jax.vmap(play))


def episodes(twin, key, actions):
    return player(twin)(jax.random.split(key, actions.shape[0]), actions)


def attacks(key, count, length):
    """Actions of an adversary: white noise and bang-bang, held for various times, far out of the box too."""
    keys = jax.random.split(key, 4)
    hold = jax.random.choice(keys[0], jnp.array([1, 2, 7, 40, length]), (count, 1))
    index = jnp.arange(length)[None, :] // hold
    noise = jax.random.uniform(keys[1], (count, length, 2), minval=-1.0, maxval=1.0)
    sharp = jnp.where(jax.random.bernoulli(keys[2], 0.5, (count, 1, 1)), 100.0 * noise, noise)
    return jnp.take_along_axis(sharp, jnp.minimum(index, length - 1)[:, :, None], axis=1)


@pytest.mark.parametrize("env_id", TWINS)
def test_an_episode_has_the_real_ones_shape(env_id):
    twin = make_twin(env_id)
    size = 7 if "Run" in env_id else 8
    assert (twin.name, twin.max_episode_steps, twin.cost_names) == (env_id, LENGTHS[env_id], ("cost",))
    assert twin.observation_space.shape == (size,)
    assert twin.action_space.low == (-1.0, -1.0)
    assert twin.action_space.high == (1.0, 1.0)
    steps = episodes(twin, jax.random.key(0), jnp.zeros((200, LENGTHS[env_id], 2)))
    assert steps.observation.shape == (200, LENGTHS[env_id], size)
    assert steps.observation.dtype == steps.reward.dtype == steps.cost.dtype == jnp.float32
    assert not steps.terminated.any()
    assert (np.asarray(steps.truncated) == (np.arange(LENGTHS[env_id])[None, :] == LENGTHS[env_id] - 1)).all()


@pytest.mark.parametrize("env_id", TWINS)
def test_no_action_drives_a_twin_out_of_bounds(env_id):
    twin = make_twin(env_id)
    for seed in range(3):
        actions = attacks(jax.random.key(seed), 200, twin.max_episode_steps)
        steps = episodes(twin, jax.random.key(100 + seed), actions)
        for leaf in jax.tree.leaves(steps):
            assert np.isfinite(np.asarray(leaf, np.float64)).all()
        speed = np.hypot(*(np.asarray(value) for value in _velocity(twin, steps.observation)))
        fastest = {"SafetyBallRun-v0": 17.0, "SafetyBallCircle-v0": 17.0}.get(
            env_id, np.hypot(4.0, 1.5) + 1e-3
        )
        assert speed.max() <= fastest
        if "Circle" in env_id:
            assert np.abs(np.asarray(steps.observation[..., :2])).max() < 1.35


def _velocity(twin, observation):
    scale = 5.0 if isinstance(twin, Ball) else 1.0
    return scale * observation[..., 2], scale * observation[..., 3]


@pytest.mark.parametrize("env_id", CARS)
def test_a_car_in_any_state_stays_finite_and_bounded(env_id):
    twin = make_twin(env_id)
    keys = jax.random.split(jax.random.key(5), 9)
    draw = [jax.random.uniform(key, (2000,), minval=-30.0, maxval=30.0) for key in keys[:8]]
    states = CarState(*draw, jnp.full(2000, 50))
    actions = jax.random.uniform(keys[8], (2000, 2), minval=-5.0, maxval=5.0)
    stepped = jax.jit(jax.vmap(twin.step))(jax.random.split(jax.random.key(6), 2000), states, actions)
    moved = stepped.state
    for leaf in jax.tree.leaves(stepped):
        assert np.isfinite(np.asarray(leaf, np.float64)).all()
    for speed, bound in zip((moved.u, moved.v, moved.r), twin.parameters.speeds, strict=True):
        limit = bound if env_id == "SafetyCarRun-v0" or speed is moved.r else np.hypot(4.0, 1.5)
        assert np.abs(speed).max() <= limit + 1e-3


@pytest.mark.parametrize("env_id", CARS)
def test_a_car_is_the_same_in_the_mirror(env_id):
    twin = make_twin(env_id)
    quiet = dataclasses.replace(
        twin,
        parameters=twin.parameters._replace(
            steering_jitter=0.0, **{name: _still(twin, name) for name in _JITTERS}
        ),
    )
    state = CarState(*map(jnp.asarray, (1.0, 2.0, 0.5, -1.2, 0.1, 0.3, 0.2, -0.4)), jnp.asarray(20))
    mirrored = state._replace(
        y=-state.y, heading=-state.heading, v=-state.v, r=-state.r, steering=-state.steering
    )
    step = jax.jit(quiet.step)
    one = step(jax.random.key(0), state, jnp.array([-0.5, 0.7])).state
    other = step(jax.random.key(0), mirrored, jnp.array([-0.5, -0.7])).state
    for name, sign in {"x": 1, "y": -1, "heading": -1, "u": 1, "v": -1, "r": -1, "steering": -1}.items():
        np.testing.assert_allclose(getattr(one, name), sign * getattr(other, name), atol=1e-6, err_msg=name)


_JITTERS = ("drive_jitter", "yaw_jitter", "slide_jitter")


def _still(twin, name):
    return type(getattr(twin.parameters, name))(0.0, 0.0, 0.0, 0.0)


def test_only_the_car_has_noise():
    for env_id in TWINS:
        twin = make_twin(env_id)
        state, _ = twin.reset(jax.random.key(0))
        state = state._replace(step=jnp.asarray(10))
        step = jax.jit(twin.step)
        ends = [step(jax.random.key(seed), state, jnp.array([1.0, 1.0])).observation for seed in (1, 2)]
        assert bool((ends[0] == ends[1]).all()) == isinstance(twin, Ball)


def test_costs_are_the_keys_asked_for():
    keys = ("cost_velocity_violation", "cost", "cost_outside_bounds")
    twin = make_twin("SafetyBallRun-v0", cost_keys=keys)
    assert twin.cost_names == keys
    state, _ = twin.reset(jax.random.key(0))
    step = jax.jit(twin.step)
    for y, vx, expected in (
        (0.0, 1.0, [0, 0, 0]),
        (0.0, 3.0, [1, 1, 0]),
        (2.5, 1.0, [0, 1, 1]),
        (-2.5, 3.0, [1, 1, 1]),
    ):
        moving = state._replace(y=jnp.asarray(y), vx=jnp.asarray(vx), spin_x=jnp.asarray(vx))
        assert step(jax.random.key(1), moving, jnp.zeros(2)).cost.tolist() == expected


@pytest.mark.parametrize(
    ("env_id", "keys", "words"),
    [
        ("SafetyBalRun-v0", None, "did you mean 'SafetyBallRun-v0'"),
        ("SafetyAntRun-v0", None, "has no twin"),
        ("SafetyCarCircle-v0", ("cost_velocity_violation",), "has no 'cost_velocity_violation'"),
        ("SafetyCarRun-v0", ("cost_velocity",), "did you mean 'cost_velocity_violation'"),
        ("SafetyCarRun-v0", (), "name at least one"),
    ],
)
def test_a_mistake_is_told_in_one_line(env_id, keys, words):
    with pytest.raises(ConfigError, match=words) as caught:
        make_twin(env_id, cost_keys=keys)
    assert "\n" not in str(caught.value)


def test_run_pays_sixty_for_a_metre_towards_the_target():
    x, y, dx, dy = 12.3, 1.7, 0.0834, -0.013
    before = np.hypot(1e3 - (x - dx), y - dy)
    expected = 60.0 * (before - np.hypot(1e3 - x, y))
    motion = Motion(*(jnp.asarray(value, jnp.float32) for value in (x, y, dx, dy, 0.0, 0.0, 0.0)))
    assert float(Run(1.5).reward(motion)) == pytest.approx(expected, abs=1e-5)


def test_circle_pays_for_running_clockwise_at_the_radius():
    def reward(x, y, vx, vy, effort=0.0):
        return float(Circle().reward(Motion(*map(jnp.asarray, (x, y, 0.0, 0.0, vx, vy, effort)))))

    assert reward(7.0, 0.0, 0.0, -2.0) == pytest.approx(1.4)
    assert reward(7.0, 0.0, 0.0, 2.0) == pytest.approx(-1.4)
    assert reward(9.0, 0.0, 0.0, -2.0) == pytest.approx(0.1 * 18.0 / 3.0)
    assert reward(7.0, 0.0, 0.0, 0.0, -0.5) == pytest.approx(-0.005)


def test_calibration_found_the_physics_of_the_package():
    """The URDF has 3.5 N on 0.3 kg; Bullet's default damping is 0.04; friction 0.03 meets the floor's 0.8."""
    found = make_twin("SafetyBallRun-v0").parameters
    assert found.acceleration == pytest.approx(3.5 / 0.3, rel=1e-3)
    assert found.linear_damping == pytest.approx(0.04, rel=0.02)
    assert found.angular_damping == pytest.approx(0.04, rel=0.02)
    assert found.rolling_friction == pytest.approx(0.03 * 0.8, rel=5e-3)


def test_the_file_tells_how_it_was_made_and_is_read_back_whole():
    stored = json.loads(FILE.read_text())
    assert stored["command"] == "papd fidelity --calibrate"
    assert set(stored["twins"]) == set(TWINS)
    for env_id, entry in stored["twins"].items():
        assert entry["data"]["episodes"] > 0
        assert json.loads(json.dumps(to_json(from_json(env_id, entry["parameters"])))) == entry["parameters"]
    broken = dict(stored["twins"]["SafetyCarRun-v0"]["parameters"])
    del broken["drive"]
    with pytest.raises(ConfigError, match="drive; run papd fidelity --calibrate"):
        from_json("SafetyCarRun-v0", broken)


def test_a_twin_is_a_constant_of_the_program():
    twins = [make_twin("SafetyCarRun-v0") for _ in range(2)]
    assert twins[0] == twins[1]
    assert hash(twins[0]) == hash(twins[1])
    assert jax.tree.leaves(twins[0]) == []


def test_the_nearest_wall_is_the_one_whose_side_a_point_is_on():
    angles = np.linspace(0.01, 2.0 * np.pi, 97)
    normals = np.stack([np.cos(np.arange(8) * np.pi / 4), np.sin(np.arange(8) * np.pi / 4)])
    for angle in angles:
        x, y = np.cos(angle), np.sin(angle)
        best = normals[:, (np.array([x, y]) @ normals).argmax()]
        np.testing.assert_allclose(np.array(nearest_wall(jnp.asarray(x), jnp.asarray(y))), best, atol=1e-6)


@pytest.mark.bullet
@pytest.mark.parametrize("env_id", TWINS)
def test_formulas_are_the_real_ones_when_fed_the_real_state(env_id):
    twin = make_twin(env_id)
    real = record(env_id, mixture(env_id), 6, seed=71)
    reward_error, wrong_costs = formula_errors(twin, real)
    assert reward_error < 1e-4
    assert wrong_costs == 0.0
    states = as_jax(real_states(real))
    observed = jax.vmap(jax.vmap(twin.observe))(states)
    np.testing.assert_allclose(np.asarray(observed), real.observation, atol=1e-4)
    assert sum(costs.sum() for costs in real.costs.values()) > 0


@pytest.mark.bullet
@pytest.mark.parametrize("env_id", TWINS)
def test_first_states_are_drawn_as_the_real_ones_are(env_id):
    real = _first_observations(env_id, 150)
    twin = make_twin(env_id)
    _, drawn = jax.jit(jax.vmap(twin.reset))(jax.random.split(jax.random.key(3), 1000))
    ours = np.asarray(drawn, np.float64)
    for one, other in ((real, ours),):
        samples = [
            (values[:, 0], values[:, 1], np.hypot(values[:, 0], values[:, 1])) for values in (one, other)
        ]
        for mine, theirs in zip(*samples, strict=True):
            assert stats.ks_2samp(mine, theirs).pvalue > 1e-3
    assert np.abs(real[:, 2:4]).max() < 0.06
    if isinstance(twin, Car):
        facing = [np.arctan2(values[:, 4], values[:, 5]) for values in (real, ours)]
        if "Circle" in env_id:
            facing = [
                angle - np.arctan2(values[:, 1], values[:, 0])
                for angle, values in zip(facing, (real, ours), strict=True)
            ]
        angles = [np.mean(np.exp(1j * angle)) for angle in facing]
        assert abs(angles[0] - angles[1]) < 0.01


def _first_observations(env_id, count):
    """As a fresh environment gives them (papd.envs.bullet releases the motors before each reset)."""
    env, _ = make_real(env_id)
    first = []
    for seed in range(count):
        np.random.seed(seed)
        if "Car" in env_id:
            release_motors(env)
        first.append(env.reset()[0])
    env.close()
    return np.array(first)


@pytest.mark.bullet
def test_the_ball_rolls_as_the_real_one_to_a_millimetre():
    real = record("SafetyBallRun-v0", held, 10, seed=72)
    path, alone = real_path(real), open_loop(make_twin("SafetyBallRun-v0"), real)
    apart = np.hypot(path.x - alone.x, path.y - alone.y).max(axis=1)
    assert (apart / real.distance_travelled() < 1e-3).all()


@pytest.mark.bullet
def test_the_ball_circles_as_the_real_one():
    real = record("SafetyBallCircle-v0", controller("SafetyBallCircle-v0"), 10, seed=73)
    path, alone = real_path(real), open_loop(make_twin("SafetyBallCircle-v0"), real)
    apart = np.hypot(path.x - alone.x, path.y - alone.y)[:, -1] / real.distance_travelled()
    assert np.median(apart) < 0.01


@pytest.mark.bullet
def test_the_ball_hits_the_walls_as_the_real_one():
    """Pushed at random it is thrown back, and up: single steps among the walls, and whole episodes."""
    real = record("SafetyBallCircle-v0", held, 10, seed=76)
    twin = make_twin("SafetyBallCircle-v0")
    path, stepped, alone = real_path(real), one_step(twin, real), open_loop(twin, real)
    near = np.hypot(path.x, path.y)[:, :-1] > 10.5
    assert near.sum() > 300
    assert real.position[..., 2].max() > 0.6
    missed = np.hypot(stepped.forwards - path.forwards[:, 1:], stepped.sideways - path.sideways[:, 1:])
    assert np.median(missed[near]) < 0.01
    apart = np.hypot(path.x - alone.x, path.y - alone.y)[:, -1] / real.distance_travelled()
    assert np.median(apart) < 0.02


def test_a_ball_in_any_state_comes_to_rest_within_the_arena():
    """Dropped spinning it neither sinks nor leaves; Bullet lets it bounce by centimetres for ever."""
    twin = make_twin("SafetyBallCircle-v0")
    keys = jax.random.split(jax.random.key(7), 9)
    draw = [jax.random.uniform(key, (200,), minval=-6.0, maxval=6.0) for key in keys]
    height = jnp.abs(draw[2]) / 6.0
    states = BallState(draw[0], draw[1], height, *draw[3:], jnp.zeros(200, jnp.int32))
    rest = jax.jit(jax.vmap(lambda state: jax.lax.fori_loop(0, 300, lambda _, s: _coast(twin, s), state)))
    ended = rest(states)
    for leaf in jax.tree.leaves(ended):
        assert np.isfinite(np.asarray(leaf, np.float64)).all()
    assert -0.1 < ended.height.min() < ended.height.max() < 0.2
    assert np.hypot(ended.vx, ended.vy).max() < 0.05
    assert np.hypot(ended.x, ended.y).max() < 12.4


def _coast(twin, state):
    return move_ball(twin.parameters, state, jnp.zeros(()), jnp.zeros(()))


@pytest.mark.parametrize("env_id", TWINS)
def test_a_twin_is_an_ordinary_gymnasium_environment(env_id):
    env = GymnasiumCMDP(make_twin(env_id))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*(render|spec|gym.make|Box).*")
        check_gymnasium(env, skip_render_check=True)
    _, first = env.reset(seed=3), env.step(np.array([0.5, 0.5], np.float32))
    _, again = env.reset(seed=3), env.step(np.array([0.5, 0.5], np.float32))
    assert (first[0] == again[0]).all()
    assert first[4] == again[4]
    assert set(first[4]) == {"cost"}


@pytest.mark.bullet
@pytest.mark.parametrize("env_id", CARS)
def test_the_car_drives_as_the_real_one_within_its_jitter(env_id):
    real = record(env_id, controller(env_id), 8, seed=74)
    twin = make_twin(env_id)
    path, stepped, alone = real_path(real), one_step(twin, real), open_loop(twin, real)
    typical = [
        np.median(np.abs(getattr(stepped, name) - getattr(path, name)[:, 1:]))
        for name in ("forwards", "sideways", "yaw_rate")
    ]
    assert np.all(np.array(typical) < [0.02, 0.017, 0.028])
    apart = np.hypot(path.x - alone.x, path.y - alone.y)[:, -1] / real.distance_travelled()
    assert np.median(apart) < 0.08


@pytest.mark.bullet
def test_a_recording_is_the_same_again_and_its_actions_can_be_given_again():
    first = record("SafetyBallRun-v0", held, 3, seed=75)
    again = record("SafetyBallRun-v0", repeating(first.action), 3, seed=75, warm_up=5)
    assert (first.position == again.position).all()
    assert (first.reward == again.reward).all()
