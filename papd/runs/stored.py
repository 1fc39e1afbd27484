"""What a run directory holds already, against what is asked for: nothing, a run to go on with, a finished one, another.

Read without JAX, so that a command can refuse, or find that nothing is left to do, at once.
"""

from typing import Any

from papd.errors import ConfigError, RunError
from papd.runs.config import MAY_CHANGE, RunConfig, from_mapping
from papd.runs.folder import RunFolder


def check_stored(folder: RunFolder, config: RunConfig, *, resume: bool) -> None:
    """Refuse to write over a run, or to go on with it as another one."""
    if not folder.holds_run():
        return
    if not resume:
        raise RunError(f"{folder.path} holds another run: --resume goes on with it, or choose another --out")
    stored = from_mapping(folder.read_config(), where=str(folder.config)).resolved()
    if stored.identity() != config.identity():
        raise ConfigError(_difference(folder, stored.to_json(), config.to_json()))


def _difference(folder: RunFolder, stored: dict[str, Any], wanted: dict[str, Any]) -> str:
    flat = [{**values, **values["hyper"], "hyper": None} for values in (stored, wanted)]
    name = next(n for n in flat[0] if n not in MAY_CHANGE and flat[0][n] != flat[1].get(n))
    return (
        f"{folder.path} was trained with {name}={flat[0][name]}, not {flat[1].get(name)}: "
        "a run goes on as it began; choose another --out"
    )


def finished(folder: RunFolder, config: RunConfig) -> dict[str, Any] | None:
    """The summary of a run that has all its steps and its evaluation: nothing is left to do."""
    try:
        summary = folder.read_summary()
    except RunError:  # Damaged; it is made again from the rest of the run.
        return None
    if not folder.policy.exists():
        return None
    done = summary.get("status") == "finished" and summary.get("env_steps", 0) >= config.steps
    evaluated = not config.eval_episodes or summary.get("evaluated_as") == evaluated_as(config)
    return summary if done and evaluated else None


def evaluated_as(config: RunConfig) -> dict[str, Any]:
    """The evaluation that ends a run, as its summary names it."""
    return {"backend": config.eval_backend, "episodes": config.eval_episodes}
