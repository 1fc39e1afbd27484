"""The tables of the paper's pages, as Markdown: the paper's numbers beside ours, and statistics."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from papd.results import statistics, tables
from papd.results.paper_claims_tables import BLOCKS, RULES
from papd.results.paper_experiments import Cell
from papd.results.paper_published import Row, published, row_of
from papd.results.paper_scores import Reading, Results, View
from papd.results.paper_verdicts import Scores
from papd.results.statistics import Interval

NOT_FEASIBLE = "†"
"""Behind a mean cost above the limit."""


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A table; the first ``left`` columns are flush left, the others right."""
    rule = ["---" if place < left else "---:" for place in range(len(head))]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in row) + " |" for row in (head, rule, *rows))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def side_by_side(results: Results, readings: Sequence[Reading]) -> str:
    """Return / cost of every cell: the paper's numbers, where it has some, and ours."""
    table = results.plan.name
    theirs = {cell.name: row_of(table, cell) for cell in results.plan.cells}
    is_printed = any(theirs.values())
    head = ["case", *(["paper"] if is_printed else []), *(reading.title for reading in readings)]
    rows = []
    for cell in results.plan.cells:
        row = theirs[cell.name]
        printed = [] if not is_printed else ["-" if row is None else _printed(row, results.plan.limit)]
        ours = [_ours(results.scores(cell, reading)) for reading in readings]
        rows.append([cell.label, *printed, *ours])
    return markdown(head, rows)


def _printed(row: Row, limit: float) -> str:
    cost = _mark(row["cost"], limit)
    text = f"{row['return']:.1f} ± {row['return_deviation']:.1f} / {cost} ± {row['cost_deviation']:.1f}"
    return f"**{text}**" if row["bold"] else text


def _ours(scores: Scores | None) -> str:
    if scores is None:
        return "not run"
    returns, costs = statistics.spread(scores.returns), statistics.spread(scores.costs)
    cost = f"{_mark(costs.mean, scores.limit)} ± {_plain(costs.deviation)}"
    return f"{returns.mean:.1f} ± {_plain(returns.deviation)} / {cost}"


def _mark(cost: float, limit: float) -> str:
    return f"{cost:.1f}{NOT_FEASIBLE if cost > limit else ''}"


def robust_statistics(results: Results, reading: Reading) -> str:
    """Interquartile means with their intervals, and the feasibility-aware score, of every cell."""
    head = ["case", "runs", "return, IQM", "cost, IQM", "return, min to max", "cost, min to max"]
    head += ["feasible", "return of feasible", "violation of others"]
    rows = []
    for cell in results.plan.cells:
        scores = results.scores(cell, reading)
        if scores is None:
            continue
        score = statistics.feasibility(scores.returns, scores.violations)
        rows.append(
            [
                cell.label,
                str(scores.seeds),
                *(
                    interval(statistics.stratified_interval([each]))
                    for each in (scores.returns, scores.costs)
                ),
                *(f"{each.min():.1f} to {each.max():.1f}" for each in (scores.returns, scores.costs)),
                f"{round(score.share * score.runs)} of {score.runs}",
                _plain(score.feasible_return),
                "-" if score.share == 1.0 else _plain(score.violation),
            ]
        )
    return markdown(head, rows)


def over_environments(results: Results, reading: Reading) -> str:
    """Every rule over all environments: IQM of return and cost with stratified intervals; feasibility."""
    view = View(results, reading)
    tasks = {rule: _tasks(view, rule) for rule in dict.fromkeys(cell.rule for cell in results.plan.cells)}
    whole = {rule: cells for rule, cells in tasks.items() if all(scores is not None for scores in cells)}
    best = (
        [max(_mean(cells[place]) for cells in whole.values()) for place in range(len(view.environments()))]
        if whole
        else []
    )
    rows = []
    for rule, cells in whole.items():
        known = [scores for scores in cells if scores is not None]
        returns = [
            statistics.normalised(scores.returns, 0.0, top) for scores, top in zip(known, best, strict=True)
        ]
        costs = [scores.costs / scores.limit for scores in known]
        shares = [float((scores.violations <= 0.0).mean()) for scores in known]
        rows.append(
            [
                rule,
                interval(statistics.stratified_interval(returns), 3),
                interval(statistics.stratified_interval(costs), 2),
                f"{np.mean(shares):.0%}",
            ]
        )
    return markdown(["rule", "return / best mean, IQM", "cost / limit, IQM", "runs feasible"], rows)


def _tasks(view: View, rule: str) -> list[Scores | None]:
    cells = {cell.env: cell for cell in view.results.plan.cells if cell.rule == rule}
    return [view.scores(cells.get(env)) for env in view.environments()]


def _mean(scores: Scores | None) -> float:
    return -math.inf if scores is None else float(scores.returns.mean())


