"""What a run says while it goes: on a terminal, in a file, and to a reader who has left."""

import math
import os
import pty
import re
import sys
import threading
import time
from pathlib import Path

import pytest

from papd.runs import progress
from papd.runs.progress import STOPPING, Goal, Lines, Panel, Silent, clock, make_progress

ROW = {
    "iteration": 1,
    "env_steps": 4000,
    "return_mean": 412.34,
    "cost_mean": 12.5,
    "multiplier": 0.75,
    "learning_rate": 3.3e-4,
    "steps_per_second": 51234.0,
}
TWO = {**ROW, "cost_mean_cost_speed": 3.0, "cost_mean_cost_outside": 9.5}
SHOWN = ("4,000/1,000,000 (0%)", "412.3", "12.5 of 10", "0.750", "3.30e-04", "51,234")


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """A clock that stands until it is moved."""
    time_is = {"now": 100.0}
    monkeypatch.setattr(progress.time, "monotonic", lambda: time_is["now"])
    return time_is


def test_the_time_left_is_not_the_compilation_s(now: dict[str, float]) -> None:
    goal = Goal("run", 10_000, (10.0,))
    now["now"] += 50.0  # The first iteration compiles.
    goal.follow(1000)
    assert math.isinf(goal.seconds_left(1000))
    now["now"] += 2.0
    goal.follow(2000)
    assert goal.seconds_left(2000) == pytest.approx(16.0)
    assert goal.seconds_left(10_400) == 0.0


def test_a_resumed_run_is_measured_from_where_it_goes_on(now: dict[str, float]) -> None:
    goal = Goal("run", 10_000, (10.0,))
    goal.begin(8000)
    goal.follow(8500)
    now["now"] += 1.0
    assert goal.seconds_left(9000) == pytest.approx(2.0)
    assert [clock(s) for s in (math.inf, 0.4, 61.0, 3661.0)] == ["-", "0:00", "1:01", "1:01:01"]


def test_every_constraint_has_its_limit() -> None:
    assert ("cost", "12.5 of 10") in Goal("run", 10, (10.0,)).cells(ROW)
    cells = Goal("run", 10, (4.0, 9.0)).cells(TWO)
    assert ("cost speed", "3.0 of 4") in cells
    assert ("cost outside", "9.5 of 9") in cells


def test_lines_are_the_first_then_one_in_a_while_and_the_last(
    now: dict[str, float], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = make_progress(Goal("run", 1_000_000, (10.0,)), quiet=False)
    assert isinstance(lines, Lines)  # Standard error is no terminal here.
    for _ in range(30):
        lines.update(ROW)
        now["now"] += 1.0
    lines.update({**ROW, "env_steps": 1_000_000})
    lines.close()
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 4
    assert all(word in told[0] for word in SHOWN)
    assert told[-1].startswith("step 1,000,000/1,000,000 (100%)  left 0:00")


def test_quiet_says_only_what_must_be_told(capsys: pytest.CaptureFixture[str]) -> None:
    silent = make_progress(Goal("run", 10, (10.0,)), quiet=True)
    assert isinstance(silent, Silent)
    silent.update(ROW)
    silent.note("a checkpoint is damaged")
    silent.close()
    assert capsys.readouterr().err == "a checkpoint is damaged\n"


def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> int:
    """The far end of a terminal that standard error now is."""
    far, near = pty.openpty()
    monkeypatch.setattr(sys, "stderr", os.fdopen(near, "w"))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "150")
    return far


def test_a_terminal_gets_a_panel_and_keeps_its_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    far = on_a_terminal(monkeypatch)
    panel = make_progress(Goal("run", 1_000_000, (10.0,)), quiet=False)
    assert isinstance(panel, Panel)
    panel.update(ROW)
    panel.note("[a note]")
    panel.stopping()
    panel.close()
    print("the end", file=sys.stderr, flush=True)
    seen = ""
    while "the end" not in seen:
        seen += os.read(far, 100_000).decode()
    words = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", seen)
    assert "the first iteration compiles" in words
    assert all(word in words for word in (*SHOWN, "[a note]", STOPPING))
    assert seen.rindex("\x1b[?25h") > seen.rindex("\x1b[?25l")
    assert seen.index("\x1b[?25h") < seen.index("4,000/1,000,000"), "hidden while the run goes"
    os.close(far)


def test_a_reader_who_leaves_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed terminal answers every write with an error; so do a closed pipe and a full disk."""
    far = on_a_terminal(monkeypatch)
    threads = set(threading.enumerate())
    panel = Panel(Goal("run", 1_000_000, (10.0,)))
    os.close(far)
    panel.update(ROW)
    panel.note("nobody reads this")
    time.sleep(0.3)  # The thread draws, too.
    panel.close()
    for thread in set(threading.enumerate()) - threads:
        thread.join(timeout=60)
        assert not thread.is_alive()
    monkeypatch.setattr(sys, "stderr", open("/dev/full", "w"))  # noqa: SIM115
    for follower in (Lines(Goal("run", 10, (10.0,))), Silent()):
        follower.update(ROW)
        follower.note("nor this")
        follower.close()


def test_what_the_signal_handler_says_goes_past_every_buffer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(tmp_path / "log", "w") as log:
        real_write = os.write
        monkeypatch.setattr(os, "write", lambda _, data: real_write(log.fileno(), data))
        Lines(Goal("run", 10, (10.0,))).stopping()
        Silent().stopping()
    assert (tmp_path / "log").read_text() == f"{STOPPING}\n"
