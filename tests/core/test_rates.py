"""The rate's one form, its three rules, and that it falls as the multiplier grows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papd.core.rates import Constant, InvLin, InvQua, Rate
from papd.errors import ConfigError

positive = st.floats(1e-4, 1e3)


def at(rate: Rate, *multiplier: float) -> float:
    return float(rate(jnp.asarray(multiplier, dtype=float)))


def test_closed_forms_of_the_paper() -> None:
    """The paper's PPOL constants, at lambda 0 and 3."""
    assert at(InvLin(0.001, 3.0), 0.0) == pytest.approx(0.001 / 3, rel=1e-6)
    assert at(InvLin(0.001, 3.0), 3.0) == pytest.approx(0.001 / 6, rel=1e-6)
    assert at(InvQua(0.015, 6.0), 0.0) == pytest.approx(0.015 / 36, rel=1e-6)
    assert at(InvQua(0.015, 6.0), 3.0) == pytest.approx(0.015 / 81, rel=1e-6)
    assert at(Constant(0.0005), 0.0) == at(Constant(0.0005), 1e6) == pytest.approx(0.0005, rel=1e-6)


def test_several_constraints_add_up_by_weight() -> None:
    assert at(InvLin(1.0, 2.0), 1.0, 3.0) == pytest.approx(1 / 6)
    assert at(InvLin(1.0, 2.0, weights=(0.5, 2.0)), 1.0, 3.0) == pytest.approx(1 / 8.5, rel=1e-6)
    assert at(InvQua(1.0, 2.0, weights=(0.0, 1.0)), 100.0, 3.0) == pytest.approx(1 / 25, rel=1e-6)


@settings(deadline=None)
@given(positive, positive, st.floats(0, 1e3), st.floats(0, 1e3))
def test_rate_falls_as_the_multiplier_grows(h1: float, h2: float, one: float, other: float) -> None:
    low, high = sorted((one, other))
    with jax.enable_x64(True):
        for rule in (InvLin, InvQua):
            assert at(rule(h1, h2), high) <= at(rule(h1, h2), low)
            assert 0 < at(rule(h1, h2), high) <= h1 / h2 ** (1 if rule is InvLin else 2) * (1 + 1e-12)


def test_one_compiled_program_serves_every_rule() -> None:
    rules = [Constant(0.1), InvLin(0.1, 2.0), InvQua(0.1, 2.0)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *rules)
    together = jax.vmap(lambda rate: rate(jnp.asarray([1.0, 1.0])))(stacked)
    np.testing.assert_allclose(together, [0.1, 0.1 / 4, 0.1 / 16], rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Constant(0.0), "learning_rate=0"),
        (lambda: InvLin(-0.1, 3.0), "h1="),
        (lambda: InvQua(0.1, 0.0), "h2="),
        (lambda: InvLin(0.1, 3.0, weights=(1.0, -1.0)), "weights="),
    ],
)
def test_wrong_numbers_are_refused(make: object, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        make()  # type: ignore[operator]
