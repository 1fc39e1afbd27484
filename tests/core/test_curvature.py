"""The ends of a spectrum against spectra that are known, and products against finite differences."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from papd.core.curvature import hessian_product, spectrum_ends
from papd.core.linear import solve


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def with_spectrum(values: np.ndarray, seed: int = 0) -> np.ndarray:
    basis, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(values.size, values.size)))
    return np.asarray((basis * values) @ basis.T)


@pytest.mark.parametrize(("low", "high"), [(-3.0, 5.0), (0.1, 40.0), (-7.0, -0.5)])
def test_ends_of_a_known_spectrum(low: float, high: float) -> None:
    matrix = jnp.asarray(with_spectrum(np.linspace(low, high, 200)))
    ends = spectrum_ends(lambda t: 0.5 * t @ matrix @ t, jnp.ones(200), jax.random.key(0), products=60)
    assert float(ends.lowest) == pytest.approx(low, abs=2e-3 * (high - low))
    assert float(ends.highest) == pytest.approx(high, abs=2e-3 * (high - low))
    assert float(ends.lipschitz) == pytest.approx(max(abs(low), abs(high)), rel=1e-2)


def test_small_matrix_is_exact_and_the_scale_counts() -> None:
    values = np.array([-2.0, 0.5, 1.0, 4.0])
    matrix, scale = with_spectrum(values), np.array([1.0, 2.0, 0.5, 3.0])
    loss = lambda t: 0.5 * t @ jnp.asarray(matrix) @ t + jnp.sum(t)  # noqa: E731
    plain = spectrum_ends(loss, jnp.zeros(4), jax.random.key(1))
    np.testing.assert_allclose([plain.lowest, plain.highest], [-2.0, 4.0], rtol=1e-9)
    assert float(plain.residual) < 1e-9
    scaled = spectrum_ends(loss, jnp.zeros(4), jax.random.key(1), scale=jnp.asarray(scale))
    expected = np.linalg.eigvalsh(scale[:, None] * matrix * scale[None, :])
    np.testing.assert_allclose([scaled.lowest, scaled.highest], expected[[0, -1]], rtol=1e-9)


def test_product_is_the_difference_of_gradients() -> None:
    loss = lambda t: jnp.sum(jnp.sin(t) * t**2) + jnp.prod(t)  # noqa: E731
    at, direction = jnp.asarray([0.3, -1.0, 2.0]), jnp.asarray([1.0, 0.5, -0.2])
    gradient, width = jax.grad(loss), 1e-6
    expected = (gradient(at + width * direction) - gradient(at - width * direction)) / (2 * width)
    np.testing.assert_allclose(hessian_product(loss, at, direction), expected, rtol=1e-6)


@pytest.mark.parametrize("size", [1, 6, 25])
def test_elimination_solves_what_lapack_solves(size: int) -> None:
    rng = np.random.default_rng(size)
    definite = with_spectrum(np.geomspace(1.0, 100.0, size), size)
    chain = np.eye(size) - 0.9 * rng.dirichlet(np.ones(size), size=size)
    right = rng.normal(size=size)
    for matrix in (definite, chain.T):
        np.testing.assert_allclose(
            solve(jnp.asarray(matrix), jnp.asarray(right)),
            np.linalg.solve(matrix, right),
            rtol=1e-10,
            atol=1e-12,
        )
