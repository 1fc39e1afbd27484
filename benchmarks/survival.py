"""What papd survives: kills, faults of the machine, wrong configurations, damaged files. The table of docs/runs.md.

    python -m benchmarks.survival [--kills 40] [--inputs 600] [--damages 300] [--seed 0] [--out results/survival]
                                  [--parts inputs damages refusals faults kills]

Every trial either ends as the run that nobody touched (bit for bit, timings aside), or is answered by one line on
standard error and an exit status of 1 or 2. A traceback, a second line or a different result is a failure.
"""

import argparse
import contextlib
import ctypes
import dataclasses
import datetime
import io
import json
import os
import platform
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as hypothesis_seed
from hypothesis import strategies as st

from benchmarks.killing import untimed, weights
from papd import cli
from papd.agents.hyper import DDPGHyper, PPOHyper
from papd.runs.config import RunConfig
from papd.runs.lock import LOCK, locked

SMALL = "--hidden-sizes 16 --num-envs 2 --episodes-per-iteration 2 --eval-episodes 0"
TWIN = f"SafetyBallRun-v0 --backend twin {SMALL}"
KILLED = {
    "PPOL on the Ball's twin": f"{TWIN} --steps 12000 --checkpoint-every 1",
    "PPOL on the Ball's twin, checkpoints left to papd": f"{TWIN} --steps 12000",
    "DDPGL on the Ball's twin": f"{TWIN} --algo ddpgl --steps 12000 --batch-size 16 --buffer-size 1500 "
    "--checkpoint-every 2",
    "PPOL on the Ball in Bullet": f"SafetyBallRun-v0 {SMALL} --steps 12000",
    "PPOL on the Car in Bullet": f"SafetyCarRun-v0 {SMALL} --steps 8000 --checkpoint-every 1",
}
PARTS = ("inputs", "damages", "refusals", "faults", "kills")
VICTIM = f"{TWIN} --steps 1600 --checkpoint-every 2 --quiet"


@dataclasses.dataclass
class Line:
    """One line of the table."""

    what: str
    trials: int = 0
    as_untouched: int = 0
    told: int = 0
    lost: str = "nothing"
    failures: list[str] = dataclasses.field(default_factory=list)


def command(words: Sequence[str]) -> tuple[int, str]:
    """Exit status and standard error of ``papd``, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = cli.run(words)
    return status, err.getvalue()


def is_one_line(status: int, told: str) -> bool:
    """Whether a command answered as it should."""
    lines = told.strip().splitlines()
    return status in (1, 2) and len(lines) == 1 and lines[0].startswith("papd: ")


def kills(name: str, words: str, count: int, seed: int, folder: Path) -> Line:
    """``kill -9`` at random moments and in the middle of writing files."""
    report = folder / "report.json"
    how = [str(report), "--kills", str(count), "--seed", str(seed), "--"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.killing", *how, *words.split()], capture_output=True, text=True
    )
    line = Line(f"kill -9, {name}", trials=count)
    if done.returncode:
        line.failures.append(f"status {done.returncode}: {done.stderr[-200:]}")
        return line
    found = json.loads(report.read_text())
    line.what += (
        f" ({found['runs']} runs of {found['iterations']} iterations, {found['damaged']} files cut besides)"
    )
    line.lost = f"nothing; up to {found['most_repeated']} iterations done again"
    same = found["same_metrics"] and not found["differing"]
    if same or "Car in Bullet" in name:
        line.as_untouched = count if same else 0
        line.lost += (
            "" if same else "; other numbers from the first kill on, as the Car's solver has a memory"
        )
    else:
        line.failures.append(f"not as untouched: {found['differing'][:2]}")
    return line


def faults(folder: Path, whole: Path) -> Iterator[Line]:
    """What a machine does to a run, each followed by going on, which must end as untouched."""
    yield _fault("disk full in the middle of a run", folder / "full", whole, _disk_full)
    yield _fault("folder no longer writable", folder / "readonly", whole, _not_writable)
    yield _fault("Ctrl-C", folder / "interrupted", whole, lambda words: _signalled(words, "INT"))
    yield _fault("SIGTERM", folder / "terminated", whole, lambda words: _signalled(words, "TERM"))


def refusals(folder: Path, whole: Path) -> Iterator[Line]:
    """Directories in which a command must touch nothing: another's, a stranger's, a newer papd's, none."""
    newer, foreign = folder / "newer", folder / "foreign"
    for place in (newer, foreign):
        place.mkdir()
    config = json.loads((whole / "config.json").read_text())
    (newer / "config.json").write_text(json.dumps({**config, "provenance": {"format": 99, "papd": "9.9"}}))
    (foreign / "config.json").write_text('{"name": "a package", "main": "index.js"}')
    with locked(folder / "held"):
        yield _refusal("a second process in the directory", f"train {VICTIM} --out {folder / 'held'}", folder)
    for what, words in {
        "a directory that holds another run": f"train {VICTIM} --out {whole}",
        "going on as another run": f"train --seed 5 --out {whole} --resume",
        "a run of a newer papd, trained": f"train --out {newer} --resume",
        "a run of a newer papd, evaluated": f"eval {newer}",
        "somebody else's config.json": f"train --out {foreign} --resume",
        "a directory that is no run": f"eval {folder}",
    }.items():
        yield _refusal(what, words, folder)


