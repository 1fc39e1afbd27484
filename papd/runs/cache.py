"""JAX's persistent compilation cache, in the user's cache folder: one compilation a machine, not a process."""

import contextlib
import hashlib
import os
import platform
import sys
import zlib
from pathlib import Path

VARIABLE = "PAPD_CACHE_DIR"
"""Environment variable: another folder for the cache, or ``off``."""

LIMIT_BYTES = 512 * 2**20
"""Above this the programs that were not used for longest are removed."""


def folder() -> Path | None:
    """Where compiled programs are kept for this kind of processor; none when switched off."""
    chosen = os.environ.get(VARIABLE, "")
    if chosen.lower() in ("off", "none", "0"):
        return None
    return (Path(chosen).expanduser() if chosen else _user_cache() / "papd") / f"xla-{_processor()}"


def enable() -> None:
    """Turn the cache on, before anything is compiled.

    A folder that cannot be written only costs the time that the cache would save. A user's own setting of JAX's
    cache is left alone.
    """
    import jax

    path = folder()
    if path is None or "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    try:
        path.mkdir(parents=True, exist_ok=True)
        _drop_torn(path)
        _prune(path)
    except OSError:
        return
    settings: dict[str, str | float] = {
        "jax_compilation_cache_dir": str(path),
        # Starting up is many programs of a few milliseconds each; all of them are worth keeping.
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    for name, value in settings.items():
        jax.config.update(name, value)  # type: ignore[no-untyped-call]


def _user_cache() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _processor() -> str:
    """A short name for the instruction set: a home shared by several machines must not share machine code."""
    described = f"{platform.system()} {platform.machine()} {platform.processor()}"
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        described += "".join(
            sorted({line for line in file if line.startswith(("flags", "Features", "model name"))})
        )
    return hashlib.sha256(described.encode()).hexdigest()[:12]


def _drop_torn(path: Path) -> None:
    """Remove programs that a killed process wrote in part.

    JAX would read them, warn and compile again, every time. Only what was written since the last look is looked at.
    """
    stamp = path / ".checked"
    since = stamp.stat().st_mtime if stamp.exists() else 0.0
    for entry in os.scandir(path):
        if not entry.name.startswith(".") and entry.stat().st_mtime >= since - 1.0:
            data = Path(entry.path).read_bytes()
            if not _is_whole(data):
                os.unlink(entry.path)
    stamp.touch()


def _is_whole(data: bytes) -> bool:
    """Whether a compressed program ends as it should; what JAX may write in other formats passes."""
    if not data:
        return False
    if data[0] != 0x78:  # Not zlib's first byte: JAX found zstandard, whose frames it checks itself.
        return True
    stream = zlib.decompressobj()
    try:
        stream.decompress(data)
    except zlib.error:
        return False
    return stream.eof


def _prune(path: Path) -> None:
    files = [(entry.stat(), entry.path) for entry in os.scandir(path) if entry.is_file()]
    excess = sum(stat.st_size for stat, _ in files) - LIMIT_BYTES
    for stat, name in sorted(files, key=lambda file: max(file[0].st_atime, file[0].st_mtime)):
        if excess <= 0:
            return
        with contextlib.suppress(OSError):
            os.unlink(name)
            excess -= stat.st_size
