"""An evaluation counts whole episodes, whatever the environment does; a video is a file that plays."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import imageio.v2 as imageio
import jax.numpy as jnp
import numpy as np
import pytest

import papd
from papd.envs.cmdp import CMDP, Box, Step
from papd.errors import ConfigError, EnvironmentFault, RunError
from papd.results import evaluation, video
from papd.results.evaluation import Evaluation, Moment, TwinPlayers, Vector, evaluate
from papd.results.video import record_video

SMALL = {"hidden_sizes": (8,), "num_envs": 2, "episodes_per_iteration": 2}


class Counted(CMDP):
    """Ends after 3 to 7 steps, by its first state; a step returns 1 and costs what the state says."""

    nan_reward: bool = eqx.field(static=True, default=False)

    name = "Counted"
    observation_space = Box((-1.0,), (10.0,))
    action_space = Box((-1.0,), (1.0,))
    cost_names = ("a", "b")
    max_episode_steps = 7

    def reset(self, key):
        length = jnp.floor(3 + 5 * jnp.asarray(jax_uniform(key)))
        return (length, jnp.float32(0)), length[None]

    def step(self, key, state, action):
        length, elapsed = state
        elapsed = elapsed + 1
        reward = jnp.where(self.nan_reward, jnp.nan, 1.0)
        return Step(
            (length, elapsed),
            length[None],
            reward,
            jnp.stack([length, 0 * length]),
            elapsed >= length,
            jnp.array(False),
        )


def jax_uniform(key):
    import jax

    return jax.random.uniform(key)


class Policy(NamedTuple):
    """As much of an agent as an evaluation needs."""

    env: CMDP
    limits: tuple[float, ...] = (25.0, 1.0)

    @property
    def state(self):
        class Controls(NamedTuple):
            limits: np.ndarray

        class State(NamedTuple):
            controls: Controls

        return State(Controls(np.array(self.limits)))

    def config(self):
        return {"env": "Counted", "backend": "twin", "cost_keys": ()}

    def predict(self, observation, deterministic=True, *, key=None):
        return np.zeros((len(observation), 1), np.float32), None


def test_every_episode_is_counted_once_to_its_end() -> None:
    result = evaluate(Policy(Counted()), 300)
    assert set(result.lengths) <= {3, 4, 5, 6, 7}
    assert len(set(result.lengths)) >= 4
    assert np.array_equal(result.returns, result.lengths)
    assert np.array_equal(result.costs[:, 0], result.lengths**2)
    assert not result.costs[:, 1].any()
    assert result.within_limit == pytest.approx((result.lengths <= 5).mean())
    assert result.return_mean.low < result.return_mean.estimate < result.return_mean.high
    assert result.return_mean.estimate == pytest.approx(result.lengths.mean())


def test_seeds_decide_the_episodes_and_not_how_many_are_played_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = evaluate(Policy(Counted()), 20)
    monkeypatch.setattr(evaluation, "MOST_TOGETHER", 7)
    assert np.array_equal(evaluate(Policy(Counted()), 20).lengths, one.lengths)
    assert not np.array_equal(evaluate(Policy(Counted()), 20, seed=1).lengths, one.lengths)


class Restarting(Vector):
    """The second environment dies in its second step, and its episode begins again."""

    num_envs, costs = 2, 1

    def __init__(self) -> None:
        self.calls = 0

    def reset(self, seeds: np.ndarray) -> np.ndarray:
        return np.zeros((2, 1), np.float32)

    def step(self, actions: np.ndarray, mask: np.ndarray) -> Moment:
        self.calls += 1
        restarted = np.array([False, self.calls == 2])
        ended = np.array([self.calls == 3, self.calls == 5])
        return Moment(np.zeros((2, 1), np.float32), np.ones(2), np.ones((2, 1)), ended, restarted)

    def close(self) -> None:
        pass


def test_an_episode_that_began_again_counts_from_there() -> None:
    returns, costs, lengths = evaluation._play_all(Policy(Counted()), Restarting(), 2, True, 0)
    assert lengths.tolist() == [3, 3]
    assert returns.tolist() == [3.0, 3.0]
    assert costs.tolist() == [[3.0], [3.0]]


def test_limits_hold_on_average_or_in_each_episode() -> None:
    made = Evaluation(
        "x",
        "twin",
        True,
        0,
        ("a", "b"),
        np.array([2.0, 1.0]),
        np.zeros(2),
        np.array([[1.0, 0.0], [3.0, 0.0]]),
        np.ones(2, int),
    )
    assert made.feasible
    assert made.within_limit == 0.5
    told = made.to_json()
    assert told["cost_mean"]["a"]["limit"] == 2.0
    assert told["cost_mean"]["a"]["estimate"] == 2.0
    assert told["returns"] == [0.0, 0.0]


def test_what_is_no_number_is_a_fault() -> None:
    with pytest.raises(EnvironmentFault, match="Counted: the reward or cost of an evaluated episode"):
        evaluate(Policy(Counted(nan_reward=True)), 2)


@pytest.mark.parametrize("episodes", [0, -1, True])
def test_no_episode_is_no_evaluation(episodes: int) -> None:
    with pytest.raises(ConfigError, match="one episode or more"):
        evaluate(Policy(Counted()), episodes)


def test_twins_are_vectorised() -> None:
    with TwinPlayers(Counted(), 5) as vector:
        first = vector.reset(np.arange(5))
        moment = vector.step(np.zeros((5, 1)), np.ones(5, bool))
    assert first.shape == (5, 1)
    assert moment.cost.shape == (5, 2)


@pytest.fixture(scope="module")
def ball() -> Iterator[papd.PPOLag]:
    """An untrained agent on the Ball's twin."""
    agent = papd.PPOLag("SafetyBallRun-v0", backend="twin", **SMALL)
    yield agent
    agent.close()


@pytest.mark.bullet
def test_a_twin_agent_is_evaluated_in_the_real_simulator(ball: papd.PPOLag) -> None:
    real = papd.evaluate(ball, episodes=5, backend="bullet")
    again = papd.evaluate(ball, episodes=5, backend="bullet", workers=0)
    assert real.backend == "bullet"
    assert real.lengths.tolist() == [100] * 5
    assert np.array_equal(real.returns, again.returns)
    sampled = papd.evaluate(ball, episodes=5, backend="bullet", deterministic=False)
    assert not np.array_equal(sampled.returns, real.returns)


@pytest.mark.bullet
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
@pytest.mark.parametrize(("backend", "kind"), [("twin", "gif"), ("bullet", "mp4")])
def test_a_video_plays(
    ball: papd.PPOLag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str, kind: str
) -> None:
    monkeypatch.setattr(video, "WIDTH", 320)  # Software takes its time for every pixel.
    monkeypatch.setattr(video, "HEIGHT", 176)
    path = tmp_path / f"film.{kind}"
    frames = record_video(ball, path, backend, seed=3)
    played = list(imageio.get_reader(path).iter_data())
    assert len(played) == frames >= 60
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    picture = played[frames // 2][..., :3].astype(float)
    assert picture.shape[1] == (320 if backend == "bullet" else 640)
    assert picture.std() > 10
    assert np.abs(picture - played[0][..., :3]).max() > 50


def test_a_video_of_what_has_no_picture_is_one_line(tmp_path: Path) -> None:
    agent = papd.PPOLag(Counted(), cost_limit=(1.0, 1.0), **SMALL)
    with pytest.raises(ConfigError, match="Counted has no picture"):
        record_video(agent, tmp_path / "x.gif")
    with pytest.raises(RunError, match="there is no folder"):
        record_video(agent, tmp_path / "nowhere" / "x.gif")
