"""A run that is cut off anywhere ends as one that never was; what it leaves on disk is always whole."""

import contextlib
import csv
import errno
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from tensorboardX.proto.event_pb2 import Event

from papd.errors import RunError
from papd.runs import files
from papd.runs.checkpoint import load_beside, load_tree, read_meta
from papd.runs.files import read_json
from papd.runs.folder import RunFolder, RunStoppedError
from papd.runs.logs import TensorBoard
from papd.runs.metrics import TIMINGS, MetricsFile, last_tenth, read_metrics
from papd.runs.progress import Silent
from papd.runs.train import BAD_ITERATIONS, Best, Position, Run, Stop, summarise, train
from tests.runs.fakes import STEPS, FakeAgent, State, config


class Killed(Exception):  # noqa: N818 - stands for kill -9
    """Nothing that the process would have done after this happens."""


def open_run(folder: Path, agent: FakeAgent | None = None, **values: object) -> Run:
    folder.mkdir(parents=True, exist_ok=True)
    return Run(RunFolder(folder), config(**values), agent or FakeAgent(), Silent())


def whole(folder: Path, **values: object) -> Run:
    with contextlib.closing(open_run(folder, **values)) as run:
        train(run, Stop())
    return run


def rows(folder: Path) -> list[dict[str, str]]:
    with open(folder / "metrics.csv", newline="") as file:
        return [{k: v for k, v in row.items() if k not in TIMINGS} for row in csv.DictReader(file)]


def weights(folder: Path) -> list[bytes]:
    run = RunFolder(folder)
    checkpoint = run.checkpoint(run.iterations()[0])
    template = FakeAgent().state
    state, _ = load_tree(checkpoint, template)
    trees: list[State | np.ndarray] = [state, load_beside(checkpoint, "best", template.learner.policy)]
    trees += [load_tree(file, template.learner.policy)[0] for file in (run.policy, run.best)]
    flat = [
        leaf
        for tree in trees
        for leaf in (tree if isinstance(tree, np.ndarray) else [*tree.learner, *tree[1:]])
    ]
    return [np.asarray(leaf).tobytes() for leaf in flat]


def same(one: Path, other: Path) -> bool:
    return rows(one) == rows(other) and weights(one) == weights(other)


def test_a_whole_run_leaves_what_was_promised(tmp_path: Path) -> None:
    run = whole(tmp_path, keep=2, checkpoint_every=3)
    summary = summarise(run, "finished")
    found = read_metrics(tmp_path / "metrics.csv")
    assert [row["iteration"] for row in found] == list(range(1, 21))
    assert found[0]["env_steps"] == STEPS
    assert np.isnan(found[0]["policy_loss"])
    first = ("iteration", "env_steps", "episodes", "return_mean", "cost_mean", "multiplier", "learning_rate")
    assert tuple(found[0])[:7] == first
    assert list(found[0])[-2:] == list(TIMINGS)
    assert RunFolder(tmp_path).iterations() == [20, 18]
    assert summary == read_json(tmp_path / "summary.json")
    assert summary["last_tenth"]["return_mean"] == pytest.approx(
        np.mean([r["return_mean"] for r in found[-2:]])
    )
    assert summary["status"] == "finished"
    assert not [name for name in os.listdir(tmp_path) if name.endswith(files.TEMPORARY)]


def test_the_best_policy_is_the_best_feasible_one(tmp_path: Path) -> None:
    run = whole(tmp_path)
    found = read_metrics(tmp_path / "metrics.csv")
    feasible = [row for row in found if row["cost_mean"] <= 10.0]
    expected = max(feasible, key=lambda row: row["return_mean"])
    assert run.position.best.iteration == expected["iteration"]
    assert read_meta(tmp_path / "best.safetensors")["iteration"] == expected["iteration"]
    # The policy that played iteration k is the one after iteration k - 1.
    again = FakeAgent()
    for _ in range(int(expected["iteration"]) - 1):
        again.iterate()
    best, _ = load_tree(tmp_path / "best.safetensors", again.state.learner.policy)
    assert np.array_equal(best, again.state.learner.policy)


def test_without_a_feasible_policy_the_least_infeasible_is_best() -> None:
    worse, better = Best(1, 3.0, 100.0, (13.0,)), Best(2, 1.0, 5.0, (11.0,))
    assert worse.beaten_by(better)
    assert not better.beaten_by(worse)
    assert not better.beaten_by(better)
    assert Best().beaten_by(worse)


def test_an_unbegun_position_survives_json() -> None:
    assert Position.from_meta(Position().to_meta()) == Position()
    told = Position(3, 300, 1.5, 2, 1, 0, Best(2, 0.0, 1.0, (2.0, 3.0)))
    assert Position.from_meta(told.to_meta()) == told


