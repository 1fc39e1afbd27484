"""The paper, regenerated: run what is missing, play the twins' policies in Bullet, measure, draw, judge.

    from papd.results.paper import Request, run_paper
    run_paper(["ppol"], Request(backend="twin"))

Runs lie in a store and are not kept for long; what is kept is a folder of results: for each experiment two small
tables of metrics, figures, and a page. A run whose row stands there is not run again.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from papd.errors import ConfigError
from papd.results.paper_bullet import evaluate_in_bullet
from papd.results.paper_claims import Judged, claims_of, judge
from papd.results.paper_data import CURVES, Data, read_data, update_data
from papd.results.paper_experiments import EXPERIMENTS, SPECS, Experiment, Plan, choose, make_plan, run_name
from papd.results.paper_figures import draw
from papd.results.paper_page import write_index, write_page
from papd.results.paper_scores import Results
from papd.results.paper_store import missing, run_missing, stored_runs, wanted
from papd.results.paper_time import counting, read_times, time_runs
from papd.runs.config import Backend, RunConfig
from papd.runs.sweep import Engine, SweepResult

RESULTS, STORE = Path("results"), Path("runs/paper")

EPISODES = 50
"""Episodes of each final policy."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """How the paper's experiments are to be run."""

    backend: Backend = "twin"
    seeds: int | None = None
    """How many; as many as each spec says by default."""
    steps: int | None = None
    """Another number for every run, for trying things out."""
    engine: Engine = "local"
    workers: int | None = None
    episodes: int = EPISODES
    resume: bool = False
    """Go on with runs that were begun."""
    run: bool = True
    """False only measures, draws and judges what is there."""
    afresh: bool = False
    """Run also what the results have rows of already."""
    specs: Path = SPECS
    store: Path = STORE
    out: Path = RESULTS
    quiet: bool = False
    command: Sequence[str] = ("papd.results.paper.run_paper",)

    def __post_init__(self) -> None:
        for name in ("seeds", "steps", "workers", "episodes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name}={value}: {name} must be a whole number >= 1")
        if self.steps is not None and self.out == RESULTS:
            raise ConfigError(
                "--steps is for trying things out: keep that out of results/ with another --out"
            )


@dataclass
class Outcome:
    """What was done."""

    begun: float = field(default_factory=time.monotonic)
    sweep: SweepResult | None = None
    known: int = 0
    """Runs that were asked for and had a row already."""
    timed: int = 0
    played: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    """How long each stage took."""
    told: dict[str, tuple[Results, list[Judged]]] = field(default_factory=dict)
    """The experiments that were drawn and judged."""

    def mark(self, stage: str) -> None:
        """A stage is over."""
        self.seconds[stage] = round(time.monotonic() - self.begun - sum(self.seconds.values()), 1)

    @property
    def signal(self) -> int | None:
        """The signal that stopped the runs, if one did."""
        return self.sweep.signal if self.sweep else None

    @property
    def complete(self) -> bool:
        """Whether no run failed or was stopped."""
        return self.sweep is None or self.sweep.finished

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "runs": self.sweep.to_json() if self.sweep else None,
            "known": self.known,
            "timed": self.timed,
            "played": self.played,
            "seconds": self.seconds,
            "experiments": {
                name: [_claim_json(each) for each in judged] for name, (_, judged) in self.told.items()
            },
        }


def _claim_json(judged: Judged) -> dict[str, Any]:
    claim = judged.claim
    return {
        "claim": claim.name,
        "line": claim.line,
        "quote": claim.quote,
        "asked": claim.asked,
        "verdicts": {
            reading: {"verdict": verdict.word, "parts": [asdict(part) for part in verdict.parts]}
            for reading, verdict in judged.verdicts.items()
        },
    }


def run_paper(names: Sequence[str], request: Request, say: Say) -> Outcome:
    """Run the experiments of these names (all for none) as far as they are not, and bring their results up to date."""
    plans = [
        make_plan(each, request.specs, seeds=request.seeds, steps=request.steps) for each in choose(names)
    ]
    outcome = Outcome()
    if request.run:
        _run(plans, request, outcome, say)
    if outcome.signal is not None:
        return outcome
    _measure(plans, request, outcome, say)
    _tell(plans, request, outcome)
    return outcome


