"""What `papd bench` counts and refuses."""

import jax
import jax.numpy as jnp
import pytest

from papd.agents.networks import make_mlp
from papd.cli import run
from papd.results.bench_tasks import forward_flops, step_flops


def counted(function: object, *arguments: object) -> float:
    """The multiplications and additions that XLA counts."""
    return float(jax.jit(function).lower(*arguments).compile().cost_analysis()["flops"])


def test_the_counted_work_of_a_network_is_what_xla_counts() -> None:
    import numpy as np

    rows, sizes = 256, (7, 128, 128, 2)
    network = make_mlp(np.random.default_rng(0), 7, (128, 128), 2)
    batch = jnp.ones((rows, 7))

    def total(network: object, batch: jax.Array) -> jax.Array:
        return jnp.sum(jax.vmap(network)(batch) ** 2)

    assert forward_flops(rows, sizes) == 2 * rows * (7 * 128 + 128 * 128 + 128 * 2)
    # XLA counts the activations and biases too, which are few beside the products.
    assert counted(total, network, batch) == pytest.approx(forward_flops(rows, sizes), rel=0.05)
    assert counted(jax.grad(total), network, batch) == pytest.approx(step_flops(rows, sizes), rel=0.05)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["lern"], "'lern' is no part of the benchmark; did you mean 'learn'?"),
        (["learn", "--steps", "0"], "a training is timed over 40,000 steps or more"),
        (["learn", "--steps=-5"], "steps"),
    ],
)
def test_wrong_words_measure_nothing(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", *words]) == 2
    assert said in capsys.readouterr().err
