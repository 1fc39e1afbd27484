"""An agent of a few numbers that follows the contract of the real ones: its iteration is a function of its state."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from papd.errors import EnvironmentFault
from papd.runs.config import RunConfig

STEPS = 100


class Learner(NamedTuple):
    policy: np.ndarray
    moment: np.ndarray


class State(NamedTuple):
    learner: Learner
    iteration: np.ndarray
    skipped: np.ndarray


class FakeAgent:
    """Return and cost walk at random, as the policy does; ``bad_from`` on, every update is skipped."""

    def __init__(self, *, bad_from: int = 10**9, fault_at: int = 10**9):
        self.state = State(Learner(np.zeros(3), np.zeros(3)), np.asarray(0), np.asarray(0))
        self.bad_from, self.fault_at = bad_from, fault_at

    def iterate(self) -> dict[str, float | int]:
        iteration = int(self.state.iteration) + 1
        if iteration == self.fault_at:
            raise EnvironmentFault("fake: a worker died five times in a row")
        draw = np.random.default_rng(iteration)
        moment = self.state.learner.moment * 0.9 + draw.normal(size=3)
        policy = self.state.learner.policy + 0.1 * moment
        skipped = int(self.state.skipped) + (iteration >= self.bad_from)
        self.state = State(Learner(policy, moment), np.asarray(iteration), np.asarray(skipped))
        return {
            "iteration": iteration,
            "env_steps": iteration * STEPS,
            "episodes": iteration * 2,
            "return_mean": float(policy[0]),
            "cost_mean": float(abs(policy[1]) * 20),
            "multiplier": float(abs(policy[2])),
            "learning_rate": 1e-4,
            "policy_loss": float("nan") if iteration == 1 else 0.1,
            "critic_loss": 0.2,
            "kl": 0.01,
            "entropy": 1.0,
            "updates": iteration * 4,
            "skipped_updates": skipped,
            "faults": 0,
        }


def config(**values: object) -> RunConfig:
    """A resolved configuration of a short run."""
    return replace(RunConfig(env="Fake-v0", steps=20 * STEPS), **values).resolved()
