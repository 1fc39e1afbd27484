"""What docs/sweeps.md shows is what there is."""

import re
import shlex
from pathlib import Path

import pytest

from papd.commands.parse import parse
from papd.commands.sweep import Options
from papd.runs.sweeps.spec import read_spec

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "sweeps.md").read_text()
EXAMPLE = DOCS / "examples" / "rules.toml"


def test_the_spec_on_the_page_is_the_example_and_the_example_is_a_sweep() -> None:
    (shown,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert shown == EXAMPLE.read_text()
    sweep = read_spec(EXAMPLE)
    assert len(sweep.runs) == 60
    assert sweep.runs[0].name == "constant-BallRun-cost_limit=10-seed0"
    assert "constant-BallRun-cost_limit=10-seed0" in PAGE


COMMANDS = re.findall(r"^papd sweep .*$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_on_the_page_can_be_given(line: str) -> None:
    words = shlex.split(re.split(r" {2,}", line)[0])[2:]
    assert parse(Options, words, prog="papd sweep", default=Options()) != Options()


def test_the_page_shows_commands() -> None:
    assert len(COMMANDS) >= 5
