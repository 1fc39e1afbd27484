"""What the paper claims about its learning curves: Figure 1, Figure 2, and DDPGL's figure in the supplement."""

from collections.abc import Sequence

import numpy as np

from papd.results.paper_claims import Claim
from papd.results.paper_experiments import Cell
from papd.results.paper_scores import View
from papd.results.paper_verdicts import (
    Part,
    better,
    denied,
    every,
    infeasible,
    larger,
    more_spread,
    not_worse,
    pooled_better,
    some,
    together,
)

ADAPTIVE = {"invlin": "InvLin", "invqua": "InvQua"}
SMALL, MEDIUM, LARGE, LARGEST = 0.0001, 0.00025, 0.0005, 0.001
"""The constant rates of Figure 2."""


def _crossing(view: View) -> list[Part]:
    return [
        _better_held(view, 1.0, 0.0006, 0.0003),
        _better_held(view, 5.0, 0.0003, 0.0006),
    ]


def _better_held(view: View, held: float, ours: float, theirs: float) -> Part:
    cells = [view.scores(view.find(h1=rate, held=held)) for rate in (ours, theirs)]
    return better(f"λ = {held:g}: {ours:g} better than {theirs:g}", *cells)


def _red_is_infeasible(view: View) -> list[Part]:
    return [infeasible("λ = 1, 0.0003: infeasible", view.scores(view.find(h1=0.0003, held=1.0)))]


def _no_rate_for_all(view: View) -> list[Part]:
    return [
        together(
            f"{rate:g} is beaten by {other:g} at λ = 1 or at λ = 5",
            [_better_held(view, held, other, rate) for held in (1.0, 5.0)],
            some,
        )
        for rate, other in ((0.0003, 0.0006), (0.0006, 0.0003))
    ]


MOTIVATION = (
    Claim(
        "the best rate falls with λ",
        189,
        "as LM transitions from 1 to 5, the LR needs adjustment from 0.0006 to 0.0003 for optimal results (in terms of "
        "return and cost)",
        "λ = 1: runs of 0.0006 better than runs of 0.0003; λ = 5: the other way round.",
        _crossing,
    ),
    Claim(
        "no constant rate for both λ",
        189,
        "maintaining a consistent LR across varying LMs might lead to sub-optimal results",
        "Each of the two rates is beaten by the other one at some λ.",
        _no_rate_for_all,
    ),
    Claim(
        "0.0003 is infeasible at λ = 1",
        231,
        "LR = 0.0006 outperforms LR = 0.0003 at LM =1 (red curve is infeasible)",
        "λ = 1, rate 0.0003: the mean cost is above the limit.",
        _red_is_infeasible,
    ),
)


def _rate(view: View, env: str, rate: float) -> Cell | None:
    return view.find(env, "constant", h1=rate)


def _smallest_is_worst(view: View) -> list[Part]:
    parts = []
    for env in view.environments():
        smallest = _rate(view, env, SMALL)
        others = [cell for cell in view.cells(env) if cell is not smallest]
        beaten = [better(cell.rule, view.scores(cell), view.scores(smallest)) for cell in others]
        parts.append(together(f"{env}: every other rule better", beaten, every))
    return parts


def _smallest_is_stable(view: View) -> list[Part]:
    return [
        larger(
            f"{env}: {what} of {LARGEST:g} fluctuates more than of {SMALL:g}",
            *(view.values(_rate(view, env, rate), f"{what}_fluctuation") for rate in (LARGEST, SMALL)),
        )
        for env in view.environments()
        for what in ("return", "cost")
    ]


def _smallest_sacrifices(view: View) -> list[Part]:
    words = {"return_whole": "mean return over all of training", "return_mean": "final return"}
    return [
        larger(
            f"{env}: {what} of {MEDIUM:g} above that of {SMALL:g}",
            *(view.values(_rate(view, env, rate), column) for rate in (MEDIUM, SMALL)),
        )
        for column, what in words.items()
        for env in view.environments()
    ]


def _medium_is_better(view: View) -> list[Part]:
    return [_better_rate(view, env, MEDIUM, SMALL) for env in view.environments()]


