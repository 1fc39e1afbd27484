"""The multiplier's rules against the paper's framework, closed forms and each other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papd.core.multiplier import PID, Fixed, GradientAscent, Multiplier, MultiplierState
from papd.errors import ConfigError
from tests.fixture_files import fixture

LIMIT = 10.0
costs_of_run = st.lists(st.floats(-50.0, 200.0, width=32), min_size=8, max_size=8)
gains = st.floats(0.0, 2.0, width=32)


@jax.jit
def _run(rule: Multiplier, costs: jax.Array, limits: jax.Array) -> jax.Array:
    def body(state: MultiplierState, row: jax.Array) -> tuple[MultiplierState, jax.Array]:
        state = rule.update(state, row, limits)
        return state, state.value

    return jax.lax.scan(body, rule.init(limits.shape[0]), costs)[1]


def run(rule: Multiplier, costs: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """The multiplier after each row of costs."""
    return np.asarray(_run(rule, jnp.asarray(costs, dtype=float), jnp.asarray(limits, dtype=float)))


def test_pid_repeats_the_paper_framework_to_1e_9() -> None:
    recorded = np.load(fixture("pid.npz"))
    with jax.enable_x64(True):
        rule = PID(*(float(gain) for gain in recorded["pid"]))
        values = run(rule, recorded["cost"][:, None], np.full(1, float(recorded["limit"])))
    assert recorded["multiplier"].max() > 1.0
    np.testing.assert_allclose(values[:, 0], recorded["multiplier"], rtol=0, atol=1e-9)


def test_signed_derivative_is_the_printed_equation() -> None:
    """By hand: errors 4, -2, 1 with K_P = 1, K_I = 0.5, K_D = 2."""
    costs = np.array([[14.0], [8.0], [11.0]])
    limits = np.full(1, LIMIT)
    printed = run(PID(1.0, 0.5, 2.0, signed_derivative=True), costs, limits)[:, 0]
    framework = run(PID(1.0, 0.5, 2.0), costs, limits)[:, 0]
    # I is 4, 2, 3; the differences of the error are 4, -6, 3.
    np.testing.assert_allclose(printed, [4 + 2 + 8, 0.0, 1 + 1.5 + 6], rtol=1e-6)
    np.testing.assert_allclose(framework, [14.0, 0.0, 8.5], rtol=1e-6)
    assert run(PID(1.0, 5.0, 2.0), costs, limits)[1, 0] == 8.0  # -2 + 5 * 2, the falling error does not count
    assert run(PID(1.0, 5.0, 2.0, signed_derivative=True), costs, limits)[1, 0] == 0.0  # 8 - 12 < 0


@settings(max_examples=60, deadline=None)
@given(costs_of_run, gains, gains, gains, st.booleans())
def test_multiplier_is_never_negative(
    costs: list[float], kp: float, ki: float, kd: float, signed: bool
) -> None:
    rows, limits = np.array(costs)[:, None], np.full(1, LIMIT)
    assert run(PID(kp, ki, kd, signed_derivative=signed), rows, limits).min() >= 0.0
    assert run(GradientAscent(ki), rows, limits).min() >= 0.0


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31 - 1), gains, gains, gains)
def test_vector_is_m_scalars(seed: int, kp: float, ki: float, kd: float) -> None:
    rng = np.random.default_rng(seed)
    costs, limits = rng.uniform(0, 30, size=(8, 3)), rng.uniform(5, 15, size=3)
    for rule in (PID(kp, ki, kd), GradientAscent(ki), Fixed(kp)):
        together = run(rule, costs, limits)
        apart = [run(rule, costs[:, i : i + 1], limits[i : i + 1])[:, 0] for i in range(3)]
        np.testing.assert_allclose(together, np.stack(apart, axis=-1), rtol=1e-6, atol=1e-6)


def test_gains_of_each_constraint_are_its_own() -> None:
    costs, limits = np.full((4, 2), 12.0), np.full(2, LIMIT)
    both = run(PID((0.1, 0.3), (0.0, 0.01), (0.0, 0.0)), costs, limits)
    np.testing.assert_array_equal(both[:, :1], run(PID(0.1, 0.0, 0.0), costs[:, :1], limits[:1]))
    np.testing.assert_array_equal(both[:, 1:], run(PID(0.3, 0.01, 0.0), costs[:, 1:], limits[1:]))


def test_integral_alone_is_dual_ascent() -> None:
    """The paper's remark below its PID equation, with zeta = K_I."""
    costs = np.random.default_rng(0).uniform(0, 20, size=(100, 2))
    limits = np.full(2, LIMIT)
    with jax.enable_x64(True):
        pid, ascent = (run(rule, costs, limits) for rule in (PID(0.0, 0.05, 0.0), GradientAscent(0.05)))
    assert pid.max() > 0.1
    np.testing.assert_allclose(pid, ascent, atol=1e-12)


def test_cap_and_fixed() -> None:
    costs, limits = np.full((50, 1), 100.0), np.full(1, LIMIT)
    assert run(PID(cap=2.5), costs, limits).max() == 2.5
    assert run(GradientAscent(1.0, cap=3.0), costs, limits).max() == 3.0
    assert set(run(Fixed(5.0), costs, limits)[:, 0]) == {5.0}
    assert Fixed((1.0, 2.0)).init(2).value.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "make", [lambda: PID(kp=-1.0), lambda: GradientAscent(float("nan")), lambda: PID(cap=0.0)]
)
def test_wrong_gains_are_refused(make: object) -> None:
    with pytest.raises(ConfigError, match=r"kp=|step=|cap="):
        make()  # type: ignore[operator]
