"""``papd fidelity --calibrate``: record the real environments, fit the twins, write the parameters and their origin."""

import json
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from papd.envs.twins.ball import BallParameters
from papd.envs.twins.car import CarParameters
from papd.envs.twins.drivers import mixture
from papd.envs.twins.fit_ball import fit_ball
from papd.envs.twins.fit_car import fit_car
from papd.envs.twins.parameters import FILE, to_json
from papd.envs.twins.record import Recording, record

COMMAND = "papd fidelity --calibrate"

EPISODES = {
    "SafetyBallRun-v0": 60,
    "SafetyCarRun-v0": 400,
    "SafetyBallCircle-v0": 200,
    "SafetyCarCircle-v0": 400,
}
"""Recorded for calibration."""

_FRICTION_OF_BALL = {"floor_friction": 0.88, "wall_friction": 0.55}
"""Coulomb's coefficients: the ball's times the floor's, and a wall's. Only a ball that slides shows them, seldom."""

KNOWN: dict[str, dict[str, Any]] = {
    "SafetyBallRun-v0": {"sub_step": 1 / 120, "sub_steps": 4, "walls": False, **_FRICTION_OF_BALL},
    "SafetyCarRun-v0": {"time_step": 4 / 120, "sub_steps": 4, "walls": False, "landing_steps": 1},
    "SafetyBallCircle-v0": {"sub_step": 1 / 60, "sub_steps": 6, "walls": True, **_FRICTION_OF_BALL},
    "SafetyCarCircle-v0": {"time_step": 6 / 60, "sub_steps": 6, "walls": True, "landing_steps": 0},
}
"""What the package's source says: its time step for each task, its walls, friction, how long a car falls."""

_PIECE = 50
"""Episodes recorded by one process in one go; each piece has its seed, so the number of processes changes nothing."""


def calibrate(
    ids: tuple[str, ...],
    out: Path = FILE,
    *,
    seed: int = 1,
    workers: int = 2,
    say: Callable[[str], object] = print,
) -> dict[str, Any]:
    """Fit the twins ``ids`` and write them into ``out``, beside those already there. Takes a few minutes."""
    stored: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {"twins": {}}
    for env_id in ids:
        began = time.perf_counter()
        recordings = record_in_pieces(env_id, EPISODES[env_id], seed, workers)
        say(f"{env_id}: recorded {EPISODES[env_id]} episodes in {time.perf_counter() - began:.0f} s")
        parameters = fit(recordings)
        say(f"{env_id}: fitted after {time.perf_counter() - began:.0f} s")
        stored["twins"][env_id] = {
            "data": {
                "episodes": EPISODES[env_id],
                "seed": seed,
                "drivers": "papd.envs.twins.drivers.mixture",
            },
            "parameters": to_json(parameters),
        }
    stored = {
        "command": COMMAND,
        "packages": {name: version(name) for name in ("bullet-safety-gym", "pybullet", "jax")},
        "twins": stored["twins"],
    }
    out.write_text(json.dumps(stored, indent=1) + "\n")
    return stored


def fit(recording: Recording) -> BallParameters | CarParameters:
    """The parameters of the twin of the recorded environment."""
    known = KNOWN[recording.env_id]
    if "Ball" in recording.env_id:
        return fit_ball(recording, known)
    return fit_car(recording, known)


def record_in_pieces(env_id: str, episodes: int, seed: int, workers: int) -> Recording:
    """Recordings of the calibration's drivers, made by several processes."""
    pieces = [(min(_PIECE, episodes - first), first // _PIECE) for first in range(0, episodes, _PIECE)]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(_record_piece, env_id, count, 1000 * seed + part) for count, part in pieces]
        return Recording.joined([future.result() for future in futures])


def _record_piece(env_id: str, episodes: int, seed: int) -> Recording:
    return record(env_id, mixture(env_id), episodes, seed)
