"""The figures of `papd theory`: the bounds over the rate, what they promise, a run beside its bounds, iterations
needed, and what the power of the rate does to the multiplier.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from papd.core import bounds
from papd.core.apd import apd, inv_lin, inv_qua
from papd.core.problems import random_quadratics
from papd.results.figures import BLACK, BLUE, COLUMN, GREEN, ORANGE, PAGE, PURPLE, STYLE, VERMILLION, save
from papd.results.theory_counterexamples import DUAL_STEPS, half_disc
from papd.results.theory_iterations import SWEEPS, Iterations

LABELS = {
    "condition number": "Condition number $L_R/\\mu$",
    "size of lambda": "Size of $\\lambda^*$",
    "constraints": "Constraints $m$",
}
LINES: Mapping[str, tuple[str, str, str]] = {
    "inv_lin": ("InvLin $1/(2L)$", BLUE, "-"),
    "inv_qua": ("InvQua $\\mu/(2L^2)$", VERMILLION, "-"),
    "whole_inverse": ("$1/L$", GREEN, "-"),
    "best_constant": ("best constant, each problem", BLACK, "--"),
    "one_constant": ("one constant for the sweep", ORANGE, "--"),
}


def draw(
    folder: Path, rows: Sequence[Iterations], peaks: tuple[np.ndarray, np.ndarray], limit: int
) -> list[Path]:
    """Write the five figures, each as .pdf and .png, into ``folder``; JAX must be in float64."""
    with matplotlib.rc_context(STYLE):
        figures = {
            "rates": _rates(),
            "promised": _promised(),
            "run": _run(),
            "iterations": _iterations(rows, limit),
            "overshoot": _overshoot(peaks),
        }
    return [path for name, figure in figures.items() for path in save(figure, folder / name, ("pdf", "png"))]


def _figure(panels: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, list(figure.subplots(1, panels, squeeze=False)[0])


def _rates() -> Figure:
    """What one step leaves of the squared distance, over its rate: the printed bounds, and those without slack."""
    figure, (axis,) = _figure(1, COLUMN, 2.7)
    smooth, mu, distance, gradient = (jnp.asarray(value) for value in (10.0, 1.0, 1.0, 30.0))
    rates = jnp.geomspace(1e-3, 0.25, 400)
    curves = (
        ("$1/(2L)$: first bound", 0.05, BLUE, ":"),
        ("$\\mu/(2L^2)$: second bound", 0.005, VERMILLION, ":"),
        ("$1/L$: first, $L/2$ for $L$", 0.1, BLUE, "-"),
        ("$\\mu/L^2$: second, all terms", 0.01, VERMILLION, "-"),
        ("$2/(L+\\mu)$: worst case, exact", 2 / 11, BLACK, "-"),
    )

    def left(eta: jax.Array) -> tuple[jax.Array, ...]:
        return (
            bounds.linear_radicand(eta, smooth, mu, distance, gradient),
            bounds.quadratic_radicand(eta, smooth, mu, distance),
            bounds.sharp_linear_radicand(eta, smooth, mu, distance, gradient),
            bounds.quadratic_radicand(eta, smooth, 2.0 * mu, distance),
            bounds.contraction(eta, smooth, mu, distance),
        )

    for i, (label, best, colour, dashes) in enumerate(curves):
        axis.plot(rates, left(rates)[i], dashes, color=colour, label=label)
        axis.plot([best], [left(jnp.asarray(best))[i]], "o", color=colour, ms=3.5)
    axis.axhline(1.0, color=BLACK, lw=0.5, ls="--")
    axis.annotate("no step", (1.05e-3, 1.08), fontsize=7)
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="Rate $\\eta$ ($L = 10$, $\\mu = 1$)",
        ylabel="Bound on $\\|\\theta_{k+1}-\\theta^*\\|^2 / \\delta_k$",
        ylim=(0.4, 3000.0),
    )
    axis.legend(fontsize=7, ncols=1, loc="upper left", title="least at", title_fontsize=7, borderaxespad=0.1)
    return figure


def _promised() -> Figure:
    """Steps to 1e-6 of the distance: what eq. bound_inverse_quadratic promises, and what the worst quadratic
    needs.
    """
    figure, (axis,) = _figure(1, COLUMN, 2.4)
    smooth = jnp.geomspace(1.3, 100.0, 200)
    mu = jnp.ones_like(smooth)
    axis.plot(
        smooth,
        _steps(bounds.quadratic_factor(smooth, mu)),
        color=VERMILLION,
        ls=":",
        label="InvQua, promised",
    )
    needed = {
        "InvQua, needed": (mu / (2 * smooth**2), VERMILLION),
        "InvLin, needed (promised: never)": (1 / (2 * smooth), BLUE),
        "$1/L$, needed": (1 / smooth, GREEN),
        "$2/(L+\\mu)$, needed": (2 / (smooth + mu), BLACK),
    }
    for label, (eta, colour) in needed.items():
        axis.plot(smooth, _steps(bounds.contraction(eta, smooth, mu, mu)), color=colour, label=label)
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="Condition number $L/\\mu$",
        ylabel="Steps to $10^{-6}$",
        ylim=(1, 1e9),
    )
    axis.legend(fontsize=7)
    return figure


def _steps(factor: jax.Array) -> np.ndarray:
    """Steps until a squared distance that shrinks by ``factor`` has shrunk by 1e-12."""
    return np.asarray(jnp.log(1e-12) / jnp.log(factor))


def _run() -> Figure:
    """One problem of the table: the dual gap and the mean violation, each beside its bound."""
    problems, optima = random_quadratics(3, 1, multiplier_size=2.0)
    problem, optimum = jax.tree.map(lambda leaf: leaf[0], (problems, optima))
    figure, axes = _figure(2, PAGE, 2.2)
    dual_step, steps = jnp.asarray(0.1), 2000
    rates = {"InvLin": (inv_lin(problem), BLUE), "InvQua": (inv_qua(problem), VERMILLION)}
    counts = np.arange(1, steps + 1)
    for name, (rate, colour) in rates.items():
        nothing = jnp.zeros_like(optimum.multiplier)
        start = problem.minimiser(nothing), nothing
        trace = jax.jit(apd, static_argnums=5)(problem, rate, dual_step, *start, steps)
        bound = bounds.constraint_bound(problem, bounds.visited(problem, trace).cost)
        dual = bounds.dual_convergence(problem, trace, dual_step, optimum, bound)
        kept = bounds.feasibility(problem, trace, dual_step, optimum, bound)
        axes[0].plot(counts, np.maximum(dual.left, 1e-12), color=colour, label=name)
        axes[0].plot(counts, dual.right, color=colour, ls=":", label=f"{name}, bound")
        axes[1].plot(counts, kept.left.max(axis=-1), color=colour, label=name)
        axes[1].plot(counts, kept.right.min(axis=-1), color=colour, ls=":", label=f"{name}, bound")
    axes[0].set(
        xscale="log", yscale="log", xlabel="Steps $K$", ylabel="$D^* - d(\\lambda_{best})$", ylim=(1e-9, None)
    )
    axes[1].set(xscale="log", xlabel="Steps $K$", ylabel="Largest mean violation")
    axes[1].set_yscale("symlog", linthresh=0.01)
    axes[0].legend(fontsize=7)
    return figure


def _iterations(rows: Sequence[Iterations], limit: int) -> Figure:
    """A panel a sweep, a line a rule; a run that does not settle lies on the upper edge."""
    figure, axes = _figure(len(SWEEPS), PAGE, 2.4)
    for axis, sweep in zip(axes, SWEEPS, strict=True):
        chosen = [row for row in rows if row.sweep == sweep]
        for field, (label, colour, dashes) in LINES.items():
            counts = [min(getattr(row, field), limit) for row in chosen]
            axis.plot([row.value for row in chosen], counts, dashes, color=colour, marker=".", label=label)
        axis.set(xscale="log", yscale="log", xlabel=LABELS[sweep], ylim=(5, 1.3 * limit))
        axis.set_xticks(SWEEPS[sweep], [f"{value:g}" for value in SWEEPS[sweep]])
        axis.set_xticks([], minor=True)
    axes[0].set_ylabel("Iterations to $10^{-3}$")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=7)
    return figure


def _overshoot(peaks: tuple[np.ndarray, np.ndarray]) -> Figure:
    """The largest multiplier over the dual step, and the mean violation under 1/(2 L^power)."""
    figure, axes = _figure(2, PAGE, 2.2)
    for values, label, colour in zip(peaks, ("InvLin", "InvQua"), (BLUE, VERMILLION), strict=True):
        axes[0].plot(DUAL_STEPS, values, color=colour, marker=".", label=label)
    axes[0].axhline(3.0, color=BLACK, ls=":", lw=0.8, label="$\\lambda^*$")
    axes[0].set(yscale="log", xlabel="Dual step $\\zeta$", ylabel="Largest $\\lambda_k$")
    axes[0].legend()
    rules = {1: ("$1/(2L)$, InvLin", BLUE), 2: ("$1/(2L^2)$, InvQua", VERMILLION), 3: ("$1/(2L^3)$", PURPLE)}
    for power, (label, colour) in rules.items():
        violation = np.asarray(half_disc(power).costs[1:, 0]) - 0.5
        counts = np.arange(1, violation.size + 1)
        axes[1].plot(counts, np.cumsum(violation) / counts, color=colour, label=label)
    axes[1].set(xscale="log", yscale="log", xlabel="Steps $K$", ylabel="Mean violation", ylim=(1e-4, 4.0))
    axes[1].legend(loc="lower left")
    return figure