KINDS = {
    "fsync": (os, "fsync"),
    "replace": (os, "replace"),
    "row": (MetricsFile, "_write"),
    "prune": (RunFolder, "prune"),
    "file": (files, "sync_folder"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_any_write_and_resumed_is_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Every call of a kind is, in turn, the last one that happens."""
    short = {"checkpoint_every": 3, "steps": 8 * STEPS, "keep": 1}
    if kind != "fsync":
        monkeypatch.setattr(os, "fsync", lambda _: None)
    whole(tmp_path / "whole", **short)
    owner, name = KINDS[kind]
    real = getattr(owner, name)
    calls_left = 0

    def counted(*args: object) -> object:
        nonlocal calls_left
        calls_left -= 1
        if calls_left == 0:
            raise Killed
        return real(*args)

    kills = 0
    while kills < 60:
        folder, calls_left = tmp_path / f"killed{kills}", kills + 1
        with monkeypatch.context() as patch, contextlib.suppress(Killed):
            patch.setattr(owner, name, counted)
            whole(folder, **short)
            break
        whole(folder, **short)
        assert same(folder, tmp_path / "whole")
        kills += 1
    assert kills == {"fsync": 21, "replace": 9, "row": 9, "prune": 3, "file": 9}[kind]


def test_means_of_the_last_tenth_leave_out_what_is_no_number() -> None:
    nan = float("nan")
    made = [
        {"iteration": n, "return_mean": value, "kl": nan} for n, value in enumerate([9.0] * 18 + [nan, 4.0])
    ]
    assert last_tenth(made) == {"return_mean": 4.0, "kl": None}
    assert last_tenth(made[:1]) == {"return_mean": 9.0, "kl": None}
    assert last_tenth([]) == {}


def test_a_torn_row_and_rows_after_the_checkpoint_are_cut(tmp_path: Path) -> None:
    whole(tmp_path / "whole")
    with contextlib.closing(open_run(tmp_path / "cut", checkpoint_every=5)) as run:
        for _ in range(8):
            run.advance()
    with open(tmp_path / "cut" / "metrics.csv", "ab") as file:
        file.write(b"9,900,18,0.1")
    whole(tmp_path / "cut")
    assert same(tmp_path / "cut", tmp_path / "whole")


@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(
    tmp_path: Path, damage: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    whole(tmp_path / "whole")
    with contextlib.closing(open_run(tmp_path / "run", checkpoint_every=3)) as run:
        for _ in range(10):
            run.advance()
    newest = RunFolder(tmp_path / "run").checkpoint(9)
    newest.write_bytes(newest.read_bytes()[:-7] if damage is None else damage)
    with contextlib.closing(open_run(tmp_path / "run", checkpoint_every=3)) as run:
        assert run.position.iteration == 6
        assert RunFolder(tmp_path / "run").iterations() == [6, 3]
        train(run, Stop())
    told = capsys.readouterr().err
    assert "00000009.safetensors is damaged" in told
    assert told.count("\n") == 1
    assert same(tmp_path / "run", tmp_path / "whole")


def test_lost_rows_send_it_back_to_a_checkpoint_that_has_them(tmp_path: Path) -> None:
    whole(tmp_path / "whole")
    with contextlib.closing(open_run(tmp_path / "run", checkpoint_every=3)) as run:
        for _ in range(9):
            run.advance()
    metrics = tmp_path / "run" / "metrics.csv"
    metrics.write_bytes(b"".join(metrics.read_bytes().splitlines(keepends=True)[:8]))
    with contextlib.closing(open_run(tmp_path / "run")) as run:
        assert run.position.iteration == 6
        train(run, Stop())
    assert same(tmp_path / "run", tmp_path / "whole")


def test_altered_rows_are_told_and_left_alone(tmp_path: Path) -> None:
    whole(tmp_path, checkpoint_every=5)
    metrics = tmp_path / "metrics.csv"
    altered = metrics.read_bytes().replace(b"\n3,300,", b"\n3,301,")
    metrics.write_bytes(altered)
    with pytest.raises(RunError, match=r"metrics\.csv was changed: its first 20 iterations are not those"):
        open_run(tmp_path)
    assert metrics.read_bytes() == altered
    metrics.unlink()
    with pytest.raises(RunError, match=r"cannot read .*metrics\.csv: No such file"):
        open_run(tmp_path)


def test_no_usable_checkpoint_is_one_line_and_nothing_is_lost(tmp_path: Path) -> None:
    whole(tmp_path, checkpoint_every=5)
    before = (tmp_path / "metrics.csv").read_bytes()
    for iteration in RunFolder(tmp_path).iterations():
        RunFolder(tmp_path).checkpoint(iteration).write_bytes(b"no")
    with pytest.raises(
        RunError, match=r"no checkpoint of .* can be used: .*00000020\.safetensors is damaged"
    ) as raised:
        open_run(tmp_path)
    assert "\n" not in str(raised.value)
    assert (tmp_path / "metrics.csv").read_bytes() == before


def test_a_disk_still_full_is_no_fault_of_the_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows beyond the checkpoint must be cut, which takes a write."""
    with contextlib.closing(open_run(tmp_path, checkpoint_every=3)) as run:
        for _ in range(5):
            run.advance()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(RunError, match=r"^cannot write .*metrics\.csv: No space left on device$"):
            open_run(tmp_path)
    assert len(read_metrics(tmp_path / "metrics.csv")) == 5


def test_a_checkpoint_of_another_configuration_is_refused(tmp_path: Path) -> None:
    whole(tmp_path)
    with pytest.raises(RunError, match="belongs to another configuration"):
        open_run(tmp_path, seed=1)


def test_more_steps_go_on_where_fewer_ended(tmp_path: Path) -> None:
    whole(tmp_path / "whole", steps=30 * STEPS)
    whole(tmp_path / "parts", steps=7 * STEPS)
    whole(tmp_path / "parts", steps=30 * STEPS, keep=1)
    assert same(tmp_path / "parts", tmp_path / "whole")
    assert RunFolder(tmp_path / "parts").iterations() == [30]


def test_updates_that_are_not_finite_end_the_run_with_the_last_good_checkpoint(tmp_path: Path) -> None:
    with (
        contextlib.closing(open_run(tmp_path, FakeAgent(bad_from=5), checkpoint_every=1)) as run,
        pytest.raises(RunStoppedError, match=f"last {BAD_ITERATIONS} iterations .* iteration 4 is saved"),
    ):
        train(run, Stop())
    assert RunFolder(tmp_path).iterations()[0] == 4
    assert run.position.iteration == 4 + BAD_ITERATIONS


def test_a_run_that_is_bad_from_its_first_update_says_so(tmp_path: Path) -> None:
    with (
        contextlib.closing(open_run(tmp_path, FakeAgent(bad_from=1), checkpoint_every=1)) as run,
        pytest.raises(RunStoppedError, match="none before them was good"),
    ):
        train(run, Stop())
    assert RunFolder(tmp_path).iterations() == []


def test_a_fault_of_the_environment_ends_the_run_with_a_checkpoint(tmp_path: Path) -> None:
    with (
        contextlib.closing(open_run(tmp_path / "run", FakeAgent(fault_at=8), checkpoint_every=100)) as run,
        pytest.raises(RunStoppedError, match="worker died five times in a row; iteration 7 is saved"),
    ):
        train(run, Stop())
    whole(tmp_path / "run", checkpoint_every=100)
    whole(tmp_path / "whole")
    assert same(tmp_path / "run", tmp_path / "whole")


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    whole(tmp_path / "whole")
    run = open_run(tmp_path / "run", checkpoint_every=2)
    for _ in range(5):
        run.advance()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        with pytest.raises(RunStoppedError, match="No space left on device") as raised:
            train(run, Stop())
    assert "\n" not in str(raised.value)
    run.close()
    whole(tmp_path / "run")
    assert same(tmp_path / "run", tmp_path / "whole")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_iteration_writes_a_checkpoint_and_stops(
    tmp_path: Path, number: signal.Signals
) -> None:
    class Signalled(FakeAgent):
        def iterate(self) -> dict[str, float | int]:
            if int(self.state.iteration) == 4:
                os.kill(os.getpid(), number)
            return super().iterate()

    before = signal.getsignal(number)
    with contextlib.closing(open_run(tmp_path, Signalled(), checkpoint_every=100)) as run, Stop() as stop:
        assert train(run, stop) is False
    assert stop.signal == number
    assert signal.getsignal(number) == before
    assert RunFolder(tmp_path).iterations() == [5]
    assert len(rows(tmp_path)) == 5


def test_the_first_signal_is_told_and_the_second_is_not_held_back() -> None:
    told = []
    with Stop(lambda: told.append("asked")) as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert (told, stop.signal) == (["asked"], signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert told == ["asked"]


def test_checkpoints_take_a_small_share_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no number given, cheap iterations are not each followed by a checkpoint, dear ones are."""
    now = 0.0

    def clock() -> float:
        return now

    monkeypatch.setattr("papd.runs.train.time.perf_counter", clock)
    saved = []

    def slow_save(self: Run) -> None:
        nonlocal now
        now += 1.0
        saved.append(self.position.iteration)
        self._saved_at, self._save_seconds = now, 1.0

    monkeypatch.setattr(Run, "save", slow_save)
    with contextlib.closing(open_run(tmp_path, steps=100 * STEPS)) as run:
        for _ in range(100):
            now += 2.0
            run.advance()
    assert 8 <= len(saved) <= 11


def test_tensorboard_reads_what_was_written_and_drops_what_was_lost(tmp_path: Path) -> None:
    row = {"iteration": 1, "env_steps": 100, "return_mean": 2.5}
    first = TensorBoard(tmp_path)
    first.write(row)
    first.close()
    second = TensorBoard(tmp_path, after_steps=100)
    second.write({**row, "env_steps": 200})
    second.close()
    one, two = (events(file) for file in sorted(tmp_path.iterdir()))
    assert [e.step for e in one] == [0, 100]
    assert {v.tag: v.simple_value for v in one[1].summary.value} == {"iteration": 1.0, "return_mean": 2.5}
    assert two[1].session_log.status == 1
    assert [e.step for e in two] == [0, 101, 200]


def events(file: Path) -> list[Event]:
    """TFRecord: length, its checksum, the event, its checksum."""
    data, found = file.read_bytes(), []
    while data:
        length = int.from_bytes(data[:8], "little")
        found.append(Event.FromString(data[12 : 12 + length]))
        data = data[16 + length :]
    return found
