"""The adaptive rate in PyTorch, with real optimizers."""

import io

import numpy as np
import pytest

from papd.core.multiplier import PID, Fixed
from papd.core.rates import InvLin, InvQua
from papd.errors import ConfigError
from papd.integrations.controller import Controller
from tests.optional import needs

pytestmark = needs("torch", "torch")

COSTS = np.random.default_rng(0).gamma(2.0, 8.0, size=30)


def policy():
    import torch

    return torch.nn.Linear(3, 2)


def test_sets_the_rate_of_every_group_by_the_multiplier() -> None:
    import torch

    from papd.integrations.torch import AdaptiveRate

    optimizer = torch.optim.Adam(policy().parameters(), lr=1.0)
    adaptive = AdaptiveRate(optimizer, InvQua(0.015, 6.0), PID(), cost_limit=10.0)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.015 / 36.0)
    reference = Controller(InvQua(0.015, 6.0), PID(), 10.0)
    for cost in COSTS:
        assert adaptive.step(cost) == reference.step(cost)[0]
        assert optimizer.param_groups[0]["lr"] == reference.learning_rate == adaptive.learning_rate


def test_chosen_groups_keep_their_scale_and_the_others_their_rate() -> None:
    import torch

    from papd.integrations.torch import AdaptiveRate

    groups = [{"params": policy().parameters(), "lr": lr} for lr in (0.1, 0.2, 0.7)]
    optimizer = torch.optim.SGD(groups)
    AdaptiveRate(optimizer, InvLin(1.0, 1.0), Fixed(1.0), cost_limit=10.0, groups=(0, 1), keep_scale=True)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.5, 1.0, 0.7])


def test_a_rate_held_in_a_tensor_is_changed_in_place() -> None:
    import torch

    from papd.integrations.torch import AdaptiveRate

    held = torch.tensor(0.1)
    optimizer = torch.optim.Adam(policy().parameters(), lr=held, capturable=False)
    AdaptiveRate(optimizer, InvLin(1.0, 1.0), Fixed(1.0), cost_limit=10.0)
    assert optimizer.param_groups[0]["lr"] is held
    assert float(held) == 0.5


def test_goes_on_exactly_after_saving_through_torch() -> None:
    import torch

    from papd.integrations.torch import AdaptiveRate

    def make():
        optimizer = torch.optim.Adam(policy().parameters(), lr=1.0)
        return optimizer, AdaptiveRate(optimizer, InvQua(0.015, 6.0), cost_limit=10.0)

    _, whole = make()
    for cost in COSTS[:15]:
        whole.step(cost)
    file = io.BytesIO()
    torch.save(whole.state_dict(), file)
    file.seek(0)
    optimizer, again = make()
    again.load_state_dict(torch.load(file, weights_only=True))
    assert optimizer.param_groups[0]["lr"] == whole.learning_rate
    assert [again.step(cost) for cost in COSTS[15:]] == [whole.step(cost) for cost in COSTS[15:]]


def test_several_constraints_give_an_array() -> None:
    import torch

    from papd.integrations.torch import AdaptiveRate

    optimizer = torch.optim.SGD(policy().parameters(), lr=1.0)
    adaptive = AdaptiveRate(optimizer, InvLin(1.0, 1.0), PID(1.0, 0.0, 0.0), cost_limit=(10.0, 5.0))
    assert adaptive.step((11.0, 7.0)).tolist() == [1.0, 2.0]
    assert optimizer.param_groups[0]["lr"] == 0.25


def test_a_torch_loop_ends_within_its_limit() -> None:
    """max x with x^2 <= 4, by Adam on the Lagrangian divided by 1 + lambda."""
    import torch

    from papd.integrations.torch import AdaptiveRate

    x = torch.nn.Parameter(torch.tensor(0.0))
    optimizer = torch.optim.SGD([x], lr=1.0)
    adaptive = AdaptiveRate(optimizer, InvLin(0.5, 2.0), PID(0.05, 0.01, 0.1), cost_limit=4.0)
    for _ in range(800):
        multiplier = adaptive.step(x.item() ** 2)
        optimizer.zero_grad()
        ((-x + multiplier * x**2) / (1.0 + multiplier)).backward()
        optimizer.step()
    assert x.item() == pytest.approx(2.0, abs=0.02)
    assert adaptive.multiplier == pytest.approx(0.25, abs=0.01)


def test_mistakes_are_told() -> None:
    import torch

    from papd.integrations.torch import AdaptiveRate

    optimizer = torch.optim.SGD(policy().parameters(), lr=0.0)
    with pytest.raises(ConfigError, match="groups 0 to 0"):
        AdaptiveRate(optimizer, InvLin(1.0, 1.0), cost_limit=10.0, groups=(1,))
    with pytest.raises(ConfigError, match="groups 0 to 0"):
        AdaptiveRate(optimizer, InvLin(1.0, 1.0), cost_limit=10.0, groups=())
    with pytest.raises(ConfigError, match="above 0"):
        AdaptiveRate(optimizer, InvLin(1.0, 1.0), cost_limit=10.0, keep_scale=True)
    adaptive = AdaptiveRate(optimizer, InvLin(1.0, 1.0), cost_limit=10.0)
    with pytest.raises(ConfigError, match="no state"):
        adaptive.load_state_dict({"multiplier": {}})
