"""``papd train`` killed with ``kill -9``, again and again, in the real command on a real twin: nothing is lost."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SMALL = "SafetyBallRun-v0 --backend twin --hidden-sizes 16 --num-envs 2 --episodes-per-iteration 2 --eval-episodes 0"
RUNS = {
    "ppol": f"{SMALL} --steps 8000 --checkpoint-every 1",
    "ddpgl": f"{SMALL} --algo ddpgl --steps 8000 --checkpoint-every 2 --batch-size 16 --buffer-size 1500",
}
KILLS = 10


@pytest.mark.parametrize("algo", RUNS)
def test_killed_ten_times_and_resumed_is_the_same_run_bit_for_bit(tmp_path: Path, algo: str) -> None:
    out = tmp_path / "report.json"
    command = [
        sys.executable,
        "-m",
        "benchmarks.killing",
        str(out),
        "--kills",
        str(KILLS),
        "--seed",
        "1",
        "--",
    ]
    done = subprocess.run([*command, *RUNS[algo].split()], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    report = json.loads(out.read_text())
    assert sum(report["kills"].values()) == KILLS
    assert report["kills"]["anywhere"] >= 4
    assert report["damaged"] >= 1
    assert report["same_metrics"]
    assert report["differing"] == []
    assert report["most_repeated"] <= 2
    assert "Traceback" not in done.stderr
