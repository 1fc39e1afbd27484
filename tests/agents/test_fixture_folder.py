"""``PAPD_FIXTURES`` names the recordings that the parity tests use: a copy passes, an altered copy does not."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.fixture_files import fixture

ROOT = Path(__file__).parents[2]
ONE_OF_EACH = [
    "tests/core/test_multiplier.py::test_pid_repeats_the_paper_framework_to_1e_9",
    "tests/agents/test_parity.py::TestPPOLag::test_values_advantages_returns_and_log_probabilities",
    "tests/agents/test_parity.py::TestDDPGLag::test_targets",
]


def parity(folder: Path) -> str:
    """The last line of pytest on one test of each recording."""
    environment = {**os.environ, "PAPD_FIXTURES": str(folder)}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *ONE_OF_EACH]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return done.stdout.strip().splitlines()[-1]


def alter(file: Path, name: str, change: float) -> None:
    """Add ``change`` to one number of one array."""
    with np.load(file) as data:
        arrays = {key: data[key].copy() for key in data}
    arrays[name].reshape(-1)[arrays[name].size // 2] += change
    np.savez(file, **arrays)


def test_other_recordings_can_be_tried(tmp_path: Path) -> None:
    for name in ("pid.npz", "ppol_update.npz", "ddpgl_update.npz"):
        shutil.copy(fixture(name), tmp_path)
    assert "3 passed" in parity(tmp_path)
    alter(tmp_path / "pid.npz", "multiplier", 1e-8)
    alter(tmp_path / "ppol_update.npz", "advantages", 1e-3)
    alter(tmp_path / "ddpgl_update.npz", "targets", 1e-3)
    assert "3 failed" in parity(tmp_path)
