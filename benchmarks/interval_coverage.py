"""How often a 95% interval holds the truth, and how often equal methods are told apart, at a handful of runs.

    python benchmarks/interval_coverage.py

Each row draws many experiments of n runs from one distribution and counts, for rliable's percentile interval and for
papd's. The truth of a statistic at n runs is its own mean over experiments. Deterministic.
"""

from collections.abc import Callable

import numpy as np

from papd.results.statistics import (
    Bootstrap,
    Statistic,
    interquartile_mean,
    mean,
    probability_of_improvement,
    stratified_interval,
    verdict,
)

EXPERIMENTS = 1000
RUNS = (5, 10, 20)
HOW = {"rliable": Bootstrap(resamples=1000, small_sample=False), "papd": Bootstrap(resamples=1000)}

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def collapsing(random: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    """One run in five fails badly, as an unstable learning rate makes it."""
    return np.where(random.random(size) < 0.2, -8.0, 0.0) + random.normal(size=size)


DISTRIBUTIONS: dict[str, Draw] = {
    "normal": lambda random, size: random.normal(size=size),
    "heavy tails (t, 3)": lambda random, size: random.standard_t(3, size=size),
    "skewed (exponential)": lambda random, size: random.exponential(size=size),
    "one in five collapses": collapsing,
}
STATISTICS: dict[str, Statistic] = {"mean": mean, "IQM": interquartile_mean}


def coverage(draw: Draw, statistic: Statistic, runs: int, how: Bootstrap) -> float:
    """The share of experiments whose interval holds the expected value of the statistic."""
    random = np.random.default_rng(runs)
    truth = statistic(draw(random, (200_000, runs))).mean()
    found = (stratified_interval([draw(random, (runs,))], statistic, how) for _ in range(EXPERIMENTS))
    return sum(interval.low <= truth <= interval.high for interval in found) / EXPERIMENTS


def false_verdicts(draw: Draw, runs: int, how: Bootstrap) -> float:
    """The share of experiments in which two equal methods get a verdict from their probability of improvement."""
    random = np.random.default_rng(runs)
    told = 0
    for _ in range(EXPERIMENTS):
        interval = probability_of_improvement([draw(random, (runs,))], [draw(random, (runs,))], how)
        told += verdict(interval, runs, null=0.5) in ("higher", "lower")
    return told / EXPERIMENTS


def main() -> None:
    """Print the tables of docs/statistics.md."""
    print(f"Coverage of 95% intervals, {EXPERIMENTS} experiments a cell\n")
    print("| runs | scores | statistic | rliable | papd |\n| ---: | --- | --- | ---: | ---: |")
    for runs in RUNS:
        for name, draw in DISTRIBUTIONS.items():
            for statistic_name, statistic in STATISTICS.items():
                cells = [f"{coverage(draw, statistic, runs, how):.1%}" for how in HOW.values()]
                print(f"| {runs} | {name} | {statistic_name} | {' | '.join(cells)} |", flush=True)
    print(f"\nEqual methods told apart, {EXPERIMENTS} experiments a cell\n")
    print("| runs | scores | rliable | papd |\n| ---: | --- | ---: | ---: |")
    for runs in RUNS:
        for name, draw in DISTRIBUTIONS.items():
            cells = [f"{false_verdicts(draw, runs, how):.1%}" for how in HOW.values()]
            print(f"| {runs} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
