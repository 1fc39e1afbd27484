"""Runs that are killed with ``kill -9`` and resumed until they are done, beside one that never was.

    python -m benchmarks.killing OUT.json --kills 12 --seed 0 -- SafetyBallRun-v0 --backend twin ...

One process imports JAX's modules, without starting JAX, and forks a child for every attempt, so that a start costs
less than a second. Half of the kills come from outside at a random moment; the other half the child deals itself
at a random call of the operations that write files, so that files are cut in the middle of being written.
"""

import contextlib
import csv
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from papd import cli
from papd.runs.files import TEMPORARY
from papd.runs.metrics import TIMINGS

POINTS = ("write", "fsync", "replace", "folder fsync", "row")


@dataclass
class Report:
    """What was done to a run, and whether it ended as the run that nobody touched."""

    iterations: int = 0
    kills: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("anywhere", *POINTS), 0))
    damaged: int = 0
    """Of the newest checkpoints, how many were cut short besides."""
    most_repeated: int = 0
    """Iterations, at most, that were done again because they were not in a checkpoint yet."""
    runs: int = 0
    same_metrics: bool = True
    differing: list[str] = field(default_factory=list)
    """Arrays that are not equal, bit for bit."""

    @property
    def dealt(self) -> int:
        """Kills so far."""
        return sum(self.kills.values())


def kill_and_resume(words: Sequence[str], folder: Path, *, kills: int, seed: int) -> Report:
    """Run ``papd train`` once whole, then under fire as often as it takes to be killed ``kills`` times; compare."""
    whole = folder / "whole"
    assert _child([*words, "--out", str(whole), "--quiet"]).wait() == 0, "the run fails by itself"
    report = Report(iterations=_written(whole))
    draw = random.Random(seed)
    while report.dealt < kills:
        report.runs += 1
        killed = folder / f"killed{report.runs}"
        again = [*words, "--out", str(killed), "--quiet", "--resume"]
        _fire(again, killed, report, kills, draw)
        assert _child(again).wait() == 0, "the resumed run fails"
        report.same_metrics &= untimed(whole) == untimed(killed)
        expected, found = weights(whole), weights(killed)
        report.differing += [f"{killed}: {name}" for name in expected if expected[name] != found.get(name)]
    return report


def _fire(words: Sequence[str], killed: Path, report: Report, kills: int, draw: random.Random) -> None:
    """Kill a run at moments spread over its length, until it comes to its end first."""
    while report.dealt < kills:
        left, before = kills - report.dealt, _written(killed)
        goal = before + draw.randint(0, max(1, (report.iterations - before) // (left + 1)))
        how = draw.choice(POINTS) if left % 2 else "anywhere"
        if _attempt(words, killed, how, goal, draw) != -signal.SIGKILL:
            return
        report.kills[how] += 1
        report.most_repeated = max(report.most_repeated, _written(killed) - _newest(killed))
        if left % 5 == 0:
            report.damaged += _damage(killed, draw)


def _damage(folder: Path, draw: random.Random) -> int:
    """Cut the newest of several checkpoints short, as a failing disk would."""
    files = sorted((folder / "checkpoints").glob("*.safetensors"))
    if len(files) < 2:
        return 0
    data = files[-1].read_bytes()
    files[-1].write_bytes(data[: draw.randrange(len(data))])
    return 1


def _newest(folder: Path) -> int:
    return max((int(file.stem) for file in (folder / "checkpoints").glob("*.safetensors")), default=0)


def _attempt(words: Sequence[str], folder: Path, how: str, goal: int, draw: random.Random) -> int:
    if how == "anywhere":
        child = _child(words)
        while child.running() and _written(folder) < goal:
            time.sleep(0.002)
        time.sleep(draw.random() * 0.05)
        child.kill()
        return child.wait()
    calls = draw.randint(1, 12)
    return _child(words, lambda: _arm(how, calls, folder, goal)).wait()


def _arm(how: str, calls: int, folder: Path, goal: int) -> None:
    """In the child: die at a certain call of an operation, once the goal is reached."""
    from papd.runs.metrics import MetricsFile

    owner: Any = MetricsFile if how == "row" else os
    name = {"row": "_write", "write": "fsync", "folder fsync": "fsync"}.get(how, how)
    real = getattr(owner, name)
    left = calls

    def deadly(*arguments: Any) -> Any:
        nonlocal left
        left -= _written(folder) >= goal
        if left > 0:
            return real(*arguments)
        if how == "write":  # Only half of a new file has reached the disk.
            os.ftruncate(arguments[0], os.fstat(arguments[0]).st_size // 2)
        if how == "row":
            arguments[0]._file.write(arguments[1][: len(arguments[1]) // 2])
            arguments[0]._file.flush()
        os.kill(os.getpid(), signal.SIGKILL)

    def wanted(*arguments: Any) -> bool:
        if name != "fsync":
            return True
        target = os.readlink(f"/proc/self/fd/{arguments[0]}")
        kind = "folder fsync" if os.path.isdir(target) else "write" if target.endswith(TEMPORARY) else "fsync"
        return how == kind

    setattr(owner, name, lambda *arguments: (deadly if wanted(*arguments) else real)(*arguments))


class Child:
    """A forked process."""

    def __init__(self, pid: int):
        self.pid = pid
        self._status: int | None = None

    def running(self) -> bool:
        """Whether it still is."""
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = os.waitstatus_to_exitcode(status) if pid else None
        return self._status is None

    def kill(self) -> None:
        """``kill -9``."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Its exit status; negative for a signal."""
        while self.running():
            time.sleep(0.005)
        assert self._status is not None
        return self._status


def _child(words: Sequence[str], before: Callable[[], None] | None = None) -> Child:
    pid = os.fork()
    if pid:
        return Child(pid)
    status = 99
    try:
        if before:
            before()
        with open(os.devnull, "w") as null, contextlib.redirect_stdout(null):
            status = cli.run(["train", *words])
    finally:
        sys.stderr.flush()
        os._exit(status)


def _written(folder: Path) -> int:
    """Rows in ``metrics.csv``, whole or not."""
    try:
        return max(0, (folder / "metrics.csv").read_bytes().count(b"\n") - 1)
    except OSError:
        return 0


def untimed(folder: Path) -> list[dict[str, str]]:
    """The rows of ``metrics.csv`` without what the clock decides."""
    with open(folder / "metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return [{name: text for name, text in row.items() if name not in TIMINGS} for row in rows]


def weights(folder: Path) -> dict[str, bytes]:
    """Every array of the newest checkpoint and of both policies, bit for bit."""
    import safetensors.numpy

    newest = folder / "checkpoints" / f"{_newest(folder):08}.safetensors"
    found = {}
    for file in (newest, folder / "policy.safetensors", folder / "best.safetensors"):
        for name, array in safetensors.numpy.load_file(file).items():
            found[f"{file.name}:{name}"] = array.tobytes()
    return found


def main(words: Sequence[str]) -> None:
    """The command line of this module."""
    import papd.results.evaluation
    import papd.runs.agent
    import papd.runs.train  # noqa: F401 - loaded once for all children

    mine, theirs = words[: words.index("--")], words[words.index("--") + 1 :]
    out, kills, seed = Path(mine[0]), int(mine[2]), int(mine[4])
    folder = out.with_suffix(".runs")
    shutil.rmtree(folder, ignore_errors=True)
    report = kill_and_resume(theirs, folder, kills=kills, seed=seed)
    out.write_text(json.dumps(asdict(report), indent=2) + "\n")
    if report.same_metrics and not report.differing:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(sys.argv[1:])
