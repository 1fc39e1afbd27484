"""The plain numbers of the integrations against papd.core, step by step."""

import json
import math

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papd.core.multiplier import PID, Fixed, GradientAscent, Multiplier
from papd.core.rates import Constant, InvLin, InvQua, Rate
from papd.errors import ConfigError, EnvironmentFault
from papd.integrations.controller import Controller

RATES = {
    "constant": lambda: Constant(0.0005),
    "invlin": lambda: InvLin(0.001, 3.0),
    "invqua": lambda: InvQua(0.015, 6.0),
    "weighted": lambda: InvQua(0.015, 6.0, weights=(1.0, 0.5)),
}
MULTIPLIERS = {
    "pid": lambda: PID(),
    "signed": lambda: PID(0.1, 0.01, 0.3, signed_derivative=True, cap=1.5),
    "gains": lambda: PID((0.05, 0.2), (0.0005, 0.001), (0.1, 0.0)),
    "ascent": lambda: GradientAscent(0.03, cap=4.0),
    "fixed": lambda: Fixed((1.0, 5.0)),
}
LIMITS = (10.0, 5.0)
costs = st.lists(
    st.tuples(st.floats(0.0, 200.0, width=32), st.floats(0.0, 200.0, width=32)), min_size=1, max_size=30
)


def core(rule: Multiplier, rate: Rate, sequence: list[tuple[float, float]]) -> list[tuple[np.ndarray, float]]:
    """What papd.core does with a sequence of costs."""
    state = rule.init(2)
    limits = jax.numpy.asarray(LIMITS)
    found = []
    for pair in sequence:
        state = rule.update(state, jax.numpy.asarray(pair), limits)
        found.append((np.asarray(state.value), float(rate(state.value))))
    return found


@settings(max_examples=15, deadline=None)
@given(costs)
@pytest.mark.parametrize("multiplier", MULTIPLIERS)
@pytest.mark.parametrize("rate", ["invqua", "weighted"])
def test_equal_to_core_in_float64(multiplier: str, rate: str, sequence: list[tuple[float, float]]) -> None:
    with jax.enable_x64(True):
        rule, eta = MULTIPLIERS[multiplier](), RATES[rate]()
        expected = core(rule, eta, sequence)
        controller = Controller(eta, rule, LIMITS)
    for pair, (value, learning_rate) in zip(sequence, expected, strict=True):
        np.testing.assert_allclose(controller.step(pair), value, rtol=1e-12, atol=1e-12)
        assert controller.learning_rate == pytest.approx(learning_rate, rel=1e-12)


@pytest.mark.parametrize("multiplier", MULTIPLIERS)
@pytest.mark.parametrize("rate", RATES)
def test_equal_to_core_as_training_runs_it_in_float32(multiplier: str, rate: str) -> None:
    sequence = [tuple(pair) for pair in np.random.default_rng(0).gamma(2.0, 8.0, size=(200, 2))]
    rule, eta = MULTIPLIERS[multiplier](), RATES[rate]()
    controller = Controller(eta, rule, LIMITS)
    for pair, (value, learning_rate) in zip(sequence, core(rule, eta, sequence), strict=True):
        np.testing.assert_allclose(controller.step(pair), value, rtol=2e-4, atol=1e-5)
        assert controller.learning_rate == pytest.approx(learning_rate, rel=1e-4)


def test_before_the_first_step() -> None:
    controller = Controller(InvLin(0.001, 3.0), PID(), 10.0)
    assert controller.multiplier.tolist() == [0.0]
    assert controller.learning_rate == pytest.approx(0.001 / 3.0)
    assert Controller(Constant(0.1), Fixed(5.0), 10.0).multiplier.tolist() == [5.0]


def test_goes_on_exactly_from_a_state_that_went_through_json() -> None:
    sequence = np.random.default_rng(1).gamma(2.0, 8.0, size=40)
    whole, first = (Controller(InvQua(0.015, 6.0), PID(), 10.0) for _ in range(2))
    for cost in sequence[:20]:
        whole.step(cost)
        first.step(cost)
    second = Controller(InvQua(0.015, 6.0), PID(), 10.0)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for cost in sequence[20:]:
        assert second.step(cost).tolist() == whole.step(cost).tolist()
        assert second.learning_rate == whole.learning_rate


def test_what_it_gives_out_is_not_its_memory() -> None:
    controller = Controller(Constant(0.1), PID(), 10.0)
    controller.step(30.0)[0] = 99.0
    assert controller.multiplier[0] < 99.0


@pytest.mark.parametrize("cost", [math.nan, math.inf])
def test_a_cost_that_is_no_number_is_refused_and_changes_nothing(cost: float) -> None:
    controller = Controller(Constant(0.1), PID(), 10.0)
    controller.step(30.0)
    before = controller.state_dict()
    with pytest.raises(EnvironmentFault, match="skip the step"):
        controller.step(cost)
    assert controller.state_dict() == before


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Controller(Constant(0.1), PID(), -1.0), "cost_limit=-1"),
        (lambda: Controller(Constant(0.1), PID((1.0, 2.0)), 10.0), "kp has 2 values for 1 cost limits"),
        (
            lambda: Controller(InvLin(1.0, 1.0, weights=(1.0, 1.0, 1.0)), PID(), (1.0, 2.0)),
            "weights has 3 values",
        ),
        (lambda: Controller(Constant(0.1), PID(), (1.0, 2.0)).step(3.0), "1 costs for 2 cost limits"),
        (lambda: Controller(Constant(0.1), PID(), 1.0).load_state_dict({}), "value, integral, error"),
        (
            lambda: Controller(Constant(0.1), PID(), 1.0).load_state_dict(
                Controller(Constant(0.1), PID(), (1.0, 2.0)).state_dict()
            ),
            "is for 2 constraints, this is one of 1",
        ),
    ],
)
def test_mistakes_are_told(call, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        call()
