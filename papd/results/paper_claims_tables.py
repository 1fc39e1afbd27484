"""What the paper claims about its tables: running time (1), robustness to H1 (2 and 3), robustness to H2 (4)."""

import numpy as np

from papd.results.paper_claims import Claim
from papd.results.paper_claims_curves import ADAPTIVE
from papd.results.paper_experiments import Cell
from papd.results.paper_scores import View
from papd.results.paper_verdicts import (
    Part,
    Scores,
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

RULES = {"constant": "constant", **ADAPTIVE}

BLOCKS = (1.0, 0.2, 0.32, 0.4, 1.6, 2.4, 3.2, 4.0)
"""The factors in the order in which the paper counts its blocks."""

INVLIN_BEST = (1.0, 0.2, 1.6)
"""The first, the second and the fifth block."""


def _same_times(view: View) -> list[Part]:
    parts = []
    for env in view.environments():
        constants = [view.values(cell, "seconds") for cell in view.constants(env)]
        known = [each for each in constants if each is not None]
        theirs = np.concatenate(known) if len(known) == len(constants) and known else None
        parts += [
            same_time(
                f"{env}: {name} beside the constants", view.values(view.find(env, kind), "seconds"), theirs
            )
            for kind, name in ADAPTIVE.items()
        ]
    return parts


RUNTIME = (
    Claim(
        "no substantial difference in time",
        799,
        "unveils the absence of substantial difference in running time between our PAPD algorithm and the constant-LR "
        "baselines",
        "In each environment the time of each of the two rules is within 15% of the constants' mean time.",
        _same_times,
        of_curves=True,
    ),
)


def _block(view: View, factor: float) -> dict[str, Scores | None]:
    return {kind: view.scores(view.find(kind=kind, factor=factor)) for kind in RULES}


def _winners(view: View) -> list[Part]:
    parts = []
    for number, factor in enumerate(BLOCKS, 1):
        block, best = _block(view, factor), "invlin" if factor in INVLIN_BEST else "invqua"
        beaten = [better(f"than {RULES[k]}", block[best], block[k]) for k in RULES if k != best]
        parts.append(together(f"block {number} (×{factor:g}): {RULES[best]} best", beaten, every))
    return parts


def _fifth_is_infeasible(view: View) -> list[Part]:
    return [infeasible(f"×1.6 {RULES[kind]}", scores) for kind, scores in _block(view, 1.6).items()]


def _fifth_goes_to_invlin(view: View) -> list[Part]:
    block = _block(view, 1.6)
    costs = {kind: None if scores is None else scores.violations for kind, scores in block.items()}
    smallest = [
        larger(f"violation of {RULES[kind]} larger than InvLin's", costs[kind], costs["invlin"])
        for kind in ("constant", "invqua")
    ]
    comparable = not_worse("InvLin not worse than InvQua", block["invlin"], block["invqua"])
    return [*smallest, comparable]


def _in_each(view: View, kind: str) -> list[Scores | None]:
    return [view.scores(view.find(kind=kind, factor=factor)) for factor in BLOCKS]


def _wide_range(view: View) -> list[Part]:
    blocks = [_block(view, factor) for factor in BLOCKS]
    parts = []
    for kind, name in ADAPTIVE.items():
        wins = [
            better(f"×{factor:g}", block[kind], block["constant"])
            for factor, block in zip(BLOCKS, blocks, strict=True)
        ]
        most = len(BLOCKS) // 2 + 1
        parts.append(
            together(f"{name} better than the constant in at least {most} blocks", wins, at_least(most))
        )
        constant = _in_each(view, "constant")
        parts.append(
            pooled_better(f"{name} better than the constant over all blocks", _in_each(view, kind), constant)
        )
    return parts


def _all_attain_feasible(view: View) -> list[Part]:
    return [
        together(
            f"{name} feasible for some factor",
            [denied(infeasible(f"×{f:g}", s)) for f, s in zip(BLOCKS, _in_each(view, kind), strict=True)],
            some,
        )
        for kind, name in RULES.items()
    ]


def _best_is_invqua(view: View) -> list[Part]:
    best = {kind: view.best(view.cells(kind=kind)) for kind in RULES}
    ours = best["invqua"]
    return [
        better(
            f"best of InvQua ({ours.label if ours else '-'}) better than best of {RULES[kind]} "
            f"({theirs.label if theirs else '-'})",
            view.scores(ours),
            view.scores(theirs),
        )
        for kind, theirs in best.items()
        if kind != "invqua"
    ]


def _overall_is_invqua(view: View) -> list[Part]:
    return [
        pooled_better(
            f"InvQua better than {RULES[kind]} over all blocks",
            _in_each(view, "invqua"),
            _in_each(view, kind),
        )
        for kind in ("constant", "invlin")
    ]


def _constant_is_more_spread(view: View) -> list[Part]:
    return [
        more_spread(
            f"{what}: constant over blocks more spread than {name}",
            _numbers(_in_each(view, "constant"), what),
            _numbers(_in_each(view, kind), what),
        )
        for what in ("return", "cost")
        for kind, name in ADAPTIVE.items()
    ]


def _numbers(cells: list[Scores | None], what: str) -> list[np.ndarray | None]:
    return [None if s is None else (s.returns if what == "return" else s.costs) for s in cells]


ROBUST_H1 = (
    Claim(
        "who wins each block",
        844,
        "InvLin achieves the best performance in the first, second, and fifth blocks, while InvQua stands out as the "
        "epitome of exceptional performance in the rest of blocks",
        "In each block the named rule is better than both others.",
        _winners,
    ),
    Claim(
        "all are infeasible at ×1.6",
        845,
        "The fifth block is the specialty, where all three cases are infeasible",
        "At ×1.6 the mean cost of each rule is above the limit.",
        _fifth_is_infeasible,
    ),
    Claim(
        "InvLin is best at ×1.6",
        845,
        "InvLin is selected to be the best due to the smallest constraint violations and almost the largest return",
        "At ×1.6 InvLin's violation is smaller than the others', and it is not worse than InvQua.",
        _fifth_goes_to_invlin,
    ),
    Claim(
        "better in a wide range of H1",
        845,
        "our proposed InvLin and InvQua outperform the constant LR in a wide range of values",
        "Each of the two rules is better than the constant of the same factor in at least five of eight blocks, and "
        "over all blocks.",
        _wide_range,
    ),
    Claim(
        "each rule attains a feasible solution",
        848,
        "All of them attain feasible solutions",
        "Each rule has a factor at which its mean cost is within the limit.",
        _all_attain_feasible,
    ),
    Claim(
        "InvQua's best is the best",
        848,
        "with InvQua emerging as the optimal choice by achieving return=542.24, cost=8.28",
        "The best factor of InvQua (by means, feasible first) is better than the best of the others.",
        _best_is_invqua,
    ),
    Claim(
        "InvQua is best overall",
        848,
        'the best "overall performance", i.e., the best overall return-cost pair goes to InvQua again',
        "Over all blocks InvQua is better than each of the others.",
        _overall_is_invqua,
    ),
    Claim(
        "the constant varies more over H1",
        848,
        "InvLin and InvQua yield smaller standard deviation than the constant LR case in terms of both return and cost",
        "The standard deviation of the eight means, of return and of cost, is larger for the constant.",
        _constant_is_more_spread,
    ),
)

H2_FACTORS = (0.8, 0.9, 1.1, 1.2)


def _keeps(view: View, kind: str, factor: float) -> Part:
    name = f"{RULES[kind]} ×{factor:g} not worse than ×1"
    scores = [view.scores(view.find(kind=kind, factor=each)) for each in (factor, 1.0)]
    return not_worse(name, *scores)


def _three_of_four(view: View) -> list[Part]:
    return [
        together(
            f"{name}: at least three of the four factors keep the performance of ×1",
            [_keeps(view, kind, factor) for factor in H2_FACTORS],
            at_least(3),
        )
        for kind, name in ADAPTIVE.items()
    ]


def _small_loss(view: View) -> list[Part]:
    parts = []
    for kind, name in ADAPTIVE.items():
        cells = [view.find(kind=kind, factor=factor) for factor in H2_FACTORS]
        known = [cell for cell in cells if cell is not None and view.scores(cell) is not None]
        worst = min(known, key=lambda cell: _mean_return(view, cell), default=None)
        whole = worst is not None and len(known) == len(H2_FACTORS)
        parts.append(
            not_worse(
                f"{name}: its lowest return ({worst.label if worst else '-'}) not worse than ×1",
                view.scores(worst) if whole else None,
                view.scores(view.find(kind=kind, factor=1.0)),
            )
        )
    return parts


def _mean_return(view: View, cell: Cell) -> float:
    scores = view.scores(cell)
    return float(scores.returns.mean()) if scores else float("nan")


def _invqua_is_more_sensitive(view: View) -> list[Part]:
    parts = []
    for what in ("return", "cost"):
        invqua, invlin = (
            _numbers([view.scores(view.find(kind=kind, factor=f)) for f in (*H2_FACTORS, 1.0)], what)
            for kind in ("invqua", "invlin")
        )
        parts.append(more_spread(f"{what}: InvQua's means over H2 more spread than InvLin's", invqua, invlin))
    return parts


ROBUST_H2 = (
    Claim(
        "performance is kept for three of four H2",
        850,
        "we maintain the satisfactory performance in three of the blocks",
        "For at least three of the four factors, return and violation are within the margins of the unscaled rule's, "
        "or better; for each of the two rules.",
        _three_of_four,
    ),
    Claim(
        "the worst H2 costs little",
        850,
        "encounter small loss in the worst case while changing H_2 (H_2')",
        "The factor with the lowest mean return is within the margins of the unscaled rule; for each of the two rules.",
        _small_loss,
    ),
    Claim(
        "InvQua is more sensitive to H2'",
        850,
        "InvQua shows larger sensitivity to H_2'",
        "The means over the five values of H2', of return and of cost, have a larger standard deviation than InvLin's.",
        _invqua_is_more_sensitive,
    ),
)
