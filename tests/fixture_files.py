"""Where the recordings of the paper's framework lie: ``PAPD_FIXTURES``, or the folder beside this file."""

import os
from pathlib import Path


def fixture(name: str) -> Path:
    """The path of one recording."""
    return Path(os.environ.get("PAPD_FIXTURES") or Path(__file__).parent / "fixtures") / name
