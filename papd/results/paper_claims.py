"""The paper's claims about its experiments, sentence by sentence, and how each is put to the runs.

A claim quotes the paper, says in which parts it is asked, and asks them of a :class:`View`: one experiment read in one
way. docs/reproduction.md tells the margins.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from papd.results.paper_scores import Reading, Results, View
from papd.results.paper_verdicts import Part, Verdict

Judge = Callable[[View], Sequence[Part]]


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper, or a part of one."""

    name: str
    """A few words for a table."""
    line: int
    """Where it stands in paper.tex."""
    quote: str
    """In the paper's words, without its TeX."""
    asked: str
    """What is asked of the runs."""
    judge: Judge
    of_curves: bool = False
    """Whether it is about training, so that final policies say nothing about it."""


class Judged(NamedTuple):
    """A claim and its verdict in each reading, by the reading's name."""

    claim: Claim
    verdicts: dict[str, Verdict]


def judge(claims: Sequence[Claim], results: Results, readings: Sequence[Reading]) -> list[Judged]:
    """Every claim in every reading that it is about."""
    return [
        Judged(
            claim,
            {
                reading.name: Verdict(tuple(claim.judge(View(results, reading))))
                for reading in readings
                if not (claim.of_curves and reading.kind == "policy")
            },
        )
        for claim in claims
    ]


def claims_of(experiment: str) -> tuple[Claim, ...]:
    """The claims that an experiment of the paper is there for."""
    from papd.results import paper_claims_curves as curves
    from papd.results import paper_claims_tables as tables

    return {
        "motivation": curves.MOTIVATION,
        "ppol": curves.PPOL,
        "ddpgl": curves.DDPGL,
        "runtime": tables.RUNTIME,
        "robust-h1": tables.ROBUST_H1,
        "robust-h2": tables.ROBUST_H2,
    }[experiment]