def _better_rate(view: View, env: str, ours: float, theirs: float) -> Part:
    cells = [view.scores(_rate(view, env, rate)) for rate in (ours, theirs)]
    return better(f"{env}: {ours:g} better than {theirs:g}", *cells)


def _fluctuates_more(view: View, env: str, what: str, ours: float, theirs: float) -> Part:
    values = [view.values(_rate(view, env, rate), f"{what}_fluctuation") for rate in (ours, theirs)]
    return larger(f"{what} fluctuates more", *values)


def _ball_circle_at_large(view: View) -> list[Part]:
    unstable = [_fluctuates_more(view, "BallCircle", what, LARGE, MEDIUM) for what in ("return", "cost")]
    worse = _better_rate(view, "BallCircle", MEDIUM, LARGE)
    return [together(f"BallCircle at {LARGE:g}, beside {MEDIUM:g}", [*unstable, worse], some)]


def _largest_fluctuates_or_is_worse(view: View) -> list[Part]:
    parts = []
    for env in view.environments():
        both = [_fluctuates_more(view, env, what, LARGEST, LARGE) for what in ("return", "cost")]
        unstable = together("return and cost fluctuate more", both, every)
        worse = _better_rate(view, env, LARGE, LARGEST)
        parts.append(together(f"{env} at {LARGEST:g}, beside {LARGE:g}", [unstable, worse], some))
    return parts


def _beats_every_constant(view: View) -> list[Part]:
    return [
        together(
            f"{env}: {name} better than every constant",
            [
                better(cell.rule, view.scores(view.find(env, kind)), view.scores(cell))
                for cell in view.constants(env)
            ],
            every,
        )
        for env in ("BallCircle", "CarCircle")
        for kind, name in ADAPTIVE.items()
    ]


def _matches_best_constant(view: View, environments: Sequence[str]) -> list[Part]:
    parts = []
    for env in environments:
        best = view.best(view.constants(env))
        beside = f" ({best.rule})" if best else ""
        parts += [
            not_worse(
                f"{env}: {name} not worse than the best constant{beside}",
                view.scores(view.find(env, kind)),
                view.scores(best),
            )
            for kind, name in ADAPTIVE.items()
        ]
    return parts


def _better_over_all(view: View) -> list[Part]:
    environments = view.environments()
    return [
        pooled_better(
            f"{name} better than {rate.rule}",
            [view.scores(view.find(env, kind)) for env in environments],
            [view.scores(_rate(view, env, rate.config.h1 or 0.0)) for env in environments],
        )
        for kind, name in ADAPTIVE.items()
        for rate in view.constants(environments[0])
    ]


