"""How fast each program ran on this machine, remembered beside JAX's cache, so that a plan can say how long."""

import json
from collections.abc import Mapping

from papd.errors import RunError
from papd.runs import cache
from papd.runs.files import write_json

FILE = "speeds.json"


def known(engine: str) -> dict[str, float]:
    """Steps a second of one worker, by program."""
    return {program: speed for program, speed in _read().get(engine, {}).items() if speed > 0}


def remember(engine: str, speeds: Mapping[str, float]) -> None:
    """Put these over what is known. Where nothing can be written nothing is remembered."""
    folder = cache.folder()
    if folder is None or not speeds:
        return
    everything = _read()
    everything[engine] = {**everything.get(engine, {}), **speeds}
    try:
        write_json(folder / FILE, everything)
    except RunError:
        return


def _read() -> dict[str, dict[str, float]]:
    folder = cache.folder()
    try:
        values = json.loads((folder / FILE).read_text()) if folder is not None else {}
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}
