"""Multiplier and rate in plain float64 numbers, for loops that run outside JAX.

The rules are those of :mod:`papd.core`, read once into NumPy: no JAX runs, and nothing compiles, between two steps of
someone else's training loop. tests/integrations/test_controller.py holds both to each other.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from papd.core.multiplier import PID, Fixed, GradientAscent, Multiplier
from papd.core.rates import Rate
from papd.errors import ConfigError, EnvironmentFault

STATE = ("value", "integral", "error")


class Controller:
    """mean episode costs -> lambda -> eta, one step an iteration."""

    def __init__(self, rate: Rate, multiplier: Multiplier, cost_limit: float | Sequence[float]):
        self._limits = np.atleast_1d(np.asarray(cost_limit, dtype=np.float64))
        if self._limits.ndim != 1 or not np.all(np.isfinite(self._limits) & (self._limits >= 0)):
            raise ConfigError(
                f"cost_limit={cost_limit}: a limit is a finite number >= 0, or one each in a tuple"
            )
        self._rule = multiplier
        self._gains = _numbers(multiplier, self.constraints, "multiplier")
        self._rate = _numbers(rate, self.constraints, "rate")
        zeros = np.zeros(self.constraints)
        start = zeros + self._gains["value"] if isinstance(multiplier, Fixed) else zeros
        self._state = {"value": start, "integral": zeros, "error": zeros}

    @property
    def constraints(self) -> int:
        """How many costs a step takes."""
        return int(self._limits.size)

    @property
    def multiplier(self) -> np.ndarray:
        """lambda, one number a constraint."""
        return self._state["value"].copy()

    @property
    def learning_rate(self) -> float:
        """eta = h1 / (w . lambda + h2) ** power (:class:`papd.core.rates.Rate`)."""
        h1, h2, power, weights = (self._rate[name] for name in ("h1", "h2", "power", "weights"))
        return float(h1 / (np.sum(weights * self._state["value"]) + h2) ** power)

    def step(self, costs: float | Sequence[float] | np.ndarray) -> np.ndarray:
        """One step of the multiplier on an iteration's mean episode costs; the new lambda."""
        given = np.atleast_1d(np.asarray(costs, dtype=np.float64))
        if given.shape != self._limits.shape:
            raise ConfigError(f"{given.size} costs for {self.constraints} cost limits: give one for each")
        if not np.all(np.isfinite(given)):
            raise EnvironmentFault(
                f"mean episode cost {costs} is no number; skip the step when no episode has ended"
            )
        error = given - self._limits
        self._state = {**self._moved(error), "error": error}
        return self.multiplier

    def _moved(self, error: np.ndarray) -> dict[str, np.ndarray]:
        """lambda and the integral after ``error``: the formulas of :mod:`papd.core.multiplier`."""
        gains, state = self._gains, self._state
        if isinstance(self._rule, PID):
            growth = error - state["error"]
            derivative = growth if self._rule.signed_derivative else np.maximum(growth, 0.0)
            integral = np.maximum(state["integral"] + error, 0.0)
            value = gains["kp"] * error + gains["ki"] * integral + gains["kd"] * derivative
            return {"value": np.clip(value, 0.0, gains["cap"]), "integral": integral}
        if isinstance(self._rule, GradientAscent):
            value = np.clip(state["value"] + gains["step"] * error, 0.0, gains["cap"])
            return {"value": value, "integral": state["integral"]}
        return {"value": state["value"], "integral": state["integral"]}

    def state_dict(self) -> dict[str, list[float]]:
        """What the multiplier remembers, as plain lists: to save anywhere and go on exactly."""
        return {name: self._state[name].tolist() for name in STATE}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a :meth:`state_dict`."""
        if set(state) != set(STATE):
            raise ConfigError(
                f"this state has {', '.join(sorted(state))}; a multiplier's has {', '.join(STATE)}"
            )
        arrays = {name: np.asarray(state[name], dtype=np.float64) for name in STATE}
        wrong = [name for name, array in arrays.items() if array.shape != self._limits.shape]
        if wrong:
            raise ConfigError(
                f"the state's {wrong[0]} is for {arrays[wrong[0]].size} constraints, this is one of {self.constraints}"
            )
        self._state = arrays


def _numbers(module: Rate | Multiplier, constraints: int, name: str) -> dict[str, np.ndarray]:
    """The arrays of a rule as float64, each one number or one a constraint."""
    fields = {key: value for key, value in vars(module).items() if not isinstance(value, bool)}
    arrays = {key: np.asarray(value, dtype=np.float64) for key, value in fields.items()}
    for key, array in arrays.items():
        if array.shape not in ((), (1,), (constraints,)):
            raise ConfigError(f"the {name}'s {key} has {array.size} values for {constraints} cost limits")
    return arrays


def scalar_or_all(values: np.ndarray) -> float | np.ndarray:
    """One constraint's multiplier as a number, several as an array."""
    return float(values[0]) if math.prod(values.shape) == 1 else values
