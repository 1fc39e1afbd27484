"""Algorithm 1 against closed forms, its problems against independent solvers and finite differences."""

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from papd.core import bounds
from papd.core.apd import (
    Optimum,
    Problem,
    apd,
    constant,
    constraints,
    dual,
    inv_lin,
    inv_qua,
    lagrangian,
    smoothness,
)
from papd.core.mdps import Tabular, lqr, tabular
from papd.core.problems import Quadratic, quadratic, random_quadratics
from papd.errors import ConfigError


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def line(curvature: float, centre: float, cost_curvature: float, limit: float) -> Quadratic:
    """f = curvature/2 (t - centre)^2 (less a constant) with cost_curvature/2 t^2 <= limit."""
    return quadratic(
        np.array([[curvature]]),
        np.array([-curvature * centre]),
        np.array([[[cost_curvature]]]),
        np.zeros((1, 1)),
        np.zeros(1),
        np.array([limit]),
    )


def first(tree: tuple[Quadratic, Optimum], index: int = 0) -> tuple[Quadratic, Optimum]:
    problem, optimum = jax.tree.map(lambda leaf: leaf[index], tree)
    return problem, optimum


def test_still_multiplier_gives_the_closed_form() -> None:
    """With zeta = 0 and lambda = 2: theta_k - theta* = (1 - eta a)^k (theta_0 - theta*), a = 3 + 2."""
    problem = line(3.0, 2.0, 1.0, 0.5)
    start, multiplier = jnp.asarray([4.0]), jnp.asarray([2.0])
    trace = apd(problem, constant(problem, jnp.asarray(0.1)), jnp.asarray(0.0), start, multiplier, 20)
    minimiser = 6.0 / 5.0
    k = np.arange(21)
    np.testing.assert_allclose(trace.theta[:, 0], minimiser + 0.5**k * (4.0 - minimiser), rtol=1e-12)
    np.testing.assert_allclose(trace.minimiser[:, 0], minimiser, rtol=1e-12)
    np.testing.assert_allclose(
        trace.error, 2.5 * (0.5 ** k[1:] * (4.0 - minimiser)) ** 2, rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(trace.gradient_square, 25.0 * np.asarray(trace.distance_square), rtol=1e-9)
    np.testing.assert_allclose(trace.dual, -0.5 * 36.0 / 5.0 - 1.0, rtol=1e-12)
    np.testing.assert_allclose(trace.smoothness, 5.0)


@pytest.mark.parametrize("rule", [inv_lin, inv_qua])
def test_moving_multiplier_repeats_the_update_by_hand(rule: Callable[[Problem], object]) -> None:
    problem = line(1.0, 2.0, 3.0, 0.5)
    trace = apd(problem, rule(problem), jnp.asarray(0.2), jnp.asarray([2.0]), jnp.asarray([0.3]), 50)  # type: ignore[arg-type]
    theta, multiplier = 2.0, 0.3
    for k in range(50):
        np.testing.assert_allclose(
            [trace.theta[k, 0], trace.multiplier[k, 0]], [theta, multiplier], rtol=1e-10
        )
        smooth = 1.0 + 3.0 * multiplier
        rate = 1 / (2 * smooth) if rule is inv_lin else 1.0 / (2 * smooth**2)
        np.testing.assert_allclose(trace.rate[k], rate, rtol=1e-12)
        theta -= rate * (theta - 2.0 + multiplier * 3.0 * theta)
        multiplier = max(0.0, multiplier + 0.2 * (1.5 * theta**2 - 0.5))
    np.testing.assert_allclose(trace.costs[-1, 0], 1.5 * theta**2, rtol=1e-10)
    np.testing.assert_allclose(trace.objective[-1], 0.5 * theta**2 - 2 * theta, rtol=1e-10)


@pytest.mark.parametrize("rule", [inv_lin, inv_qua])
def test_run_ends_at_the_solution(rule: Callable[[Problem], object]) -> None:
    problem, optimum = first(random_quadratics(5, 1, condition=3.0))
    start = jnp.zeros_like(optimum.theta), jnp.zeros_like(optimum.multiplier)
    trace = jax.jit(apd, static_argnums=5)(problem, rule(problem), jnp.asarray(0.1), *start, 6000)  # type: ignore[arg-type]
    np.testing.assert_allclose(trace.theta[-1], optimum.theta, atol=1e-5)
    np.testing.assert_allclose(trace.multiplier[-1], optimum.multiplier, atol=1e-4)
    assert float(trace.error[-1]) < 1e-9
    assert float(trace.multiplier.min()) >= 0.0
    assert float(trace.error.min()) > -1e-12


def test_vmap_over_starts_and_rates_is_each_run() -> None:
    problem, optimum = first(random_quadratics(1, 1))
    starts = jnp.stack([optimum.inside, optimum.theta * 2])
    rates = jax.tree.map(
        lambda *leaves: jnp.stack(leaves), inv_lin(problem), constant(problem, jnp.asarray(0.02))
    )
    nothing, step = jnp.zeros_like(optimum.multiplier), jnp.asarray(0.1)
    run = jax.jit(lambda rate, start: apd(problem, rate, step, start, nothing, 30))
    together = jax.vmap(run)(rates, starts)
    for i, rate in enumerate((inv_lin(problem), constant(problem, jnp.asarray(0.02)))):
        alone = run(rate, starts[i])
        np.testing.assert_allclose(together.theta[i], alone.theta, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("quadratics", "linears"), [(1, 0), (3, 2), (0, 2)])
def test_optimum_is_what_a_convex_solver_finds(quadratics: int, linears: int) -> None:
    batch = random_quadratics(
        11, 3, quadratic_constraints=quadratics, linear_constraints=linears, multiplier_size=3.0
    )
    for index in range(3):
        problem, optimum = first(batch, index)
        found = scipy.optimize.minimize(
            lambda t, p=problem: float(p.objective(jnp.asarray(t))),
            np.asarray(optimum.inside),
            jac=lambda t, p=problem: np.asarray(jax.grad(p.objective)(jnp.asarray(t))),
            constraints={
                "type": "ineq",
                "fun": lambda t, p=problem: -np.asarray(constraints(p, jnp.asarray(t))),
                "jac": lambda t, p=problem: -np.asarray(jax.jacobian(p.costs)(jnp.asarray(t))),
            },
            method="SLSQP",
            options={"ftol": 1e-12, "maxiter": 500},
        )
        np.testing.assert_allclose(found.x, optimum.theta, atol=1e-4)
        assert float(dual(problem, optimum.multiplier)) == pytest.approx(found.fun, abs=1e-6)
        assert float(jnp.max(constraints(problem, optimum.inside))) <= -0.5 + 1e-9
        assert float(optimum.multiplier.sum()) == pytest.approx(3.0)


def differences(
    function: Callable[[np.ndarray], np.ndarray], at: np.ndarray, width: float = 1e-5
) -> np.ndarray:
    """Central differences, one row for each direction."""
    rows = [(function(at + width * e) - function(at - width * e)) / (2 * width) for e in np.eye(at.size)]
    return np.asarray(rows)


def test_gradients_and_constants_agree_with_finite_differences() -> None:
    problem, optimum = first(random_quadratics(2, 1, dimension=4, condition=7.0))
    for candidate, theta in ((problem, optimum.theta), (tabular()[0], tabular()[1].theta * 0.7)):
        multiplier = jnp.full_like(candidate.limits, 0.8)
        gradient = jax.grad(lambda t, p=candidate, lam=multiplier: lagrangian(p, t, lam))
        at = np.asarray(theta)
        value = jax.jit(lambda t, p=candidate, lam=multiplier: lagrangian(p, t, lam))
        expected = differences(lambda t, f=value: np.asarray(f(jnp.asarray(t))), at)
        np.testing.assert_allclose(gradient(theta), expected, atol=1e-7)
    hessian = differences(lambda t: np.asarray(jax.grad(problem.objective)(jnp.asarray(t))), np.zeros(4))
    spectrum = np.linalg.eigvalsh(hessian)
    np.testing.assert_allclose([spectrum[0], spectrum[-1]], [1.0, 7.0], rtol=1e-5)
    np.testing.assert_allclose(
        [problem.strong_convexity, problem.smoothness_objective], [1.0, 7.0], rtol=1e-9
    )
    for i in range(3):
        curvature = differences(
            lambda t, i=i: np.asarray(jax.jacobian(problem.costs)(jnp.asarray(t))[i]), np.zeros(4)
        )
        assert np.linalg.norm(curvature, 2) == pytest.approx(float(problem.smoothness_costs[i]), abs=1e-6)


def test_smoothness_and_convexity_bound_every_lagrangian() -> None:
    problem, _ = first(random_quadratics(3, 1))
    for seed in range(20):
        multiplier = jnp.asarray(np.random.default_rng(seed).exponential(5.0, size=3))
        hessian = jax.hessian(lambda t, lam=multiplier: lagrangian(problem, t, lam))(jnp.zeros(6))
        spectrum = np.linalg.eigvalsh(hessian)
        assert spectrum[0] >= float(problem.strong_convexity) - 1e-9
        assert spectrum[-1] <= float(smoothness(problem, multiplier)) + 1e-9


def simulate(theta: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The discounted objective and cost of each run of the LQR under a disturbance-feedback policy."""
    opened, gains = theta[:5], theta[5:].reshape(-1, 2)
    state = np.tile([1.0, 0.0], (noise.shape[1], 1))
    objective, cost = np.zeros(noise.shape[1]), np.zeros(noise.shape[1])
    for t in range(5):
        action = opened[t] + sum(
            (noise[s] @ gains[t * (t - 1) // 2 + s] for s in range(t)), np.zeros(len(state))
        )
        state = state @ np.array([[1.0, 0.3], [0.0, 0.9]]).T + action[:, None] * [0.0, 0.3] + noise[t]
        objective += 0.95**t * (action**2 + 0.1 * state[:, 1] ** 2)
        cost += 0.95**t * state[:, 0] ** 2
    return objective, cost


def test_lqr_is_the_mean_over_simulated_noise() -> None:
    problem, optimum = lqr()
    rng = np.random.default_rng(0)
    theta, runs = np.asarray(optimum.theta) + 0.1 * rng.normal(size=25), 40_000
    noise = 0.5 * rng.normal(size=(5, runs, 2))
    objectives, costs = zip(*(simulate(policy, noise) for policy in (theta, np.zeros(25))), strict=True)
    expected = float(problem.costs(jnp.asarray(theta))[0])
    assert np.mean(costs[0]) == pytest.approx(expected, abs=4 * costs[0].std() / runs**0.5)
    # f is exact up to the constant that f(0) = 0 leaves out: the same noise under theta = 0 takes it away.
    expected = float(problem.objective(jnp.asarray(theta)))
    gained = objectives[0] - objectives[1]
    assert np.mean(gained) == pytest.approx(expected, abs=4 * gained.std() / runs**0.5)
    assert float(constraints(problem, optimum.theta)[0]) == pytest.approx(0.0, abs=1e-9)
    assert float(dual(problem, optimum.multiplier)) == pytest.approx(
        float(problem.objective(optimum.theta)), abs=1e-9
    )


def test_tabular_values_are_those_of_repeated_bellman_sweeps() -> None:
    problem, optimum = tabular(seed=3)
    policy = np.asarray(problem.policy(optimum.theta))
    reward = np.asarray(problem.reward) - 0.1 * np.log(policy)
    for signal, exact in (
        (reward, -problem.objective(optimum.theta)),
        (problem.cost[0], problem.costs(optimum.theta)[0]),
    ):
        value = np.zeros(5)
        for _ in range(200):
            value = (policy * (np.asarray(signal) + 0.6 * np.asarray(problem.transition) @ value)).sum(
                axis=-1
            )
        assert value.mean() == pytest.approx(float(exact), abs=1e-10)
    assert float(problem.costs(optimum.theta)[0]) <= 1.0 / (1.0 - 0.6)


def test_tabular_minimiser_and_optimum_are_global() -> None:
    problem, optimum = tabular()
    multiplier = jnp.asarray([0.9])
    best = problem.minimiser(multiplier)
    gradient = jax.grad(lambda t: lagrangian(problem, t, multiplier))(best)
    assert float(jnp.abs(gradient).max()) < 1e-12
    others = jnp.asarray(np.random.default_rng(0).normal(size=(20, 15)) * 3)
    values = jax.vmap(lambda other: lagrangian(problem, other, multiplier))(others)
    assert float(values.min()) > float(lagrangian(problem, best, multiplier))
    assert float(dual(problem, optimum.multiplier)) == pytest.approx(
        float(problem.objective(optimum.theta)), abs=1e-9
    )
    nearby = [float(dual(problem, optimum.multiplier + change)) for change in (-0.05, 0.05)]
    assert max(nearby) < float(dual(problem, optimum.multiplier))


def test_tabular_constants_bound_the_curvature_and_it_is_not_convex() -> None:
    problem, _ = tabular()
    rng = np.random.default_rng(1)
    lowest, largest = np.inf, 0.0
    hessian = jax.jit(jax.hessian(problem.objective))
    curvature = jax.jit(jax.hessian(lambda t: problem.costs(t)[0]))
    for _ in range(30):
        theta = jnp.asarray(rng.normal(size=15) * 2)
        spectrum = np.linalg.eigvalsh(hessian(theta))
        lowest, largest = min(lowest, spectrum[0]), max(largest, np.abs(spectrum).max())
        assert np.abs(np.linalg.eigvalsh(curvature(theta))).max() <= float(problem.smoothness_costs[0])
    assert largest <= float(problem.smoothness_objective)
    assert lowest < -0.01  # so Assumption 3 fails: the lemma is not checked on this problem


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 2**31 - 1),
    st.floats(0.05, 1.0),
    st.floats(0.0, 4.0),
)
def test_one_gradient_step_obeys_every_radicand(seed: int, inverse_condition: float, times: float) -> None:
    """On a random quadratic, at any rate: the printed bounds, the sharper ones, and their order."""
    rng = np.random.default_rng(seed)
    smooth, mu = 2.0, 2.0 * inverse_condition
    spectrum = rng.uniform(mu, smooth, size=5)
    distance = rng.normal(size=5)
    eta, gradient = times / smooth, spectrum * distance
    after = float(np.sum((distance - eta * gradient) ** 2))
    size, slope = float(distance @ distance), float(gradient @ gradient)
    exact = bounds.contraction(*(jnp.asarray(x) for x in (eta, smooth, mu, size)))
    printed = bounds.quadratic_radicand(*(jnp.asarray(x) for x in (eta, smooth, mu, size)))
    linear, sharp = (
        function(*(jnp.asarray(x) for x in (eta, smooth, mu, size, slope)))
        for function in (bounds.linear_radicand, bounds.sharp_linear_radicand)
    )
    tolerance = 1e-9 * (1 + size)
    for bound in (exact, printed, linear, sharp):
        assert after <= float(bound) + tolerance
    assert float(sharp) <= float(linear) + tolerance


def test_wrong_constants_are_caught() -> None:
    """A check that cannot fail proves nothing: with L and mu misstated, bounds break."""
    problem, optimum = first(random_quadratics(4, 1, condition=20.0))
    lying = Quadratic(
        problem.hessian,
        problem.linear,
        problem.cost_hessians,
        problem.cost_linears,
        problem.cost_offsets,
        problem.limits,
        problem.smoothness_objective / 20.0,
        problem.smoothness_costs,
        problem.strong_convexity,
    )
    rate, start = constant(problem, jnp.asarray(0.08)), optimum.inside
    for candidate, sound in ((problem, True), (lying, False)):
        trace = apd(candidate, rate, jnp.asarray(0.1), start, jnp.zeros(3), 40)
        _, quadratic_bound, after = bounds.radicands(candidate, trace)
        sharp = bounds.sharp_error(candidate, trace)
        kept = bool(jnp.all(after <= quadratic_bound + 1e-9)) and bool(
            jnp.all(sharp.left <= sharp.right + 1e-9)
        )
        assert kept is sound


def test_potential_has_the_slope_its_proof_needs() -> None:
    """d Phi / d(lambda^2) = 2 eta(lambda)."""
    problem = line(2.0, 3.0, 5.0, 0.5)
    for power, rule in ((1, inv_lin), (2, inv_qua)):
        for at in (0.3, 2.0, 20.0):
            slope = jax.grad(lambda s, p=power: bounds.potential(problem, jnp.asarray(p), jnp.sqrt(s)))(
                jnp.asarray(at**2)
            )
            assert float(slope) == pytest.approx(2 * float(rule(problem)(jnp.asarray([at]))), rel=1e-9)


def test_wrong_problems_are_refused() -> None:
    with pytest.raises(ConfigError, match="positive definite"):
        quadratic(-np.eye(1), np.zeros(1), np.ones((1, 1, 1)), np.zeros((1, 1)), np.zeros(1), np.zeros(1))
    with pytest.raises(ConfigError, match="constraints"):
        random_quadratics(0, 1, quadratic_constraints=0, linear_constraints=0)
    with pytest.raises(ConfigError, match="tightness"):
        tabular(tightness=1.0)
    assert isinstance(tabular()[0], Tabular)
