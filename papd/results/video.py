"""One episode as a film: the real simulator drawn in software (no screen needed), a twin drawn from above."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import UInt8

from papd.envs.cmdp import CMDP
from papd.envs.host import HostEnv
from papd.errors import ConfigError, RunError
from papd.results import from_above
from papd.results.evaluation import environment_of
from papd.runs.files import reason, write_atomic

if TYPE_CHECKING:
    from papd.envs.twins.ball import Ball
    from papd.envs.twins.car import Car
    from papd.runs.agent import Agent

WIDTH, HEIGHT = 640, 352
"""Multiples of 16, which every player takes."""

MOST_FRAMES_PER_SECOND = 30
FORMATS = (".mp4", ".gif")

Frame = UInt8[np.ndarray, "height width 3"]


class Shot(NamedTuple):
    """One frame, with what the caption says."""

    picture: Frame
    reward: float
    cost: float


class Film(NamedTuple):
    """An episode being filmed."""

    seconds_per_step: float
    shots: Iterator[Shot]


def check_video_path(path: Path) -> None:
    """Refuse a name that says no format, before an episode is played for it."""
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"{path}: a video is a .mp4 or .gif file")
    if not path.parent.is_dir():
        raise RunError(f"cannot write {path}: there is no folder {path.parent}")


def record_video(
    agent: "Agent",
    path: Path,
    backend: Literal["bullet", "twin"] | None = None,
    *,
    deterministic: bool = True,
    seed: int = 0,
) -> int:
    """Film one episode of the agent's policy into ``path``; the number of frames is returned."""
    check_video_path(path)
    env = environment_of(agent, backend)
    film = (
        _film_host(agent, env, deterministic, seed)
        if isinstance(env, HostEnv)
        else _film_twin(agent, env, deterministic, seed)
    )
    every = max(1, round(1.0 / (MOST_FRAMES_PER_SECOND * film.seconds_per_step)))
    frames = list(_captioned(film.shots, every, env.name))
    _write(path, frames, 1.0 / (film.seconds_per_step * every))
    return len(frames)


def _captioned(shots: Iterator[Shot], every: int, name: str) -> Iterator[Frame]:
    """Every so-manieth frame, and what the episode has returned and cost so far."""
    from PIL import Image, ImageDraw

    total_return = total_cost = 0.0
    for number, shot in enumerate(shots):
        total_return += shot.reward
        total_cost += shot.cost
        if number % every == 0:
            image = Image.fromarray(shot.picture)
            text = f"{name}   step {number + 1}   return {total_return:.1f}   cost {total_cost:.0f}"
            ImageDraw.Draw(image).text(
                (8, 6), text, fill=(20, 20, 20), stroke_width=2, stroke_fill=(255, 255, 255)
            )
            yield np.asarray(image)


def _write(path: Path, frames: list[Frame], frames_per_second: float) -> None:
    """Encode the film, then put the whole file in its place."""
    try:
        import imageio.v2 as imageio
    except ImportError as error:
        raise ConfigError("--video needs imageio: install it with pip install 'papd[bullet]'") from error
    kind = path.suffix.lower()
    options: dict[str, Any] = (
        {"duration": 1000.0 / frames_per_second, "loop": 0}
        if kind == ".gif"
        else {"fps": frames_per_second, "macro_block_size": 2}
    )
    with warnings.catch_warnings():
        # ffmpeg is started by fork and exec, which JAX warns of; between the two nothing of JAX runs.
        warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
        try:
            film = imageio.mimwrite("<bytes>", [*frames], format=kind, **options)
        except OSError as error:  # ffmpeg's own file lies in the system's temporary folder.
            raise RunError(f"cannot encode {path}: {reason(error)}") from error
    write_atomic(path, film)


def _film_host(agent: "Agent", env: HostEnv, deterministic: bool, seed: int) -> Film:
    """A real environment, in this process, with its pictures."""
    from papd.envs.sources import Source

    if not isinstance(env.source, Source):
        raise ConfigError(f"--video makes the environment anew: give {env.name} by its id, not as an object")
    if env.source.kind == "bullet":
        return _film_bullet(agent, env.source.target, deterministic, seed)
    made = env.source.build_env()
    step_seconds = 1.0 / made.metadata.get("render_fps", MOST_FRAMES_PER_SECOND)
    return Film(step_seconds, _play(agent, made, made.render, deterministic, seed))