PPOL = (
    Claim(
        "0.0001 is the worst everywhere",
        797,
        "the smallest constant LR (LR = 0.0001) has the worst performance in all four environments",
        "In each environment every other rule is better than 0.0001.",
        _smallest_is_worst,
    ),
    Claim(
        "0.0001 trains stably",
        797,
        "Despite the stable training process",
        "In each environment return and cost fluctuate more (around a line over the last half of training) with 0.001 "
        "than with 0.0001.",
        _smallest_is_stable,
        of_curves=True,
    ),
    Claim(
        "0.0001 is slower and ends lower",
        797,
        "this LR makes significant sacrifices in both aspects of convergence rate and optimal value (return)",
        "In each environment the return of 0.00025 is higher, as a mean over all of training and at its end.",
        _smallest_sacrifices,
        of_curves=True,
    ),
    Claim(
        "0.00025 is better than 0.0001",
        797,
        "show a better performance achieved by LR = 0.00025",
        "In each environment 0.00025 is better than 0.0001.",
        _medium_is_better,
    ),
    Claim(
        "BallCircle suffers at 0.0005",
        797,
        "the training processes become more unstable (larger variance) and/or converge to a worse solution when "
        "LR = 0.0005 is selected",
        "In BallCircle, beside 0.00025: return fluctuates more, or cost does, or the result is worse.",
        _ball_circle_at_large,
        of_curves=True,
    ),
    Claim(
        "0.001 fluctuates or is worse",
        797,
        "until it reaches 0.001, all experiments exhibit either a significant fluctuation in return and cost, or in "
        "some cases, an even worse average performance compared to using a LR of 0.0005",
        "In each environment, beside 0.0005: return and cost both fluctuate more, or the result is worse.",
        _largest_fluctuates_or_is_worse,
        of_curves=True,
    ),
    Claim(
        "InvLin and InvQua win on Circle",
        799,
        "PAPD with InvLin and InvQua outperform all constant-LR cases in SafetyBallCircle-v0 and SafetyCarCircle-v0",
        "In both, each of the two rules is better than each of the four constants.",
        _beats_every_constant,
    ),
    Claim(
        "InvLin and InvQua match the best constant on Run",
        799,
        "achieve comparable performance in terms of return and cost with the best constant-LR trials in "
        "SafetyBallRun-v0 and SafetyCarRun-v0",
        "In both, return and violation of each of the two rules are within the margins of the best constant's, or "
        "better.",
        lambda view: _matches_best_constant(view, ("BallRun", "CarRun")),
    ),
    Claim(
        "PAPD outperforms constant rates",
        855,
        "Our experiments show that the PAPD algorithm outperforms the primal-dual algorithm with constant learning "
        "rates",
        "Over all environments, each of the two rules is better than each constant.",
        _better_over_all,
    ),
)


def _trends(view: View) -> list[Part]:
    small = [_better_rate(view, env, MEDIUM, SMALL) for env in view.environments()]
    return [*small, *_largest_fluctuates_or_is_worse(view)]


def _more_sensitive_than_ppol(view: View) -> list[Part]:
    ppol = view.other("ppol")
    parts = []
    for env in view.environments():
        ours = [_returns(view, cell) for cell in view.constants(env)]
        theirs = [_returns(ppol, cell) for cell in ppol.constants(env)] if ppol else [None]
        parts.append(
            more_spread(
                f"{env}: returns of the constants lie further apart with DDPGL than with PPOL", ours, theirs
            )
        )
    return parts


def _returns(view: View, cell: Cell) -> np.ndarray | None:
    scores = view.scores(cell)
    return None if scores is None else scores.returns


def _no_constant_for_all(view: View) -> list[Part]:
    parts = []
    for rate in [cell.config.h1 or 0.0 for cell in view.constants(view.environments()[0])]:
        fails = []
        for env in view.environments():
            own, best = _rate(view, env, rate), view.best(view.cells(env))
            mine = view.scores(own)
            fails.append(infeasible(f"{env} infeasible", mine))
            if best is not None and best is not own:
                fails.append(denied(not_worse(f"{env} worse than {best.rule}", mine, view.scores(best))))
        parts.append(together(f"{rate:g} fails in some environment", fails, some))
    return parts


DDPGL = (
    Claim(
        "InvLin and InvQua surpass or match the best constant",
        1376,
        "InvLin and InvQua surpasses or matches the best performance of all constant-LR cases",
        "In each environment, return and violation of each of the two rules are within the margins of the best "
        "constant's, or better.",
        lambda view: _matches_best_constant(view, view.environments()),
    ),
    Claim(
        "the trends over the rate are PPOL's",
        1376,
        "The similar trends on performance are observed when we change the LR",
        "In each environment 0.00025 is better than 0.0001; 0.001 fluctuates more than 0.0005 in return and cost, or "
        "is worse.",
        _trends,
        of_curves=True,
    ),
    Claim(
        "DDPGL is more sensitive to the rate than PPOL",
        1376,
        "DDPGL displays a heightened sensitivity to the LR when compared to PPOL",
        "In each environment the mean returns of the four constants have a larger standard deviation with DDPGL.",
        _more_sensitive_than_ppol,
    ),
    Claim(
        "no constant works everywhere",
        1376,
        "there is no constant-LR that can effectively operate across all environments",
        "Each constant is infeasible in some environment, or there worse than the best rule by more than the margins.",
        _no_constant_for_all,
    ),
)
