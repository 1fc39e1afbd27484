"""The adaptive rate for a PyTorch loop: two lines beside the optimizer.

adaptive = AdaptiveRate(optimizer, papd.InvQua(0.015, 6.0), papd.PID(), cost_limit=10.0)
multiplier = adaptive.step(mean_episode_cost)      # once an iteration; sets the optimizer's learning rate
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from papd.core.multiplier import PID, Multiplier
from papd.core.rates import Rate
from papd.errors import ConfigError
from papd.integrations.controller import Controller, scalar_or_all


class AdaptiveRate:
    """Moves a multiplier on the mean episode cost and sets the rate of an optimizer's parameter groups by it.

    ``groups`` chooses the policy's parameter groups by number where the optimizer has others too (a critic's). With
    ``keep_scale`` their rates keep the ratios they have now, the first chosen group following the rule itself.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        rate: Rate,
        multiplier: Multiplier | None = None,
        *,
        cost_limit: float | Sequence[float],
        groups: Sequence[int] | None = None,
        keep_scale: bool = False,
    ):
        self._controller = Controller(rate, PID() if multiplier is None else multiplier, cost_limit)
        count = len(optimizer.param_groups)
        chosen = range(count) if groups is None else groups
        wrong = [number for number in chosen if not 0 <= number < count]
        if wrong or not chosen:
            raise ConfigError(f"groups={groups}: the optimizer has the parameter groups 0 to {count - 1}")
        self._groups = [optimizer.param_groups[number] for number in chosen]
        rates = [float(group["lr"]) for group in self._groups]
        if keep_scale and not rates[0] > 0:
            raise ConfigError(
                f"keep_scale: the first group's learning rate is {rates[0]}; ratios to it need one above 0"
            )
        self._scales = [own / rates[0] if keep_scale else 1.0 for own in rates]
        self._apply()

    @property
    def multiplier(self) -> float | np.ndarray:
        """lambda: a number for one cost limit, an array for several."""
        return scalar_or_all(self._controller.multiplier)

    @property
    def learning_rate(self) -> float:
        """eta at this multiplier."""
        return self._controller.learning_rate

    def step(self, mean_episode_cost: float | Sequence[float] | np.ndarray) -> float | np.ndarray:
        """Once an iteration, before the policy's update: the new multiplier; the rates are set."""
        self._controller.step(mean_episode_cost)
        self._apply()
        return self.multiplier

    def _apply(self) -> None:
        for group, scale in zip(self._groups, self._scales, strict=True):
            rate = self.learning_rate * scale
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(rate)  # A captured graph reads this tensor: a new one it would never see.
            else:
                group["lr"] = rate

    def state_dict(self) -> dict[str, Any]:
        """The multiplier's memory and the groups' ratios: plain lists, for ``torch.save`` or JSON."""
        return {"multiplier": self._controller.state_dict(), "scales": list(self._scales)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on exactly where :meth:`state_dict` was taken; the optimizer's rates are set."""
        if set(state) != {"multiplier", "scales"} or len(state["scales"]) != len(self._scales):
            raise ConfigError(
                f"this is no state of an AdaptiveRate over {len(self._scales)} parameter groups"
            )
        self._controller.load_state_dict(state["multiplier"])
        self._scales = [float(scale) for scale in state["scales"]]
        self._apply()
