"""How a sentence of the paper is put to the runs: small tests with intervals, and the verdict over several of them.

A sentence is taken apart into parts, each of which is answered by an interval: yes where the whole interval says so, no
where the whole of it denies it, and otherwise unknown. docs/reproduction.md tells the margins.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from papd.results import statistics
from papd.results.statistics import STANDARD, Bootstrap, Interval

RETURN_MARGIN = 0.05
"""A return is comparable that is at most this share of the other one below it."""

COST_MARGIN = 0.1
"""A violation is comparable that is at most this share of the cost limit above the other one."""

TIME_MARGIN = 0.15
"""A running time is not substantially different within this share. The paper's own differ by up to 13%."""

Answer = Literal["yes", "no", "unknown", "not run"]

SHOWN: dict[Answer, str] = {"yes": "yes", "no": "no", "unknown": "cannot be told", "not run": "not run"}
"""How an answer is said."""


class Scores(NamedTuple):
    """What the runs of a cell ended with; runs without a result are left out."""

    returns: Float[np.ndarray, " runs"]
    costs: Float[np.ndarray, " runs"]
    limit: float

    @property
    def violations(self) -> Float[np.ndarray, " runs"]:
        """(J_C - d)+ of each run."""
        return statistics.violation(self.costs, self.limit)

    @property
    def seeds(self) -> int:
        """How many runs there are."""
        return int(self.returns.size)


@dataclass(frozen=True)
class Part:
    """One thing that was asked, and what the runs answer."""

    what: str
    answer: Answer
    numbers: str = ""
    seeds: int = 0
    parts: Sequence["Part"] = ()
    """What it was put together from."""


@dataclass(frozen=True)
class Verdict:
    """What the parts of a sentence come to."""

    parts: Sequence[Part] = field(default_factory=tuple)

    def count(self, answer: Answer) -> int:
        """Parts with an answer."""
        return sum(part.answer == answer for part in self.parts)

    @property
    def seeds(self) -> int:
        """The fewest runs of a cell that a part was answered from."""
        return min((part.seeds for part in self.parts if part.answer != "not run"), default=0)

    @property
    def word(self) -> str:
        """holds (every part), holds partly, does not hold, cannot be told at n seeds, or not run (in full)."""
        yes, no, unknown = (self.count(answer) for answer in ("yes", "no", "unknown"))
        if yes + no + unknown == 0:
            return "not run"
        if self.count("not run") and not (yes and no):
            return "not run in full"
        if yes:
            return "holds" if yes == len(self.parts) else "holds partly"
        if no:
            return "does not hold"
        return f"cannot be told at {self.seeds} seed{'' if self.seeds == 1 else 's'}"

    def __str__(self) -> str:
        """The word, and how many parts answer what where they differ."""
        counts = [(self.count(answer), word) for answer, word in SHOWN.items()]
        told = [f"{count} {word}" for count, word in counts if count]
        return self.word if len(told) < 2 else f"{self.word} ({', '.join(told)})"


def better(what: str, ours: Scores | None, theirs: Scores | None) -> Part:
    """Whether a run of ours is more often above one of theirs in the feasible-first order (docs/statistics.md)."""
    if ours is None or theirs is None:
        return Part(what, "not run")
    chance = statistics.feasible_first_improvement(
        [(ours.returns, ours.violations)], [(theirs.returns, theirs.violations)]
    )
    return _of_interval(what, chance, 0.5, f"P(better) {_chance(chance)}", ours, theirs)


def pooled_better(what: str, ours: Sequence[Scores | None], theirs: Sequence[Scores | None]) -> Part:
    """The same over several tasks, those that both were run on."""
    pairs = [(x, y) for x, y in zip(ours, theirs, strict=True) if x is not None and y is not None]
    if not pairs:
        return Part(what, "not run")
    here, there = ([(each.returns, each.violations) for each in side] for side in zip(*pairs, strict=True))
    chance = statistics.feasible_first_improvement(here, there)
    numbers = f"P(better) {_chance(chance)} over {len(pairs)}"
    return _of_interval(what, chance, 0.5, numbers, *(each for pair in pairs for each in pair))


def larger(what: str, ours: np.ndarray | None, theirs: np.ndarray | None) -> Part:
    """Whether a run's number is more often larger among ours."""
    if ours is None or theirs is None or not (ours.size and theirs.size):
        return Part(what, "not run")
    chance = statistics.probability_of_improvement([ours], [theirs])
    means = f"{ours.mean():.4g} and {theirs.mean():.4g}"
    answer = _answer(chance, 0.5, min(ours.size, theirs.size))
    return Part(what, answer, f"{means}, P(larger) {_chance(chance)}", min(ours.size, theirs.size))


def infeasible(what: str, ours: Scores | None) -> Part:
    """Whether the mean cost is above its limit."""
    if ours is None:
        return Part(what, "not run")
    cost = statistics.stratified_interval([ours.costs], statistics.mean)
    return _of_interval(what, cost, ours.limit, f"mean cost {_interval(cost)}", ours)


