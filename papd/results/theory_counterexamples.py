"""Runs on which a printed statement fails, or that show what its proof leaves open
(:mod:`papd.results.theory_findings`).
"""

import jax
import jax.numpy as jnp
import numpy as np

from papd.core import bounds
from papd.core.apd import Optimum, Trace, apd, inv_lin, inv_qua
from papd.core.problems import Quadratic
from papd.core.rates import Rate
from papd.results.theory_findings import Finding, scalar_problem

DUAL_STEPS = (0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
"""The zeta of the overshoot experiment."""
OVERSHOOT_ITERATIONS = 20_000


def _run(
    problem: Quadratic, rate: Rate, dual_step: float, theta: float, multiplier: float, steps: int
) -> Trace:
    start = jnp.asarray([theta]), jnp.asarray([multiplier])
    trace: Trace = jax.jit(apd, static_argnums=5)(problem, rate, jnp.asarray(dual_step), *start, steps)
    return trace


def half_disc(power: int, steps: int = 4000) -> Trace:
    """(t-2)^2/2 with t^2/2 <= 1/2 under eta = 1/(2 L(lambda)^power), from the best t without the limit, 2.

    t* = lambda* = 1, L(lambda) = 1 + lambda and zeta = 1; t = 0 is strictly feasible. Power 1 is InvLin and 2 InvQua.
    """
    rate = Rate(*(jnp.asarray(value) for value in (0.5, 1.0, float(power), 1.0)))
    return _run(scalar_problem(2.0, 1.0, 0.0, 0.5), rate, 1.0, 2.0, 0.0, steps)


def one_lipschitz_constant() -> Finding:
    """L' has to cover every multiplier of the run, not that of its start."""
    problem = scalar_problem(2.0, 20.0, 0.0, 0.1)
    trace = _run(problem, inv_lin(problem), 0.5, 2.0, 0.0, 60)
    at_start = problem.smoothness_objective * jnp.max(jnp.abs(trace.theta - trace.minimiser[:1]))
    narrow = bounds.lemma_linear(problem, trace, at_start)
    covered = bounds.lemma_linear(problem, trace, bounds.visited(problem, trace).lipschitz)
    failures = [int(jnp.sum(sides.left > sides.right)) for sides in (narrow, covered)]
    return Finding(
        name="one Lipschitz constant",
        equation="Lemma 1",
        verdict="ambiguous",
        claim="L(theta_k, lambda_k) is L'-Lipschitz: one L', and no word on lambda.",
        evidence=f"With the L' = {float(at_start):.3g} that holds at lambda_0 = 0 on every theta visited, "
        f"eq. invlin_tight_bound fails at {failures[0]} of 60 steps; with an L' over the multipliers "
        f"visited at {failures[1]}.",
        shown=failures[0] > 0 and failures[1] == 0,
    )


def error_left_open() -> Finding:
    """Theorems 1 and 3 speak of the mean error, and nothing in the paper keeps delta_k, hence the error,
    small.
    """
    problem, means = scalar_problem(4.0, 1.0, 0.0, 0.5), {}
    for dual_step in (1.0, 0.1, 0.01):
        trace = _run(problem, inv_qua(problem), dual_step, 4.0, 0.0, 4000)
        means[dual_step] = float(jnp.mean(trace.error))
    listed = ", ".join(f"{error:.2g} (zeta {dual_step:g})" for dual_step, error in means.items())
    return Finding(
        name="the error is left open",
        equation="Theorems 1 and 3",
        verdict="proof has a gap",
        claim="The mean error in the two theorems can be bounded by eqs. bound_inverse_linear, "
        "bound_inverse_quadratic.",
        evidence="Those bounds contain delta_k, whose target theta*(lambda_k) moves, and nothing bounds "
        f"delta_k. Mean error of InvQua over 4000 steps on (t-4)^2/2 with t^2/2 <= 1/2, whose optimum is 4.5: "
        f"{listed}. papd.core.bounds.tracking closes the loop: eps = O(zeta^2) while lambda stays bounded.",
        shown=means[1.0] > 4.5 and means[0.01] < 1e-3,
    )


def return_at_finite_steps() -> Finding:
    """Theorem 3 binds K on the left and leaves it free on the right; read for every K it fails in one step."""
    problem = scalar_problem(0.0, 0.0, 1.0, 1.0)  # t^2/2 with t <= 1, idle at the optimum t = 0
    optimum = Optimum(jnp.zeros(1), jnp.zeros(1), jnp.zeros(1))
    # theta_0 minimises L(., lambda_0), so the first step has no error.
    once = _run(problem, inv_lin(problem), 0.01, -10.0, 10.0, 1)
    bound = bounds.constraint_bound(problem, jnp.abs(once.costs[1, 0]))
    kept = bounds.return_optimality(problem, once, jnp.asarray(0.01), optimum, bound)
    lost, dropped = float(kept.left[0]), float(once.error[0] + 0.01 * bound**2 / 2)
    return Finding(
        name="the return at finite K",
        equation="Theorem 3, eq. primal_convergence",
        verdict="ambiguous",
        claim="liminf over K of the mean return >= J_R* - (1/K) sum of the K errors - the zeta term.",
        evidence="K is bound on the left and free on the right. Read for every K it is false: t^2/2 with t <= 1, "
        f"InvLin, from theta_0 = -10, lambda_0 = 10, zeta 0.01: at K = 1 the return is {lost:.3g} below J_R* and "
        f"the right side allows {dropped:.3g}. With ||lambda_0||^2/(2 zeta K), which the proof has and the print "
        f"drops, it allows {float(kept.right[0]):.3g}, and holds for every K; in the limit it holds with limsup of "
        "the mean error.",
        shown=dropped < lost <= float(kept.right[0]),
    )


def feasibility_needs_the_rate() -> Finding:
    """Theorem 4 with the hypotheses of Theorem 1 only: nothing excludes rates under which theta never obeys."""
    runs = {power: half_disc(power) for power in (1, 2, 3)}
    mean = {power: float(jnp.mean(run.costs[1:] - 0.5)) for power, run in runs.items()}
    listed = "; ".join(
        f"1/(2L^{power}) {mean[power]:.3g} and {float(run.multiplier[-1, 0]) / 4000:.3g}"
        for power, run in runs.items()
    )
    return Finding(
        name="feasibility on average",
        equation="Theorem 4",
        verdict="false as printed",
        claim="Under the hypotheses of Theorem 1, which say nothing of the rate, the mean cost obeys its limit.",
        evidence="(t-2)^2/2 with t^2/2 <= 1/2 (t = 0 is strictly feasible), 4000 steps from t = 2; mean violation and "
        f"lambda_K/K: {listed}. With the cube lambda outruns theta, which stops at t = "
        f"{float(runs[3].theta[-1, 0]):.3g} > 1: the square is the last power for which the steps add up to a "
        "journey of any length. With a bounded mean error the theorem holds, with a rate in K.",
        shown=mean[3] > 0.1
        and float(runs[3].theta.min()) > 1.0
        and abs(mean[1]) < 0.05
        and mean[2] < mean[3] / 10.0,
    )


def spikes(highest: int) -> np.ndarray:
    """Nonnegative, steps of at most 1, bounded mean, unbounded: a triangle of height 2^j around 4^j for each
    j.
    """
    k = np.arange(2 * 4**highest)
    triangles = [np.maximum(0.0, 2.0**j - np.abs(k - 4.0**j)) for j in range(2, highest + 1)]
    return np.asarray(np.sum(triangles, axis=0))


def lemma_steps() -> Finding:
    """Two steps of the lemma's proof: a bounded mean does not bound a sequence, and d(mean) <= D* bounds no
    mean.
    """
    sequence = spikes(9)
    mean = np.cumsum(sequence) / np.arange(1, len(sequence) + 1)
    peaks = [int(sequence[4**j]) for j in (3, 6, 9)]
    multipliers = np.asarray(half_disc(3).multiplier[:, 0])
    means = multipliers[:1000].mean(), multipliers[:4000].mean()
    return Finding(
        name="the lemma of the bounded multiplier",
        equation="Lemma lam_bounded",
        verdict="false as printed",
        claim="d(mean lambda) <= D* bounds mean lambda; by Stolz-Cesaro that bounds lambda_K; so "
        "lambda_K/K -> 0.",
        evidence="With the rate 1/(2L^3) of the previous finding the mean multiplier is "
        f"{means[0]:.3g} after 1000 steps and {means[1]:.3g} after 4000, though d(mean) <= D*, as for any lambda: "
        "eq. any_lam_bound needs d from below. And a sequence with steps <= 1 and mean <= "
        f"{mean.max():.3g} passes {peaks[0]}, {peaks[1]}, {peaks[2]}: Stolz-Cesaro runs the other way. (A bounded mean "
        "and bounded steps do give lambda_K/K -> 0.)",
        shown=bool(
            mean.max() < 3
            and peaks[2] > 500
            and np.abs(np.diff(sequence)).max() <= 1
            and means[1] > 3 * means[0]
        ),
    )


def overshoot() -> tuple[np.ndarray, np.ndarray]:
    """The largest multiplier under InvLin and InvQua for each of DUAL_STEPS, where lambda* = 3."""
    problem = scalar_problem(4.0, 1.0, 0.0, 0.5)

    def peak(power: jax.Array, dual_step: jax.Array) -> jax.Array:
        rate = jax.tree.map(lambda a, b: jnp.where(power == 1, a, b), inv_lin(problem), inv_qua(problem))
        run = apd(problem, rate, dual_step, jnp.asarray([4.0]), jnp.zeros(1), OVERSHOOT_ITERATIONS)
        return jnp.max(run.multiplier)

    peaks = jax.jit(jax.vmap(jax.vmap(peak, (None, 0)), (0, None)))(
        jnp.array([1, 2]), jnp.asarray(DUAL_STEPS)
    )
    return np.asarray(peaks[0]), np.asarray(peaks[1])


def invqua_overshoot(peaks: tuple[np.ndarray, np.ndarray]) -> Finding:
    """InvQua slows theta as fast as lambda grows: the multiplier overshoots exponentially in the dual step."""
    linear, square = peaks
    listed = "; ".join(
        f"{low:.3g} and {high:.3g} (zeta {dual_step:g})"
        for dual_step, low, high in zip(DUAL_STEPS, linear, square, strict=True)
        if dual_step in (0.1, 0.3, 0.5, 1.0)
    )
    growth = np.diff(np.log(square[-4:])) / np.diff(DUAL_STEPS[-4:])
    return Finding(
        name="the overshoot of InvQua",
        equation="eq. invqua_expression with Theorem 4",
        verdict="loose",
        claim="Both rules are feasible on average; nothing is said of how soon.",
        evidence=f"The largest lambda under InvLin and InvQua, lambda* = 3: {listed}. At large lambda "
        "InvQua moves theta by about mu/(2 L_C^2 lambda) a step while lambda grows by zeta g, so a given "
        "distance costs a given growth of log lambda. Both stay bounded with one constraint, InvQua's "
        "bound being exponential in zeta L_C^2/mu.",
        shown=bool(linear.max() < 15 and square[-1] > 1000 and growth.min() > 1),
    )
