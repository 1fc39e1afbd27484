"""Weights & Biases, offline: no account, no network, everything in the run's folder."""

import sys
from pathlib import Path

import pytest

from papd.errors import ConfigError
from papd.runs.logs import WeightsAndBiases

ROW = {"iteration": 1, "env_steps": 100, "return_mean": 2.5}


def test_offline_runs_keep_their_id_and_their_rows(tmp_path: Path) -> None:
    for iteration in (1, 2):
        log = WeightsAndBiases(tmp_path, "offline", {"seed": 3})
        log.write({**ROW, "iteration": iteration})
        log.close()
    name = (tmp_path / "wandb-id.txt").read_text()
    kept = list(tmp_path.glob(f"wandb/offline-run-*/run-{name}.wandb"))
    assert kept
    assert all(b"return_mean" in file.read_bytes() for file in kept)


def test_without_the_extra_one_line_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ConfigError, match=r"pip install 'papd\[wandb\]'"):
        WeightsAndBiases(tmp_path, "offline", {})
