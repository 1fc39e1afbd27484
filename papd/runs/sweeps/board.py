"""What a person sees of a sweep while it goes: a live table on a terminal, plain lines elsewhere."""

import abc
import math
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

from papd.runs.progress import LINE_EVERY_SECONDS, clock
from papd.runs.sweeps.tally import RunTally, Tally

if TYPE_CHECKING:
    from rich.console import Group

MOST_ROWS = 16
"""Running runs that are shown one by one."""


class Board(abc.ABC):
    """Shows a tally as its events come in."""

    def __init__(self, tally: Tally):
        self.tally = tally

    def take(self, event: Mapping[str, Any]) -> None:
        """Count an event, and show it."""
        self.tally.take(event)
        if event["event"] == "note":
            self.note(event["text"])
        elif event["event"] == "ended" and event["status"] == "failed":
            self.note(f"{event['run']} failed: {event['reason']}")
        self.show(event)

    @abc.abstractmethod
    def show(self, event: Mapping[str, Any]) -> None:
        """Bring what is seen up to date."""

    @abc.abstractmethod
    def note(self, text: str) -> None:
        """Say something that happened."""

    @abc.abstractmethod
    def close(self) -> None:
        """Leave the screen as it is."""


def make_board(tally: Tally, *, quiet: bool) -> Board:
    """A table where standard error is a terminal, lines where it is none."""
    if quiet:
        return Quiet(tally)
    return Table(tally) if sys.stderr.isatty() else Lines(tally)


def headline(tally: Tally) -> list[tuple[str, str]]:
    """What is said about the whole sweep: a label and a value each."""
    total = sum(run.run.config.steps for run in tally.runs.values())
    done = sum(min(run.env_steps, run.run.config.steps) for run in tally.runs.values())
    cells = [(state, str(tally.count(state))) for state in ("finished", "running", "failed", "waiting")]
    return [
        *((label, value) for label, value in cells if label != "interrupted"),
        ("steps", f"{done:,} of {total:,} ({done / total:.0%})"),
        ("steps/s", f"{tally.steps_per_second:,.0f}"),
        ("left", clock(tally.seconds_left) if math.isfinite(tally.seconds_left) else "-"),
    ]


@final
class Quiet(Board):
    """Nothing but what must be told."""

    def show(self, event: Mapping[str, Any]) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """On standard error."""
        print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Nothing."""


@final
class Lines(Board):
    """A line every ten seconds, and one at the end."""

    def __init__(self, tally: Tally):
        super().__init__(tally)
        self._shown_at = time.monotonic()

    def show(self, event: Mapping[str, Any]) -> None:
        """A line, if it is time for one."""
        if time.monotonic() - self._shown_at >= LINE_EVERY_SECONDS:
            self.close()

    def note(self, text: str) -> None:
        """A line of its own."""
        print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """How far it is."""
        self._shown_at = time.monotonic()
        self.note("  ".join(f"{label} {value}" for label, value in headline(self.tally)))


@final
class Table(Board):
    """A table that stays in place, redrawn four times a second."""

    def __init__(self, tally: Tally):
        from rich.console import Console
        from rich.live import Live

        super().__init__(tally)
        self._console = Console(stderr=True)
        self._live = Live(console=self._console, refresh_per_second=4, get_renderable=self.draw)
        self._live.start()

    def show(self, event: Mapping[str, Any]) -> None:
        """The next redrawing shows it."""

    def note(self, text: str) -> None:
        """A line above the table."""
        self._console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        """Draw once more and stop."""
        self._live.stop()

    def draw(self) -> "Group":
        """What stands on the screen now."""
        from rich import table
        from rich.console import Group
        from rich.text import Text

        head = table.Table(show_edge=False, pad_edge=False)
        for label, _ in headline(self.tally):
            head.add_column(label, justify="right")
        head.add_row(*(Text(value) for _, value in headline(self.tally)))
        running = [run for run in self.tally.runs.values() if run.state == "running"]
        if not running:
            return Group(head)
        below = table.Table(show_edge=False, pad_edge=False, show_header=False)
        for run in running[:MOST_ROWS]:
            below.add_row(*(Text(cell) for cell in cells(run)))
        more = len(running) - MOST_ROWS
        return Group(head, Text(""), below, *([Text(f"and {more} more")] if more > 0 else []))


def cells(run: RunTally) -> tuple[str, str, str, str]:
    """One running run: name, share done, return and cost."""
    share = min(1.0, run.env_steps / run.run.config.steps)
    if not run.last:
        return run.run.name, f"{share:.0%}", "starting", ""
    limits = "+".join(f"{limit:g}" for limit in run.run.config.cost_limit)
    return (
        run.run.name,
        f"{share:.0%}",
        f"return {run.last['return_mean']:.1f}",
        f"cost {run.last['cost_mean']:.1f} of {limits}",
    )
