"""The adaptive rate for an Optax loop: a multiplier is an argument of ``update``, or a value in the optimizer's state.

    optimizer = adaptive(optax.adam, papd.InvQua(0.015, 6.0), eps=1e-5)
    updates, state = optimizer.update(gradients, state, params, multiplier=multiplier)

The multiplier is traced: however it moves, a compiled step stays compiled.
"""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from papd.core.rates import Rate
from papd.errors import ConfigError

Given = Float[Array, ""] | Float[Array, " _"] | float


class AdaptiveRateState(NamedTuple):
    """The multiplier that the rate follows, and the rate of the last update."""

    multiplier: Float[Array, " m"]
    rate: Float[Array, ""]


class AdaptiveState(NamedTuple):
    """The multiplier that the rate follows, and the state of the optimizer under it."""

    multiplier: Float[Array, " m"]
    inner: Any


def adaptive_rate(rate: Rate, constraints: int = 1) -> optax.GradientTransformationExtraArgs:
    """Scale updates by -eta(lambda): last in an ``optax.chain``, as ``scale_by_learning_rate`` is for a number."""

    def init(params: optax.Params) -> AdaptiveRateState:
        start = jnp.zeros(constraints)
        return AdaptiveRateState(start, rate(start))

    def update(
        updates: optax.Updates,
        state: AdaptiveRateState,
        params: optax.Params | None = None,
        *,
        multiplier: Given | None = None,
        **_: Any,
    ) -> tuple[optax.Updates, AdaptiveRateState]:
        current = _current(state.multiplier, multiplier)
        eta = rate(current)
        scaled = jax.tree.map(lambda leaf: -eta.astype(leaf.dtype) * leaf, updates)
        return scaled, AdaptiveRateState(current, eta)

    return optax.GradientTransformationExtraArgs(init, update)


def adaptive(
    factory: Callable[..., optax.GradientTransformation], rate: Rate, constraints: int = 1, **hyper: Any
) -> optax.GradientTransformationExtraArgs:
    """An Optax optimizer (``optax.adam``, ``optax.adamw``, ...) whose learning rate is eta(lambda) at each update."""
    if "learning_rate" in hyper:
        raise ConfigError("learning_rate: the rate sets it; leave it out")
    names = tuple(inspect.signature(factory).parameters)
    if "learning_rate" not in names:
        raise ConfigError(
            "this factory has no learning_rate to adapt; adaptive_rate at the end of a chain needs none"
        )
    # Only the rate is traced: every other number stays the Python float that the factory alone would compute with.
    injected = optax.inject_hyperparams(
        factory, static_args=[name for name in names if name != "learning_rate"]
    )

    def optimizer(eta: Float[Array, ""]) -> optax.GradientTransformationExtraArgs:
        return optax.with_extra_args_support(injected(learning_rate=eta, **hyper))

    def init(params: optax.Params) -> AdaptiveState:
        start = jnp.zeros(constraints)
        return AdaptiveState(start, optimizer(rate(start)).init(params))

    def update(
        updates: optax.Updates,
        state: AdaptiveState,
        params: optax.Params | None = None,
        *,
        multiplier: Given | None = None,
        **extra: Any,
    ) -> tuple[optax.Updates, AdaptiveState]:
        current = _current(state.multiplier, multiplier)
        eta = rate(current)
        inner = state.inner._replace(hyperparams={**state.inner.hyperparams, "learning_rate": eta})
        moved, inner = optimizer(eta).update(updates, inner, params, **extra)
        return moved, AdaptiveState(current, inner)

    return optax.GradientTransformationExtraArgs(init, update)


def set_multiplier(state: Any, multiplier: Given) -> Any:
    """The optimizer state, however nested, with another multiplier: for loops that pass ``update`` no argument."""
    found = optax.tree.get_all_with_path(state, "multiplier")
    if len(found) != 1:
        raise ConfigError(
            f"this optimizer state holds {len(found)} multipliers: it must have one adaptive rate in it"
        )
    return optax.tree.set(state, multiplier=_current(found[0][1], multiplier))


def _current(held: Float[Array, " m"], given: Given | None) -> Float[Array, " m"]:
    if given is None:
        return held
    value = jnp.atleast_1d(jnp.asarray(given, held.dtype))
    if value.shape != held.shape:
        raise ConfigError(f"{value.size} multipliers for a rate of {held.size}: say constraints={value.size}")
    return value
