"""The file of the twins' parameters: what calibration found, and how."""

from pathlib import Path
from typing import Any

from papd.envs.twins.ball import BallParameters
from papd.envs.twins.car import CarParameters, Drive, Jitter, Turn
from papd.errors import ConfigError

FILE = Path(__file__).with_name("parameters.json")
"""``{"command": ..., "twins": {id: {"data": ..., "parameters": {...}}}}``."""

_GROUPS: dict[str, Any] = {
    "drive": Drive,
    "yaw": Turn,
    "slide": Turn,
    "drive_jitter": Jitter,
    "yaw_jitter": Jitter,
    "slide_jitter": Jitter,
}


def to_json(parameters: BallParameters | CarParameters) -> dict[str, Any]:
    """Named numbers; corrections as ``{monomial: coefficient}``."""
    written: dict[str, Any] = {}
    for name, value in parameters._asdict().items():
        if name in _GROUPS:
            written[name] = value._asdict()
        elif name.endswith("_correction"):
            written[name] = dict(value)
        else:
            written[name] = list(value) if isinstance(value, tuple) else value
    return written


def from_json(env_id: str, written: dict[str, Any]) -> BallParameters | CarParameters:
    """The inverse of :func:`to_json`."""
    kind: Any = BallParameters if "Ball" in env_id else CarParameters
    if set(written) != set(kind._fields):
        odd = ", ".join(sorted(set(written) ^ set(kind._fields)))
        raise ConfigError(f"{FILE.name}: {env_id}: missing or unknown: {odd}; run papd fidelity --calibrate")
    read: dict[str, Any] = {}
    for name, value in written.items():
        if name in _GROUPS:
            read[name] = _GROUPS[name](**{key: _hashable(part) for key, part in value.items()})
        elif name.endswith("_correction"):
            read[name] = tuple(value.items())
        else:
            read[name] = _hashable(value)
    parameters: BallParameters | CarParameters = kind(**read)
    return parameters


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
