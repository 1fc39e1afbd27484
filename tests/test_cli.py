"""The command: what it does, and what it says to someone who mistook it. In one line, at once, with status 2."""

import csv
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import papd
from papd import cli
from papd.commands.show import interval, number, print_json, table
from papd.runs.files import read_json
from papd.runs.folder import RunFolder
from papd.runs.lock import locked
from papd.runs.metrics import TIMINGS

SMALL = (
    "SafetyBallRun-v0 --backend twin --hidden-sizes 8 --num-envs 2 --episodes-per-iteration 2 --steps 600 "
    "--eval-episodes 2 --checkpoint-every 1"
)


def papd_run(words: str) -> int:
    return cli.run(shlex.split(words))


def rows(folder: Path) -> list[dict[str, str]]:
    with open(folder / "metrics.csv", newline="") as file:
        return [{k: v for k, v in row.items() if k not in TIMINGS} for row in csv.DictReader(file)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    folder = tmp_path_factory.mktemp("cli") / "run"
    assert papd_run(f"train {SMALL} --quiet --out {folder}") == 0
    return folder


def test_help_lists_the_commands_and_each_has_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert papd_run("--help") == 0
    listed = capsys.readouterr().out
    offered = [command for command in cli.COMMANDS if command.exists()]
    assert {"train", "eval", "envs", "completion"} <= {command.name for command in offered}
    for command in offered:
        assert f"  {command.name} " in listed
        with pytest.raises(SystemExit) as stop:
            papd_run(f"{command.name} --help")
        assert stop.value.code == 0
        assert f"usage: papd {command.name}" in capsys.readouterr().out
    assert papd_run("--version") == 0
    assert capsys.readouterr().out == f"papd {papd.__version__}\n"


def test_a_command_whose_module_is_missing_is_not_offered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "COMMANDS", (cli.Command("envs", "x"), cli.Command("train", "y", "nowhere.py")))
    assert papd_run("--help") == 0
    assert "train" not in capsys.readouterr().out
    assert papd_run("train") == 2
    assert "unknown command 'train'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", ["--help", "train --help", "train X --sead 1", "eval nowhere", "train X --h1 -1"]
)
def test_help_and_mistakes_do_not_wait_for_jax(words: str) -> None:
    heavy = "{'jax', 'equinox', 'optax', 'matplotlib', 'pandas', 'gymnasium', 'scipy'}"
    light = f"({heavy} | {{'numpy', 'tyro', 'rich'}})" if words == "--help" else heavy
    program = (
        f"import sys; from papd import cli\n"
        f"try: cli.run({words.split()!r})\n"
        f"except SystemExit: pass\n"
        f"found = {light} & set(sys.modules); sys.exit(f'imported {{found}}' if found else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


MISTAKES = [
    ("", ""),
    ("trian", "unknown command 'trian'; did you mean 'train'?"),
    ("--hlep", "unknown option '--hlep'"),
    ("train", "which environment?"),
    ("train SafetyCarRun-v0 --sead 3", "unknown option --sead; did you mean '--seed'?"),
    ("train SafetyCarRun-v0 --seed", "--seed needs a value"),
    ("train SafetyCarRun-v0 --seed x", "Error parsing --seed: 'x' is no whole number"),
    ("train SafetyCarRun-v0 --steps 1.5", "'1.5' is no whole number"),
    ("train SafetyCarRun-v0 --lr fast", "lr='fast': lr is one of constant, invlin, invqua"),
    ("train SafetyCarRun-v0 --h1 0", "h1=0.0: h1 must be a finite number > 0"),
    ("train SafetyCarRun-v0 --h1=-inf", "h1=-inf"),
    ("train SafetyCarRun-v0 --gamma 2", "gamma=2.0: gamma must be between 0 and 1"),
    ("train SafetyCarRun-v0 --cost-limit -1", "cost_limit=-1.0"),
    ("train SafetyCarRun-v0 --buffer-size 9", "--buffer-size is no hyper-parameter of ppol"),
    ("train SafetyCarRun-v0 --algo ddpgl --clip-ratio 0.1", "--clip-ratio is no hyper-parameter of ddpgl"),
    ("train SafetyCarRun-v0 --lr constant --h2 3", "a constant rate has no h2"),
    ("train SafetyCarRun-v0 --multiplier fixed", "--multiplier-fixed 1"),
    ("train SafetyCarRun-v0 extra", "unexpected extra"),
    ("train SafetyCarRn-v0 --backend twin", "did you mean 'SafetyCarRun-v0'?"),
    ("train SafetyCarRn-v0", "SafetyCarR"),
    ("train SafetyAntRun-v0 --backend twin", "has no twin"),
    ("train SafetyBallRun-v0 --backend twin --cost-keys cost_speed --out {tmp}/x", "cost_speed"),
    ("train SafetyCarRun-v0 --config {tmp}/none.toml", "No such file"),
    ("train SafetyCarRun-v0 --config {tmp}", "a configuration is a .toml or .json file"),
    ("train --config {tmp}/bad.toml", "bad.toml: unknown field 'sede'; did you mean 'seed'?"),
    ("train --out {tmp}/nowhere --resume", "which environment?"),
    ("train SafetyCarRun-v0 --out {tmp}/bad.toml", "is a file"),
    ("train SafetyCarRun-v0 --out /proc/nothing/here", "cannot write /proc/nothing/here"),
    (
        "train SafetyCarRun-v0 --out {trained}",
        "holds another run: --resume goes on with it, or choose another",
    ),
    ("train --out {trained} --resume --seed 5", "was trained with seed=0, not 5"),
    ("train --out {trained} --resume --gamma 0.5", "was trained with gamma=0.99, not 0.5"),
    ("train --out {newer} --resume", "was written by papd 9.9 (format 99)"),
    ("train --out {foreign} --resume", "is no configuration of a run"),
    ("eval", "which run?"),
    ("eval {tmp}", "holds no run"),
    ("eval {newer}", "upgrade papd"),
    ("eval {trained} --episodes 0", "episodes=0"),
    ("eval {trained} --seed -1", "seed=-1"),
    ("eval {trained} --backend real", "--backend real: backend is one of bullet, twin"),
    ("eval {trained} --video {tmp}/film.avi", "a video is a .mp4 or .gif file"),
    ("eval {trained} --video {tmp}/nowhere/film.gif", "there is no folder"),
    ("eval {broken}", "policy.safetensors is damaged"),
    ("completion", "which shell?"),
    ("report", "which runs?"),
    ("report {tmp}/nowhere", "does not exist"),
    ("theory --problems 0", "problems=0"),
]


@pytest.mark.parametrize(("words", "said"), MISTAKES, ids=[words for words, _ in MISTAKES])
def test_a_mistake_is_one_line_and_status_2(
    words: str, said: str, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {name: tmp_path / name for name in ("newer", "foreign", "broken")}
    for folder in places.values():
        folder.mkdir()
    config = read_json(trained / "config.json")
    newer = {**config, "provenance": {"format": 99, "papd": "9.9"}}
    (places["newer"] / "config.json").write_text(json.dumps(newer))
    (places["foreign"] / "config.json").write_text('{"name": "a package"}')
    (places["broken"] / "config.json").write_text(json.dumps(config))
    (places["broken"] / "policy.safetensors").write_bytes((trained / "policy.safetensors").read_bytes()[:-9])
    (tmp_path / "bad.toml").write_text('env = "SafetyCarRun-v0"\nsede = 3\n')
    before = sorted(tmp_path.rglob("*"))
    assert papd_run(words.format(tmp=tmp_path, trained=trained, **places)) == 2
    told = capsys.readouterr()
    if not words:
        assert "usage: papd COMMAND" in told.out
        return
    lines = told.err.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("papd: ")
    assert said in lines[0]
    assert sorted(tmp_path.rglob("*")) == before


def test_a_run_leaves_what_was_promised(trained: Path) -> None:
    config, summary = read_json(trained / "config.json"), read_json(trained / "summary.json")
    assert config["h1"] == 0.015
    assert config["hyper"]["hidden_sizes"] == [8]
    made = config["provenance"]
    assert made["command"] == f"papd train {SMALL} --quiet --out {trained}"
    assert made["papd"] == papd.__version__
    assert {"jax", "numpy", "equinox", "optax"} <= set(made["versions"])
    assert made["platform"]
    assert made["git_commit"] is None or len(made["git_commit"].removesuffix("-dirty")) == 40
    assert [row["env_steps"] for row in rows(trained)] == ["200", "400", "600"]
    assert summary["status"] == "finished"
    assert summary["evaluation"]["episodes"] == 2
    assert summary["evaluation"]["backend"] == "twin"
    assert RunFolder(trained).iterations() == [3, 2, 1]
    names = {path.name.split(".")[0] for path in trained.iterdir()} - {""}
    assert names == {"config", "metrics", "summary", "events", "checkpoints", "policy", "best"}


def test_its_configuration_repeats_the_run(trained: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    assert papd_run(f"train --config {trained}/config.json --quiet --out {again}") == 0
    assert rows(again) == rows(trained)
    assert (again / "policy.safetensors").read_bytes() == (trained / "policy.safetensors").read_bytes()


def test_flags_win_over_the_file(trained: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    words = f"train --config {trained}/config.json --seed 1 --lr constant --steps 2e2 --eval-episodes 0"
    assert papd_run(f"{words} --quiet --out {other}") == 0
    config = read_json(other / "config.json")
    assert (config["seed"], config["lr"], config["h1"], config["h2"]) == (1, "constant", 0.0005, None)
    assert config["hyper"] == read_json(trained / "config.json")["hyper"]
    assert len(rows(other)) == 1


def test_a_finished_run_is_told_again_without_jax(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()}
    assert papd_run(f"train --out {trained} --resume --json") == 0
    assert json.loads(capsys.readouterr().out)["iterations"] == 3
    assert papd_run(f"train --out {trained} --resume") == 0
    printed = capsys.readouterr().out
    for word in ("return", "cost (limit 10)", "multiplier", "rate", "steps/s", "twin, 2 episodes"):
        assert word in printed
    after = {path: path.read_bytes() for path in trained.rglob("*") if path.is_file()}
    assert {p: d for p, d in after.items() if p.name != ".lock"} == {
        p: d for p, d in before.items() if p.name != ".lock"
    }


def test_more_steps_go_on_where_it_ended(trained: Path, tmp_path: Path) -> None:
    longer, parts = tmp_path / "longer", tmp_path / "parts"
    words = SMALL.replace("--steps 600", "--steps 1000").replace("--eval-episodes 2", "--eval-episodes 0")
    assert papd_run(f"train {words} --quiet --out {longer}") == 0
    assert papd_run(f"train {words} --steps 400 --quiet --out {parts} --resume") == 0
    assert papd_run(f"train --out {parts} --steps 1000 --resume --quiet") == 0
    assert rows(longer) == rows(parts)
    assert (longer / "policy.safetensors").read_bytes() == (parts / "policy.safetensors").read_bytes()
    resumed = read_json(parts / "config.json")["provenance"]["resumed"]
    assert [entry["command"] for entry in resumed] == [
        f"papd train --out {parts} --steps 1000 --resume --quiet"
    ]


def test_without_out_a_run_gets_a_name_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = SMALL.replace("--steps 600", "--steps 200").replace("--eval-episodes 2", "--eval-episodes 0")
    assert papd_run(f"train {words} --quiet") == 0
    assert papd_run(f"train {words} --quiet") == 0
    name = "SafetyBallRun-v0-twin-ppol-invqua-seed0"
    assert sorted(path.name for path in Path("runs").iterdir()) == [name, f"{name}-2"]
    assert papd_run(f"train {words} --quiet --resume --json") == 0
    assert len(list(Path("runs").iterdir())) == 2


def test_a_locked_folder_names_its_holder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with locked(tmp_path / "run"):
        assert papd_run(f"train {SMALL} --out {tmp_path}/run") == 2
    assert f"is in use by process {os.getpid()} on" in capsys.readouterr().err


def test_a_broken_limit_is_status_1_where_it_is_asked_for(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strict = f"train {SMALL} --cost-limit 0 --steps 200 --out {tmp_path}/strict --quiet --require-limit"
    status = papd_run(strict)
    broken = "BREAKS its limit" in capsys.readouterr().out
    assert status == int(broken)
    evaluation = read_json(tmp_path / "strict" / "summary.json")["evaluation"]
    assert evaluation["feasible"] == (not broken)
    assert papd_run(f"train --out {tmp_path}/strict --resume --quiet") == 0


def test_sigterm_writes_a_checkpoint_and_names_the_way_on(tmp_path: Path) -> None:
    """Meanwhile nobody else may write there; afterwards anyone may go on."""
    folder = tmp_path / "run"
    words = SMALL.replace("--steps 600", "--steps 1e9").replace(
        "--checkpoint-every 1", "--checkpoint-every 100000"
    )
    command = [sys.executable, "-m", "papd", "train", *words.split(), "--out", str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (folder / "metrics.csv").exists() or len(rows(folder)) < 3:
        assert time.monotonic() < deadline, "no iteration in a minute"
        time.sleep(0.02)
    second = subprocess.run([*command, "--resume"], capture_output=True, text=True)
    assert second.returncode == 2
    assert f"is in use by process {process.pid} on" in second.stderr
    process.send_signal(signal.SIGTERM)
    out, told = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert out == ""
    assert told.strip().splitlines()[-1].endswith(f"go on with: papd train --out {folder} --resume")
    summary = read_json(folder / "summary.json")
    assert summary["status"] == "interrupted"
    assert RunFolder(folder).iterations() == [summary["iterations"]]
    assert len(rows(folder)) == summary["iterations"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_options_and_choices(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert papd_run(f"completion {shell}") == 0
    script = capsys.readouterr().out
    for word in ("train", "invqua", "buffer-size", "clip-ratio", "no-resume", "video"):
        assert word in script


def test_bash_completes(capsys: pytest.CaptureFixture[str]) -> None:
    papd_run("completion bash")
    script = capsys.readouterr().out
    ask = (
        'ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _papd; echo "${COMPREPLY[*]}"; }\n'
        "ask papd tra\nask papd train SafetyBallR\nask papd train X --lr inv\nask papd eval r --poli\n"
        "ask papd completion f\nask papd envs SafetyDroneR\n"
    )
    done = subprocess.run(["bash", "-c", script + "\n" + ask], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "train",
        "SafetyBallRun-v0 SafetyBallReach-v0",
        "invlin invqua",
        "--policy",
        "fish",
        "SafetyDroneRun-v0 SafetyDroneReach-v0",
    ]


def test_envs_lists_what_can_be_made(capsys: pytest.CaptureFixture[str]) -> None:
    assert papd_run("envs --json") == 0
    known = {info["id"]: info for info in json.loads(capsys.readouterr().out)}
    assert known["SafetyCarRun-v0"]["backends"] == ["bullet", "twin"]
    assert papd_run("envs ballrun") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[2].startswith("SafetyBallRun-v0")


def test_text_tables_and_json() -> None:
    assert table([["a", "b"], ["long", "1"]]) == "a     b\n----  -\nlong  1"
    assert table([["a", "b"], ["x", "yy"]], left=(0, 1)) == "a  b\n-  --\nx  yy"
    assert number(None) == "-"
    assert number(float("nan")) == "-"
    assert number(1234.567, 1) == "1,234.6"
    assert interval({"estimate": 1.0, "low": 0.5, "high": 1.5}) == "1.0 [0.5, 1.5]"


def test_printed_json_is_for_every_reader(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [float("nan"), 1.5, (float("inf"),)]})
    assert json.loads(capsys.readouterr().out) == {"a": [None, 1.5, [None]]}


def test_a_reader_that_goes_away_is_no_error() -> None:
    done = subprocess.run(
        f"{sys.executable} -m papd envs | head -1", shell=True, capture_output=True, text=True, check=True
    )
    assert "Traceback" not in done.stderr