def not_worse(what: str, ours: Scores | None, theirs: Scores | None) -> Part:
    """Whether ours is comparable or better: return and violation both within the margins of theirs, or beyond."""
    if ours is None or theirs is None:
        return Part(what, "not run")
    gain = statistics.difference([ours.returns], [theirs.returns])
    excess = statistics.difference([ours.violations], [theirs.violations], statistics.mean)
    least = -RETURN_MARGIN * abs(float(statistics.interquartile_mean(theirs.returns)))
    most = COST_MARGIN * ours.limit
    numbers = (
        f"return {_signed(gain)}, at least {least:.1f} allowed; "
        f"violation {_signed(excess)}, at most {most:+.1f} allowed"
    )
    seeds = min(ours.seeds, theirs.seeds)
    answers = [_answer(gain, least, seeds), _opposite(_answer(excess, most, seeds))]
    return Part(what, every(answers), numbers, seeds)


def same_time(what: str, ours: np.ndarray | None, theirs: np.ndarray | None) -> Part:
    """Whether the ratio of mean times is within the margin of one."""
    if ours is None or theirs is None or not (ours.size and theirs.size):
        return Part(what, "not run")
    ratio = statistics.difference([np.log(ours)], [np.log(theirs)], statistics.mean)
    seeds = min(ours.size, theirs.size)
    shown = Interval(*(float(np.exp(value)) for value in ratio))
    above = _answer(shown, 1.0 - TIME_MARGIN, seeds)
    below = _opposite(_answer(shown, 1.0 + TIME_MARGIN, seeds))
    numbers = f"ratio {shown.estimate:.2f} [{shown.low:.2f}, {shown.high:.2f}]"
    return Part(what, every([above, below]), numbers, seeds)


def more_spread(
    what: str,
    ours: Sequence[np.ndarray | None],
    theirs: Sequence[np.ndarray | None],
    how: Bootstrap = STANDARD,
) -> Part:
    """Whether the means of our cells lie further apart (standard deviation over cells) than those of theirs."""
    if any(cell is None or not cell.size for cell in (*ours, *theirs)):
        return Part(what, "not run")
    sides = [[cell for cell in side if cell is not None] for side in (ours, theirs)]
    random = np.random.default_rng(how.seed)
    drawn = [np.std([_drawn_means(c, how, random) for c in side], axis=0, ddof=1) for side in sides]
    real = [float(np.std([c.mean() for c in side], ddof=1)) for side in sides]
    cut = statistics.tail([c.size for side in sides for c in side], how)
    gap = real[0] - real[1]
    low, high = (gap, gap) if np.isnan(cut) else np.quantile(drawn[0] - drawn[1], [cut, 1.0 - cut])
    seeds = min(c.size for side in sides for c in side)
    found = Interval(gap, min(float(low), gap), max(float(high), gap))
    numbers = f"{real[0]:.2f} and {real[1]:.2f}, difference {_signed(found)}"
    return Part(what, _answer(found, 0.0, seeds), numbers, seeds)


def denied(part: Part) -> Part:
    """The part that says the opposite."""
    return Part(part.what, _opposite(part.answer), part.numbers, part.seeds)


def together(what: str, parts: Sequence[Part], rule: Callable[[Sequence[Answer]], Answer]) -> Part:
    """One part out of several."""
    run = [part for part in parts if part.answer != "not run"]
    numbers = f"{sum(part.answer == 'yes' for part in parts)} of {len(parts)} yes"
    answer = rule([part.answer for part in parts])
    return Part(what, answer, numbers, min((part.seeds for part in run), default=0), tuple(parts))


def every(answers: Sequence[Answer]) -> Answer:
    """yes where all are, no where one is no; not run where what would decide it is not."""
    if "no" in answers:
        return "no"
    if all(answer == "yes" for answer in answers):
        return "yes"
    return "not run" if "not run" in answers else "unknown"


def some(answers: Sequence[Answer]) -> Answer:
    """yes where one is, no where all are no."""
    return _opposite(every([_opposite(answer) for answer in answers]))


def at_least(number: int) -> Callable[[Sequence[Answer]], Answer]:
    """yes where so many are, no where so many can no longer be."""

    def rule(answers: Sequence[Answer]) -> Answer:
        if answers.count("yes") >= number:
            return "yes"
        if len(answers) - answers.count("no") < number:
            return "no"
        return "not run" if "not run" in answers else "unknown"

    return rule


def _opposite(answer: Answer) -> Answer:
    turned: dict[Answer, Answer] = {"yes": "no", "no": "yes"}
    return turned.get(answer, answer)


def _of_interval(what: str, interval: Interval, null: float, numbers: str, *scores: Scores) -> Part:
    seeds = min(each.seeds for each in scores)
    return Part(what, _answer(interval, null, seeds), numbers, seeds)


def _answer(interval: Interval, null: float, seeds: int) -> Answer:
    told: dict[str, Answer] = {"higher": "yes", "lower": "no"}
    return told.get(statistics.verdict(interval, seeds, null), "unknown")


def _drawn_means(scores: np.ndarray, how: Bootstrap, random: np.random.Generator) -> np.ndarray:
    draws = random.integers(scores.size, size=(how.resamples, scores.size))
    return np.asarray(scores[draws].mean(axis=1))


def _chance(interval: Interval) -> str:
    return f"{interval.estimate:.2f} [{interval.low:.2f}, {interval.high:.2f}]"


def _interval(interval: Interval) -> str:
    return f"{interval.estimate:.1f} [{interval.low:.1f}, {interval.high:.1f}]"


def _signed(interval: Interval) -> str:
    return f"{interval.estimate:+.1f} [{interval.low:+.1f}, {interval.high:+.1f}]"
