"""How a sentence of the paper gets its verdict: each answer of each question, and each word."""

import numpy as np
import pytest

from papd.results.paper_verdicts import (
    Answer,
    Part,
    Scores,
    Verdict,
    at_least,
    better,
    denied,
    every,
    infeasible,
    larger,
    more_spread,
    not_worse,
    pooled_better,
    same_time,
    some,
    together,
)

NOISE = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])


def scores(value: float, cost: float, runs: int = 5) -> Scores:
    return Scores(value + NOISE[:runs], cost + 0.1 * NOISE[:runs], 10.0)


def verdict(*answers: Answer, seeds: int = 5) -> Verdict:
    return Verdict(tuple(Part("x", answer, "", seeds) for answer in answers))


@pytest.mark.parametrize(
    ("answers", "word", "shown"),
    [
        (("yes", "yes"), "holds", "holds"),
        (("yes", "unknown"), "holds partly", "holds partly (1 yes, 1 cannot be told)"),
        (("yes", "no"), "holds partly", "holds partly (1 yes, 1 no)"),
        (("yes", "not run"), "not run in full", "not run in full (1 yes, 1 not run)"),
        (("no", "not run"), "not run in full", "not run in full (1 no, 1 not run)"),
        (("yes", "no", "not run"), "holds partly", "holds partly (1 yes, 1 no, 1 not run)"),
        (("no", "no"), "does not hold", "does not hold"),
        (("no", "unknown"), "does not hold", "does not hold (1 no, 1 cannot be told)"),
        (("unknown", "unknown"), "cannot be told at 5 seeds", "cannot be told at 5 seeds"),
        (("not run", "not run"), "not run", "not run"),
        ((), "not run", "not run"),
    ],
)
def test_every_word_is_reached(answers: tuple[Answer, ...], word: str, shown: str) -> None:
    assert verdict(*answers).word == word
    assert str(verdict(*answers)) == shown


def test_the_fewest_seeds_are_told_of_parts_that_were_run() -> None:
    parts = (Part("a", "unknown", "", 5), Part("b", "unknown", "", 1))
    assert Verdict(parts).word == "cannot be told at 1 seed"
    assert Verdict((*parts, Part("c", "not run"))).seeds == 1


def test_feasible_first_decides_what_is_better() -> None:
    safe, greedy = scores(400.0, 9.0), scores(500.0, 12.0)
    assert better("", safe, greedy).answer == "yes"
    assert better("", greedy, safe).answer == "no"
    assert better("", safe, Scores(safe.returns[::-1], safe.costs, 10.0)).answer == "unknown"
    assert better("", safe, None) == Part("", "not run")
    assert better("", safe, greedy).numbers == "P(better) 1.00 [1.00, 1.00]"
    assert better("", scores(400.0, 9.0, 1), scores(300.0, 9.0, 1)).answer == "unknown"


def test_tasks_are_pooled_as_far_as_both_were_run() -> None:
    high, low = scores(400.0, 9.0), scores(300.0, 9.0)
    assert pooled_better("", [high, low], [low, None]).numbers.endswith("over 1")
    assert pooled_better("", [high, low], [low, high]).answer == "unknown"
    assert pooled_better("", [high, high], [low, low]).answer == "yes"
    assert pooled_better("", [None], [low]).answer == "not run"


def test_a_mean_cost_beside_its_limit() -> None:
    assert infeasible("", scores(1.0, 12.0)).answer == "yes"
    assert infeasible("", scores(1.0, 8.0)).answer == "no"
    assert infeasible("", scores(1.0, 10.0)).answer == "unknown"
    assert infeasible("", None).answer == "not run"


@pytest.mark.parametrize(
    ("ours", "theirs", "answer"),
    [
        ((500.0, 9.0), (500.0, 9.0), "yes"),
        ((480.0, 9.0), (500.0, 9.0), "yes"),  # 4% below: within 5%
        ((460.0, 9.0), (500.0, 9.0), "no"),
        ((500.0, 12.0), (500.0, 9.0), "no"),  # 2 more violation: above 10% of the limit
        ((475.0, 9.0), (500.0, 9.0), "unknown"),
        ((500.0, 12.0), (500.0, 14.0), "yes"),
        ((460.0, 9.0), (500.0, 30.0), "no"),  # asks for both return and violation
    ],
)
def test_comparable_within_the_margins(
    ours: tuple[float, float], theirs: tuple[float, float], answer: Answer
) -> None:
    assert not_worse("", scores(*ours), scores(*theirs)).answer == answer


def test_running_times_within_their_margin() -> None:
    seconds = 100.0 + NOISE
    assert same_time("", seconds, seconds * 1.1).answer == "yes"
    assert same_time("", seconds, seconds * 1.3).answer == "no"
    assert same_time("", seconds * 1.3, seconds).answer == "no"
    assert same_time("", 100.0 + 40.0 * NOISE, seconds * 1.1).answer == "unknown"
    assert same_time("", None, seconds).answer == "not run"
    assert same_time("", seconds, seconds).numbers == "ratio 1.00 [0.99, 1.01]"


def test_more_of_a_number() -> None:
    assert larger("", NOISE + 10.0, NOISE).answer == "yes"
    assert larger("", NOISE, NOISE + 10.0).answer == "no"
    assert larger("", NOISE, NOISE).answer == "unknown"
    assert larger("", NOISE, np.zeros(0)).answer == "not run"


def test_cells_that_lie_further_apart() -> None:
    apart, close = [NOISE, NOISE + 100.0, NOISE + 200.0], [NOISE, NOISE + 1.0, NOISE + 2.0]
    assert more_spread("", apart, close).answer == "yes"
    assert more_spread("", close, apart).answer == "no"
    assert more_spread("", close, close).answer == "unknown"
    assert more_spread("", [*apart, None], close).answer == "not run"
    assert more_spread("", apart, close).numbers.startswith("100.00 and 1.00, difference +99.0")


RULES: list[tuple[str, list[Answer], Answer]] = [
    ("every", ["yes", "yes"], "yes"),
    ("every", ["yes", "unknown"], "unknown"),
    ("every", ["no", "not run"], "no"),
    ("every", ["yes", "not run"], "not run"),
    ("some", ["yes", "not run"], "yes"),
    ("some", ["no", "no"], "no"),
    ("some", ["no", "unknown"], "unknown"),
    ("some", ["no", "not run"], "not run"),
    ("two", ["yes", "yes", "no"], "yes"),
    ("two", ["yes", "no", "no"], "no"),
    ("two", ["yes", "unknown", "no"], "unknown"),
    ("two", ["yes", "not run", "no"], "not run"),
]


@pytest.mark.parametrize(("rule", "answers", "answer"), RULES)
def test_parts_come_together(rule: str, answers: list[Answer], answer: Answer) -> None:
    how = {"every": every, "some": some, "two": at_least(2)}[rule]
    whole = together("whole", [Part("x", each, "", 5) for each in answers], how)
    assert whole.answer == answer
    assert [part.answer for part in whole.parts] == answers
    assert whole.numbers == f"{answers.count('yes')} of {len(answers)} yes"


def test_the_opposite() -> None:
    assert [denied(Part("x", each)).answer for each in ("yes", "no", "unknown", "not run")] == [
        "no",
        "yes",
        "unknown",
        "not run",
    ]
