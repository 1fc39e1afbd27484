"""What a person sees of a run while it goes: a live panel on a terminal, plain lines elsewhere."""

import abc
import contextlib
import math
import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, final

from papd.runs.metrics import Row

if TYPE_CHECKING:
    from rich.table import Table

LINE_EVERY_SECONDS = 10.0
"""Plain lines, for a log file, come no faster."""

STOPPING = "stopping after this iteration, with a checkpoint; a second signal stops at once"


class Progress(abc.ABC):
    """Follows one run. Whoever reads it may go away: that never ends the run."""

    @abc.abstractmethod
    def update(self, row: Row) -> None:
        """Show the iteration that just ended."""

    @abc.abstractmethod
    def note(self, text: str) -> None:
        """Say something that happened."""

    @abc.abstractmethod
    def close(self) -> None:
        """Leave the screen as it is."""

    def stopping(self) -> None:
        """A signal asks for the end. Called by its handler, so that no lock and no buffer may be touched."""
        with contextlib.suppress(OSError):
            os.write(2, f"{STOPPING}\n".encode())


def say(text: str) -> None:
    """A line on standard error, if that can still be written."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


class Goal:
    """Where a run is going, and when it gets there at the speed it had since it (re)started."""

    def __init__(self, name: str, steps: int, limits: Sequence[float]):
        self.name, self.steps, self.limits = name, steps, tuple(limits)
        self.begin(0)

    def begin(self, done: int) -> None:
        """It (re)starts now, with so many steps done; the clock of the estimate starts once the program is compiled."""
        self._started, self._done = math.inf, done

    def follow(self, env_steps: int) -> None:
        """An iteration has just ended."""
        if math.isinf(self._started):
            self._started, self._done = time.monotonic(), env_steps

    def seconds_left(self, env_steps: int) -> float:
        """Estimated time to the goal; infinite until the second iteration has ended."""
        gone, covered = time.monotonic() - self._started, env_steps - self._done
        left = max(0, self.steps - env_steps)
        if not left:
            return 0.0
        return left * gone / covered if covered > 0 else math.inf

    def cells(self, row: Row) -> list[tuple[str, str]]:
        """What is shown, in order: a label and a value."""
        now = int(row["env_steps"])
        return [
            ("step", f"{now:,}/{self.steps:,} ({min(1.0, now / self.steps):.0%})"),
            ("left", clock(self.seconds_left(now))),
            ("return", f"{row['return_mean']:.1f}"),
            *self._costs(row),
            ("multiplier", f"{row['multiplier']:.3f}"),
            ("rate", f"{row['learning_rate']:.2e}"),
            ("steps/s", f"{row['steps_per_second']:,.0f}"),
        ]

    def _costs(self, row: Row) -> list[tuple[str, str]]:
        names = [name for name in row if name.startswith("cost_mean")]
        several = [name for name in names if name != "cost_mean"]
        limits = self.limits if len(self.limits) == len(several) else self.limits * max(1, len(several))
        labels = several or ["cost_mean"]
        return [
            (
                name.replace("cost_mean", "cost").replace("cost_cost_", "cost "),
                f"{row[name]:.1f} of {limit:g}",
            )
            for name, limit in zip(labels, limits, strict=False)
        ]


def clock(seconds: float) -> str:
    """``1:02:03`` or ``2:03``."""
    if not math.isfinite(seconds):
        return "-"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def make_progress(goal: Goal, *, quiet: bool) -> Progress:
    """The panel where standard error is a terminal, lines where it is none."""
    if quiet:
        return Silent()
    return Panel(goal) if sys.stderr.isatty() else Lines(goal)


@final
class Silent(Progress):
    """Nothing but what must be told."""

    def update(self, row: Row) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """On standard error."""
        say(text)

    def stopping(self) -> None:
        """Nothing: how the run ended is told in the end."""

    def close(self) -> None:
        """Nothing."""


@final
class Lines(Progress):
    """A line now and then: the first iteration, every ten seconds, the last."""

    def __init__(self, goal: Goal):
        self._goal = goal
        self._last_time = -math.inf
        self._unshown: Row | None = None

    def update(self, row: Row) -> None:
        """A line, if it is time for one."""
        self._goal.follow(int(row["env_steps"]))
        self._unshown = row
        if time.monotonic() - self._last_time >= LINE_EVERY_SECONDS:
            self._show()

    def note(self, text: str) -> None:
        """A line of its own."""
        say(text)

    def close(self) -> None:
        """The last iteration, if it was not shown."""
        self._show()

    def _show(self) -> None:
        if self._unshown is not None:
            self.note("  ".join(f"{label} {value}" for label, value in self._goal.cells(self._unshown)))
        self._last_time, self._unshown = time.monotonic(), None


@final
class Panel(Progress):
    """A panel that stays in place, redrawn four times a second by a thread."""

    def __init__(self, goal: Goal):
        from rich.console import Console
        from rich.live import Live

        self._goal = goal
        self._row: Row | None = None
        self._stopping = False
        self._console = Console(stderr=True)
        self._live = Live(console=self._console, refresh_per_second=4, get_renderable=self._draw)
        self._live.start()
        self._console.show_cursor(True)  # rich hides it; a process that is killed would leave it hidden.

    def update(self, row: Row) -> None:
        """Remember the row; the next redrawing shows it."""
        self._goal.follow(int(row["env_steps"]))
        self._row = row

    def note(self, text: str) -> None:
        """A line above the panel."""
        with contextlib.suppress(OSError):
            self._console.print(text, markup=False, highlight=False)

    def stopping(self) -> None:
        """The next redrawing shows it."""
        self._stopping = True

    def close(self) -> None:
        """Draw once more and stop."""
        with contextlib.suppress(OSError):
            self._live.stop()

    def _draw(self) -> "Table":
        from rich.table import Table
        from rich.text import Text

        table = Table(title=Text(self._goal.name), title_justify="left", show_edge=False, pad_edge=False)
        if self._stopping:
            table.caption, table.caption_justify = Text(STOPPING), "left"
        if self._row is None:
            table.add_column(Text("starting: the first iteration compiles the program"))
            return table
        cells = self._goal.cells(self._row)
        for label, _ in cells:
            table.add_column(label, justify="right")
        table.add_row(*(Text(value) for _, value in cells))
        return table
