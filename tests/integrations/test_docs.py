"""Every block of docs/integrations.md runs as it stands."""

import importlib.util
import os
import re
from pathlib import Path

import pytest

from tests.optional import ALL

TEXT = (Path(__file__).parents[2] / "docs" / "integrations.md").read_text()
BLOCKS = dict(re.findall(r"^## ([^\n]+)\n.*?^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE))
PACKAGE = {"PyTorch": "torch", "Stable-Baselines3": "stable_baselines3", "Optax": "optax"}


def runnable(heading: str) -> pytest.MarkDecorator:
    absent = importlib.util.find_spec(PACKAGE[heading]) is None
    return pytest.mark.skipif(absent and ALL not in os.environ, reason=f"{PACKAGE[heading]} is not here")


def test_every_framework_has_a_block() -> None:
    assert set(BLOCKS) == set(PACKAGE)


@pytest.mark.parametrize("heading", [pytest.param(name, marks=runnable(name)) for name in PACKAGE])
def test_block_runs(heading: str) -> None:
    space: dict[str, object] = {}
    exec(compile(BLOCKS[heading], f"docs/integrations.md: {heading}", "exec"), space)
    assert space["papd"].__name__ == "papd"
    adaptive = space.get("adaptive") or space.get("callback")
    assert adaptive is not None
    if heading != "Optax":
        assert 0.0 < adaptive.learning_rate <= 0.015 / 36.0
