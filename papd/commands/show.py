"""Plain text for people: small tables, numbers and intervals."""

import json
import math
import sys
from collections.abc import Sequence
from typing import Any


def table(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> str:
    """Columns as wide as their widest cell, those in ``left`` flush left, the others right; a rule under the head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(padded).rstrip()

    return "\n".join([line(rows[0]), "  ".join("-" * width for width in widths), *map(line, rows[1:])])


def number(value: float | None, digits: int = 2) -> str:
    """A number with so many digits, or a dash."""
    return "-" if value is None or math.isnan(value) else f"{value:,.{digits}f}"


def interval(values: dict[str, float], digits: int = 1) -> str:
    """``564.1 [560.2, 567.9]``."""
    return f"{values['estimate']:.{digits}f} [{values['low']:.{digits}f}, {values['high']:.{digits}f}]"


def print_json(value: Any) -> None:
    """JSON that every reader takes: what is no finite number becomes null."""
    print(json.dumps(_finite(value), indent=2))


def note(text: str) -> None:
    """A word beside the result, on standard error."""
    print(text, file=sys.stderr, flush=True)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