def _run(plans: Sequence[Plan], request: Request, outcome: Outcome, say: Say) -> None:
    for plan in plans:
        if plan.experiment.timed:
            outcome.timed += time_runs(
                request.out, plan, request.backend, afresh=request.afresh, workers=request.workers, say=say
            )
    untimed = [plan for plan in plans if not plan.experiment.timed]
    runs = wanted(untimed, request.backend, request.episodes)
    todo = runs if request.afresh else _without_rows(untimed, request, runs)
    outcome.known = len(runs) - len(todo)
    if left := missing(request.store, todo, resume=request.resume):
        say(f"{len(left)} of {len(runs)} runs to do, in {request.store}")
        outcome.sweep = run_missing(
            request.store,
            left,
            engine=request.engine,
            workers=request.workers,
            quiet=request.quiet,
            command=request.command,
        )
    outcome.mark("run")


def _without_rows(
    plans: Sequence[Plan], request: Request, runs: dict[str, RunConfig]
) -> dict[str, RunConfig]:
    """The runs that the results do not have a row of, with as many episodes of the final policy."""
    done = set()
    for plan in plans:
        rows = read_data(request.out, plan).runs
        rows = rows[rows["policy_episodes"].astype(float) >= request.episodes]
        done |= {
            run_name(cell, backend, int(seed))
            for cell, backend, seed in zip(rows["cell"], rows["backend"], rows["seed"], strict=True)
        }
    return {name: config for name, config in runs.items() if name not in done}


def _measure(plans: Sequence[Plan], request: Request, outcome: Outcome, say: Say) -> None:
    untimed = [plan for plan in plans if not plan.experiment.timed]
    stored = stored_runs(request.store, untimed)
    outcome.played = evaluate_in_bullet(stored, request.episodes, request.workers, say)
    outcome.mark("play in Bullet")
    for plan in untimed:
        update_data(request.out, plan, stored)
    outcome.mark("measure")


def _tell(plans: Sequence[Plan], request: Request, outcome: Outcome) -> None:
    """Draw, judge, and write the pages; the index is over all experiments that have runs."""
    for plan in plans:
        results = read_results(request.out, plan, request)
        drawn = draw(results, request.out)
        judged = _judged(results)
        write_page(request.out, results, judged, drawn)
        outcome.told[plan.name] = (results, judged)
    everything = []
    for experiment in EXPERIMENTS.values():
        if experiment.name in outcome.told:
            everything.append(outcome.told[experiment.name])
        elif _has_spec(experiment, request):
            results = read_results(request.out, _plan(experiment, request), request)
            everything.append((results, _judged(results)))
    write_index(request.out, [(results, judged) for results, judged in everything if results.readings()])
    outcome.mark("draw and judge")


def _judged(results: Results) -> list[Judged]:
    return judge(claims_of(results.plan.name), results, results.readings())


def read_results(folder: Path, plan: Plan, request: Request) -> Results:
    """The data of an experiment in a folder of results, with those that its claims refer to."""
    if plan.experiment.timed:
        times = counting(read_times(folder, plan))
        times = times.assign(per_million=1e6 * times["seconds"].astype(float) / times["steps"].astype(float))
        return Results(plan, Data(times, pd.DataFrame(columns=list(CURVES))))
    beside = [EXPERIMENTS[name] for name in plan.experiment.beside]
    others = {each.name: _plan(each, request) for each in beside if _has_spec(each, request)}
    return Results(
        plan,
        read_data(folder, plan),
        {name: Results(other, read_data(folder, other)) for name, other in others.items()},
    )


def _has_spec(experiment: Experiment, request: Request) -> bool:
    """Whether the folder of experiments has this one: one's own may hold fewer than the package's."""
    return (request.specs / f"{experiment.spec}.toml").is_file()


def _plan(experiment: Experiment, request: Request) -> Plan:
    return make_plan(experiment, request.specs, seeds=request.seeds, steps=request.steps)
