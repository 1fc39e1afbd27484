"""How long a person waits: `papd --help`, a mistake, and from `papd train` on a twin to its first iteration.

    python -m benchmarks.startup [--times 5]

Every time is a process of its own, from before it is started. The first training fills the cache of compiled programs
and is told apart; the rest find it warm. Lines: middle and worst of the times, beside what was aimed at.
"""

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

MEASURED = (("SafetyCarRun-v0", "ppol"), ("SafetyBallRun-v0", "ppol"), ("SafetyCarRun-v0", "ddpgl"))
SHOWN = "{:48} {:>7} {:>7} {:>7}"


def told(*words: str) -> float:
    """Seconds until a command has said what it has to say."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "papd", *words], capture_output=True)
    return time.perf_counter() - began


def first_iteration(env: str, algo: str, folder: Path) -> float:
    """Seconds until ``metrics.csv`` has its first row; the run is ended there."""
    words = [
        "train",
        env,
        "--backend",
        "twin",
        "--algo",
        algo,
        "--steps",
        "1e8",
        "--out",
        str(folder),
        "--quiet",
    ]
    metrics = folder / "metrics.csv"
    began = time.perf_counter()
    with subprocess.Popen([sys.executable, "-m", "papd", *words], stderr=subprocess.DEVNULL) as process:
        while not metrics.exists() or metrics.read_bytes().count(b"\n") < 2:
            assert process.poll() is None, f"papd {' '.join(words)} ended by itself"
            time.sleep(0.005)
        seconds = time.perf_counter() - began
        process.kill()
    return seconds


def line(what: str, seconds: Callable[[], float], times: int, aim: str) -> None:
    """Measure and print one line."""
    found = [seconds() for _ in range(times)]
    middle, worst = statistics.median(found), max(found)
    print(SHOWN.format(what, f"{middle:.2f} s", f"{worst:.2f} s", aim), flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5)
    times = parser.parse_args().times
    print(SHOWN.format("", "middle", "worst", "aim"))
    line("papd --help", lambda: told("--help"), times, "0.50 s")
    line("papd train --help", lambda: told("train", "--help"), times, "")
    line("a misspelled option", lambda: told("train", "SafetyCarRun-v0", "--sead", "1"), times, "")
    with tempfile.TemporaryDirectory() as made:
        os.environ["PAPD_CACHE_DIR"] = f"{made}/cache"
        fresh = (Path(made) / f"run{number}" for number in itertools.count())

        def first(env: str, algo: str) -> float:
            return first_iteration(env, algo, next(fresh))

        for env, algo in MEASURED:
            what = f"first iteration, {env}, {algo}"
            line(f"{what}, cold", partial(first, env, algo), 1, "")
            line(what, partial(first, env, algo), times, "3.00 s")


if __name__ == "__main__":
    main()
