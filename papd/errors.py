"""What the library says when it is used wrongly: one line that names the fix."""

import difflib
import math
from collections.abc import Iterable
from typing import Any


class PapdError(Exception):
    """A mistake the user can mend, told in one line. The command prints it and exits with 2."""


class ConfigError(PapdError, ValueError):
    """A wrong value, name or combination in what the user wrote."""


class EnvironmentFault(PapdError, RuntimeError):  # noqa: N818 - the fault is the environment's
    """An environment that crashed, hung or returned something that is no number."""


class RunError(PapdError, RuntimeError):
    """A run directory or checkpoint that cannot be used as asked."""


def nearest(name: str, known: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` for the closest known name, or a list of the known ones."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(known)}"


def is_finite(value: Any) -> bool:
    """Whether a value is one finite number; what is no number at all is not."""
    try:
        return math.isfinite(value)
    except TypeError:
        return False
