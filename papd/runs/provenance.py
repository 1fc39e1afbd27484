"""Who made a run: versions, machine, commit and command, for ``config.json``."""

import importlib.metadata
import os
import platform
import shlex
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import papd

PACKAGES = (
    "jax",
    "jaxlib",
    "equinox",
    "optax",
    "numpy",
    "safetensors",
    "gymnasium",
    "bullet-safety-gym",
    "pybullet",
)


def provenance(command: Sequence[str]) -> dict[str, Any]:
    """What stands beside a configuration to tell where its numbers come from."""
    return {
        "papd": papd.__version__,
        "command": shlex.join(command),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "git_commit": git_commit(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "versions": {name: version for name in PACKAGES if (version := _version(name))},
    }


def git_commit() -> str | None:
    """The commit that papd's source is at, with ``-dirty`` for changes; none outside a repository."""
    folder = Path(papd.__file__).parent
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    return commit + ("-dirty" if _git(folder, "status", "--porcelain", "--untracked-files=no") else "")


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=5, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor())