def _refusal(what: str, words: str, folder: Path) -> Line:
    line = Line(what, trials=1)
    before = _contents(folder)
    status, told = command(words.split())
    if status == 2 and is_one_line(status, told) and _contents(folder) == before:
        line.told = 1
    else:
        line.failures.append(f"status {status}: {told[-200:]!r}")
    return line


def _contents(folder: Path) -> dict[Path, bytes]:
    """Every file but the locks, which name their last holder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != LOCK}


def _fault(what: str, run: Path, whole: Path, break_it: Callable[[list[str]], tuple[int, str]]) -> Line:
    words = [*VICTIM.split(), "--out", str(run), "--resume"]
    status, told = break_it(words)
    line = Line(what, trials=1, told=1)
    said = [text for text in told.strip().splitlines() if text]
    if status not in (1, 2, 130, 143) or len(said) != 1 or "Traceback" in told:
        line.failures.append(f"status {status}: {told[-200:]}")
    status, told = command(["train", *words])
    if status or not same_run(run, whole):
        line.failures.append(f"did not go on as untouched: {told[-200:]}")
    line.as_untouched = int(not line.failures)
    return line


def _child(words: list[str], **options: Any) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "papd", "train", *words], capture_output=True, text=True, **options
    )
    return done.returncode, done.stderr


def _disk_full(words: list[str]) -> tuple[int, str]:
    """No file may grow beyond 12 kB: the checkpoint does not fit."""
    return _child(words, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000)))


def _not_writable(words: list[str]) -> tuple[int, str]:
    """Begun, and gone on with when nobody may write there any more."""
    begun = [*words[: words.index("--steps")], "--steps", "800", *words[words.index("--steps") + 2 :]]
    status, told = command(["train", *begun])
    assert status == 0, told
    run = Path(words[words.index("--out") + 1])
    for path in (run, *run.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    answer = _child(words, preexec_fn=_obey_permissions)
    for path in (run, *run.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return answer


def _obey_permissions() -> None:
    """Even for root: without CAP_DAC_OVERRIDE after the next exec."""
    ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)


def _signalled(words: list[str], name: str) -> tuple[int, str]:
    """The signal comes once the first row is there."""
    run = Path(words[words.index("--out") + 1])
    process = subprocess.Popen(
        [sys.executable, "-m", "papd", "train", *words], stderr=subprocess.PIPE, text=True
    )
    while process.poll() is None and not (
        (run / "metrics.csv").exists() and (run / "metrics.csv").stat().st_size
    ):
        pass
    process.send_signal({"INT": 2, "TERM": 15}[name])
    told = process.communicate()[1]
    return process.returncode, told


NAMES = [field.name for cls in (RunConfig, PPOHyper, DDPGHyper) for field in dataclasses.fields(cls)]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([-1.0, 0.0, 1e400, -1e400, float("nan"), 10**30, 1.5]),
    st.text(max_size=6),
    st.lists(st.integers(-1, 2), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
WORDS = st.sampled_from(
    [f"--{name.replace('_', '-')}" for name in NAMES]
    + [
        "-x",
        "--",
        "---",
        "",
        "-1",
        "nan",
        "inf",
        "1e6",
        "1e999",
        "SafetyCarRun-v0",
        "SafetyCarRn-v0",
        "no.module:f",
    ]
    + [
        "--out",
        "--resume",
        "--config",
        "--json",
        "/dev/null",
        "ppol",
        "ddpgl",
        "twin",
        "constant",
        "\x00",
        "ü",
        "--lr=x",
    ]
)


def wrong_inputs(count: int, seed: int, folder: Path) -> Iterator[Line]:
    """Generated files and command lines. Those that happen to be right are not run: their environment is made wrong."""
    nowhere = "SafetyBallRun-v9"

    def as_json(values: dict[str, Any]) -> list[str]:
        (folder / "generated.json").write_text(json.dumps({**values, "env": nowhere}))
        return [
            "train",
            "--backend",
            "twin",
            "--config",
            str(folder / "generated.json"),
            "--out",
            str(folder / "never"),
        ]

    def as_bytes(data: bytes) -> list[str]:
        (folder / "generated.toml").write_bytes(data)
        return ["train", nowhere, "--config", str(folder / "generated.toml"), "--out", str(folder / "never")]

    def as_words(words: list[str]) -> list[str]:
        return ["train", *words, nowhere, "--out", str(folder / "never"), "--steps", "1"]

    def as_command(words: list[str]) -> list[str]:
        return [*words, "--hlep"]

    names = st.sampled_from(NAMES) | st.text(max_size=8)
    kinds: list[tuple[str, st.SearchStrategy[Any], Callable[[Any], list[str]], int]] = [
        (
            "configuration files with wrong names and values",
            st.dictionaries(names, VALUES, min_size=1, max_size=4),
            as_json,
            2,
        ),
        ("configuration files that are none", st.binary(max_size=60), as_bytes, 5),
        ("command lines of papd train", st.lists(WORDS, min_size=1, max_size=6), as_words, 3),
        (
            "other command lines",
            st.lists(WORDS | st.sampled_from(["eval", "report", "envs"]), max_size=4),
            as_command,
            6,
        ),
    ]
    for what, strategy, as_call, share in kinds:
        yield _generated(what, strategy, as_call, max(1, count // share), seed)


def _generated(
    what: str, strategy: st.SearchStrategy[Any], as_call: Callable[[Any], list[str]], count: int, seed: int
) -> Line:
    line = Line(what)
    seen: set[str] = set()

    @hypothesis_seed(seed)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def trial(value: Any) -> None:
        words = as_call(value)
        key = repr(value)
        if key in seen:
            return
        seen.add(key)
        line.trials += 1
        try:
            status, told = command(words)
        except SystemExit as stop:
            status, told = 2 if stop.code else 0, "papd: help" if not stop.code else ""
        except Exception as error:
            line.failures.append(f"{words}: {type(error).__name__}: {error}")
            return
        if is_one_line(status, told):
            line.told += 1
        else:
            line.failures.append(f"{words}: status {status}: {told[-200:]!r}")

    trial()
    return line


def damages(count: int, seed: int, folder: Path, whole: Path) -> Iterator[Line]:
    """Files of an unfinished run cut short, with flipped bits, overwritten, emptied or doubled."""
    begun = folder / "begun"
    words = VICTIM.replace("--steps 1600", "--steps 900").split()
    status, told = command(["train", *words, "--out", str(begun)])
    assert status == 0, told
    newest = max((begun / "checkpoints").iterdir())
    for file in (
        newest,
        begun / "config.json",
        begun / "metrics.csv",
        begun / "summary.json",
        begun / "policy.safetensors",
    ):
        inside = file.relative_to(begun)
        name = "the newest checkpoint" if file == newest else file.name
        line = Line(f"{name} damaged, then --resume")
        draw = random.Random(f"{seed} {name}")
        for _ in range(count // 5):
            _damaged_trial(line, begun, folder / "damaged", inside, draw, whole)
        yield line


def _damaged_trial(
    line: Line, begun: Path, copy: Path, inside: Path, draw: random.Random, whole: Path
) -> None:
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(begun, copy)
    how = damage(copy / inside, draw)
    line.trials += 1
    before = _contents(copy)
    try:
        status, told = command(["train", *VICTIM.split(), "--out", str(copy), "--resume"])
    except Exception as error:
        line.failures.append(f"{how}: {type(error).__name__}: {error}")
        return
    if status == 0 and same_run(copy, whole):
        line.as_untouched += 1
    elif is_one_line(status, told) and all(
        path.exists() and path.read_bytes() == data for path, data in before.items()
    ):
        line.told += 1
    else:
        line.failures.append(f"{how}: status {status}: {told[-200:]!r}")


def damage(path: Path, draw: random.Random) -> str:
    """Do something to a file; what is returned."""
    data = bytearray(path.read_bytes())
    how = draw.choice(["cut", "bit", "bit", "zeros", "garbage", "empty", "other", "twice"])
    at = draw.randrange(len(data))
    if how == "bit":
        data[at] ^= 1 << draw.randrange(8)
    elif how == "zeros":
        data[at : at + 64] = bytes(len(data[at : at + 64]))
    damaged: dict[str, bytes] = {
        "cut": bytes(data[:at]),
        "garbage": draw.randbytes(len(data)),
        "empty": b"",
        "other": b'{"format": 1}',
        "twice": bytes(data + data),
    }
    path.write_bytes(damaged.get(how, bytes(data)))
    return f"{path.name}: {how} at {at}"


def same_run(one: Path, other: Path) -> bool:
    """Equal metrics, timings aside, and equal weights."""
    found = [{name.split("/")[-1]: data for name, data in weights(run).items()} for run in (one, other)]
    return untimed(one) == untimed(other) and found[0] == found[1]


def table(lines: Sequence[Line]) -> str:
    """Markdown."""
    head = "| Tried | Times | Ended as untouched | Told in one line | Lost | Failures |\n|---|--:|--:|--:|---|--:|\n"
    return head + "".join(
        f"| {line.what} | {line.trials} | {line.as_untouched or '-'} | {line.told or '-'} | {line.lost} "
        f"| {len(line.failures)} |\n"
        for line in lines
    )


def main() -> int:
    """Run everything and write the table; the exit status is 1 for any failure."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in {"--kills": 40, "--inputs": 600, "--damages": 300, "--seed": 0}.items():
        parser.add_argument(name, type=int, default=value)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--out", type=Path, default=Path("results/survival"))
    chosen = parser.parse_args()
    lines: list[Line] = []
    warnings.filterwarnings(
        "ignore", "os.fork", RuntimeWarning
    )  # Children are replaced by another program at once.

    def add(line: Line) -> None:
        lines.append(line)
        print(
            f"{line.trials:5} {line.what}: {len(line.failures)} failures",
            *line.failures[:3],
            sep="\n      ",
            flush=True,
        )

    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        whole = folder / "whole"
        status, told = command(["train", *VICTIM.split(), "--out", str(whole)])
        assert status == 0, told
        lines_of: dict[str, Callable[[], Iterator[Line]]] = {
            "inputs": lambda: wrong_inputs(chosen.inputs, chosen.seed, folder),
            "damages": lambda: damages(chosen.damages, chosen.seed, folder, whole),
            "refusals": lambda: refusals(folder, whole),
            "faults": lambda: faults(folder, whole),
            "kills": lambda: (
                kills(name, words, chosen.kills, chosen.seed, folder) for name, words in KILLED.items()
            ),
        }
        for part in chosen.parts:
            for line in lines_of[part]():
                add(line)
    machine = f"{datetime.date.today()}, {platform.platform()}, {os.cpu_count()} cores, seed {chosen.seed}"
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "survival.md").write_text(
        f"{table(lines)}\n`{' '.join(['python -m benchmarks.survival', *sys.argv[1:]])}`: {machine}\n"
    )
    (chosen.out / "survival.json").write_text(
        json.dumps([dataclasses.asdict(line) for line in lines], indent=2) + "\n"
    )
    print(table(lines))
    return int(any(line.failures for line in lines))


if __name__ == "__main__":
    sys.exit(main())