def improvements(results: Results, reading: Reading) -> str:
    """P(better), feasible first, of each adaptive rule over every other rule, over the environments both have."""
    final = final_frame(results, reading)
    adaptive = [rule for rule in final["rule"].drop_duplicates() if not rule.startswith("constant")]
    rows = []
    for place, rule in enumerate(adaptive):
        table = tables.comparisons(final, "rule", "env", against=rule)
        for row in table.to_dict("records"):
            if row["method"] in adaptive[:place]:
                continue
            turned = Interval(*(1.0 - row[f"improvement{end}"] for end in ("", "_high", "_low")))
            told = {"better": "worse", "worse": "better"}.get(row["verdict"], row["verdict"])
            rows.append([rule, row["method"], str(row["tasks"]), interval(turned, 2), told])
    return markdown(["rule", "against", "environments", "P(better)", "verdict"], rows, left=2)


def final_frame(results: Results, reading: Reading) -> pd.DataFrame:
    """One row a run, as :func:`papd.results.tables.comparisons` takes them."""
    rows = []
    for cell in results.plan.cells:
        scores = results.scores(cell, reading)
        if scores is not None:
            own = {"return_mean": scores.returns, "cost_mean": scores.costs, "violation": scores.violations}
            rows.append(pd.DataFrame(own).assign(rule=cell.rule, env=cell.env))
    return pd.concat(rows, ignore_index=True)


def summary_of_blocks(results: Results, readings: Sequence[Reading]) -> str:
    """The paper's Table 3: the best block of each rule, and mean ± standard deviation of the blocks' means."""
    printed = {row["rule"]: row for row in published()["robust-h1-summary"]["rows"]}
    rows = [
        [
            RULES[kind],
            "paper",
            f"{row['best_return']:.1f} / {row['best_cost']:.1f}",
            f"{row['return']:.1f} ± {row['return_deviation']:.1f}",
            f"{row['cost']:.1f} ± {row['cost_deviation']:.1f}",
        ]
        for kind, row in printed.items()
    ]
    for reading in readings:
        rows += [_summary_row(View(results, reading), kind) for kind in RULES]
    return markdown(["rule", "where", "best block", "return over blocks", "cost over blocks"], rows, left=2)


def _summary_row(view: View, kind: str) -> list[str]:
    cells = view.cells(kind=kind)
    scored = [scores for cell in cells if (scores := view.scores(cell)) is not None]
    best = view.best(cells)
    if len(scored) < len(BLOCKS) or best is None:
        return [RULES[kind], view.reading.title, *["not run"] * 3]
    overall = []
    for means in ([s.returns.mean() for s in scored], [s.costs.mean() for s in scored]):
        spread = statistics.spread(np.array(means))
        overall.append(f"{spread.mean:.1f} ± {spread.deviation:.1f}")
    top = view.scores(best)
    assert top is not None
    shown = f"×{best.factor:g}: {top.returns.mean():.1f} / {_mark(top.costs.mean(), top.limit)}"
    return [RULES[kind], view.reading.title, shown, *overall]


def running_times(results: Results, readings: Sequence[Reading]) -> str:
    """The paper's Table 1 and ours: seconds of a whole run, and seconds for a million steps."""
    environments = View(results, readings[0]).environments() if readings else []
    rules = list(dict.fromkeys(cell.rule for cell in results.plan.cells))
    rows = [
        [rule, "paper, s a run", *(_paper_time(results, rule, env) for env in environments)] for rule in rules
    ]
    for reading in readings:
        view = View(results, reading)
        title = f"ours on {reading.title}, s for 1M steps"
        rows += [
            [rule, title, *(_time(view, _cell_of(results, rule, env)) for env in environments)]
            for rule in rules
        ]
    return markdown(["rule", "where", *environments], rows, left=2)


def _cell_of(results: Results, rule: str, env: str) -> Cell | None:
    return next((cell for cell in results.plan.cells if (cell.rule, cell.env) == (rule, env)), None)


def _paper_time(results: Results, rule: str, env: str) -> str:
    cell = _cell_of(results, rule, env)
    row = None if cell is None else row_of("runtime", cell)
    return "-" if row is None else f"{row['mean']:.1f} ± {row['deviation']:.1f}"


def _time(view: View, cell: Cell | None) -> str:
    values = view.values(cell, "per_million")
    if values is None:
        return "not run"
    spread = statistics.spread(values)
    return f"{spread.mean:.1f} ± {_plain(spread.deviation)} ({spread.runs})"


def interval(value: Interval, digits: int = 1) -> str:
    """``564.1 [560.2, 567.9]``, the estimate alone where one run gives no interval."""
    if math.isnan(value.low):
        return f"{value.estimate:.{digits}f}"
    return f"{value.estimate:.{digits}f} [{value.low:.{digits}f}, {value.high:.{digits}f}]"


def _plain(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.1f}"
