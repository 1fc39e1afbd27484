"""How many runs step together: as many as fit into the memory of the device."""

import math
import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

SHARE = 0.8
"""Of the free memory, what a population may take."""


def compile_largest(
    step: Callable[[Any], Any], example: Any, count: int, free: int | None = None
) -> tuple[int, Callable[[Any], Any]]:
    """``step`` compiled for a population of ``count`` states like ``example``, or the half of it that fits, and so on.

    The compiler says what a program takes; ``free`` is the memory in bytes, the device's by default.
    """
    room = SHARE * (_free() if free is None else free)
    size = count
    while True:
        compiled = jax.jit(step).lower(_shapes(example, size)).compile()
        if size == 1 or _needed(compiled) <= room:
            return size, compiled
        size = math.ceil(size / 2)


def _shapes(example: Any, size: int) -> Any:
    stacked = jax.vmap(lambda _: example, axis_size=size)
    return jax.eval_shape(stacked, jnp.zeros(size))


def _needed(compiled: jax.stages.Compiled) -> int:
    found: Any = compiled.memory_analysis()
    return int(found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes)


def _free() -> int:
    """An accelerator's free memory; the machine's where the device is the CPU."""
    device = jax.devices()[0]
    found = device.memory_stats() if device.platform != "cpu" else None
    if found is not None:
        return int(found["bytes_limit"] - found["bytes_in_use"])
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
