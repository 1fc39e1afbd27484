"""The numbers that the paper prints, from published.toml, found by the cell that they are of."""

import tomllib
from functools import cache
from importlib import resources
from typing import Any

from papd.results.paper_experiments import Cell

Row = dict[str, Any]


@cache
def published() -> dict[str, dict[str, Any]]:
    """Every table of the paper by its experiment."""
    return tomllib.loads((resources.files("papd.results") / "published.toml").read_text())


def row_of(table: str, cell: Cell) -> Row | None:
    """What the paper prints of a cell; nothing where it prints nothing."""
    rows: list[Row] = published().get(table, {}).get("rows", [])
    for row in rows:
        if row.get("cell") == cell_key(cell) or (row.get("env"), row.get("rule")) == (
            cell.config.env,
            cell.rule,
        ):
            return row
    return None


def cell_key(cell: Cell) -> str:
    """How the specs of the robustness tables name a cell: ``x0.2-invlin``."""
    return "" if cell.factor is None else f"x{cell.factor:g}-{cell.kind}"