def _film_bullet(agent: "Agent", name: str, deterministic: bool, seed: int) -> Film:
    """The package's own environment. Its render() wants a graphics card: the picture is TinyRenderer's."""
    import gymnasium

    from papd.envs.bullet import quiet

    with quiet():
        world: Any = gymnasium.make(name).unwrapped
    return Film(world.dt, _play(agent, world, lambda: _follow(world), deterministic, seed))


def _follow(world: Any) -> Frame:
    """The agent from behind and above, as software draws it."""
    import pybullet

    client = world.bc
    view = client.computeViewMatrixFromYawPitchRoll(
        cameraTargetPosition=list(world.agent.get_position()),
        distance=6.0,
        yaw=-60.0,
        pitch=-30.0,
        roll=0.0,
        upAxisIndex=2,
    )
    lens = client.computeProjectionMatrixFOV(fov=60.0, aspect=WIDTH / HEIGHT, nearVal=0.1, farVal=100.0)
    pixels = client.getCameraImage(WIDTH, HEIGHT, view, lens, renderer=pybullet.ER_TINY_RENDERER)[2]
    return np.reshape(np.asarray(pixels, np.uint8), (HEIGHT, WIDTH, 4))[:, :, :3].copy()


def _play(agent: "Agent", env: Any, draw: Any, deterministic: bool, seed: int) -> Iterator[Shot]:
    """One episode of a Gymnasium environment, a picture before each step."""
    np.random.seed(seed)
    observation, _ = env.reset(seed=seed)
    key = jax.random.key(seed)
    ended = False
    steps = 0
    while not ended and steps < agent.env.max_episode_steps:
        picture = _checked(draw(), agent.env.name)
        key, now = jax.random.split(key)
        action, _ = agent.predict(observation, deterministic, key=now)
        observation, reward, *costs, terminated, truncated, info = env.step(action)
        steps += 1
        ended = bool(terminated or truncated)
        yield Shot(picture, float(reward), float(costs[0] if costs else info.get("cost", 0.0)))
    env.close()


def _checked(picture: Any, name: str) -> Frame:
    array = np.asarray(picture)
    if array.ndim != 3 or array.shape[2] != 3:
        raise ConfigError(f"{name} draws no picture: make it with render_mode='rgb_array'")
    return array.astype(np.uint8)


def _film_twin(agent: "Agent", env: CMDP, deterministic: bool, seed: int) -> Film:
    from papd.envs.twins.ball import Ball
    from papd.envs.twins.car import Car
    from papd.envs.twins.tasks import Run

    if not isinstance(env, Ball | Car):
        raise ConfigError(f"--video draws the twins and environments outside JAX; {env.name} has no picture")
    view = from_above.RUN if isinstance(env.task, Run) else from_above.CIRCLE
    shots = _play_twin(agent, env, view, deterministic, seed)
    if isinstance(env, Ball):
        return Film(float(env.parameters.sub_step * env.parameters.sub_steps), shots)
    return Film(float(env.parameters.time_step * env.parameters.sub_steps), shots)


def _play_twin(
    agent: "Agent", env: "Ball | Car", view: from_above.View, deterministic: bool, seed: int
) -> Iterator[Shot]:
    key, first = jax.random.split(jax.random.key(seed))
    state, observation = env.reset(first)
    step_once = jax.jit(env.step)
    track: list[tuple[float, float]] = []
    ended = False
    while not ended:
        now_at = jax.device_get(state)._asdict()
        track.append((float(now_at["x"]), float(now_at["y"])))
        picture = from_above.draw(view, *track[-1], now_at.get("heading"), track)
        key, choice, now = jax.random.split(key, 3)
        action, _ = agent.predict(np.asarray(observation), deterministic, key=choice)
        step = step_once(now, state, action)
        state, observation = step.state, step.observation
        ended = bool(step.terminated | step.truncated)
        yield Shot(picture, float(step.reward), float(step.cost.sum()))
