"""PPOLag and DDPGLag: an algorithm, an environment and a train state, with learn, predict, save and load."""

import abc
import dataclasses
import functools
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from papd.agents.host_rollout import HostRollout
from papd.agents.hyper import DDPGHyper, Hyper, PPOHyper
from papd.agents.iteration import Metrics, init_state, iterate, learn_from
from papd.agents.networks import Policy, to_environment
from papd.agents.state import Controls, Counters, TrainState
from papd.core.multiplier import PID, Fixed, GradientAscent, Multiplier
from papd.core.rates import Constant, InvLin, InvQua, Rate
from papd.envs import registry
from papd.envs.cmdp import CMDP, Space
from papd.envs.host import HostEnv
from papd.errors import ConfigError, EnvironmentFault, is_finite, nearest
from papd.runs import cache
from papd.runs.checkpoint import load_tree, save_tree
from papd.runs.config import RATES, RunConfig, from_mapping
from papd.runs.folder import RunFolder
from papd.runs.provenance import provenance

Row = dict[str, float | int]
"""One iteration as ``metrics.csv`` has it, without the timings."""

Callback = Callable[["Agent", Row], bool | None]
"""Called after each iteration; an answer of False stops the run."""

RULES = {0.0: "constant", 1.0: "invlin", 2.0: "invqua"}


class Agent(abc.ABC):
    """A safe agent. Use :class:`PPOLag` or :class:`DDPGLag`."""

    algo: ClassVar[Literal["ppol", "ddpgl"]]
    hyper_class: ClassVar[type[PPOHyper] | type[DDPGHyper]]

    def __init__(
        self,
        env: Any,
        *,
        backend: Literal["bullet", "twin"] = "bullet",
        rate: Rate | None = None,
        multiplier: Multiplier | None = None,
        cost_limit: float | tuple[float, ...] = 10.0,
        cost_keys: tuple[str, ...] | None = None,
        seed: int = 0,
        workers: int | None = None,
        **hyper: Any,
    ):
        """Make an agent; see docs/agents.md. ``hyper`` are the fields of :mod:`papd.agents.hyper`."""
        self.hyper = _make_hyper(self.hyper_class, hyper)
        if not isinstance(rate, Rate | None):
            raise ConfigError(f"rate={rate!r}: give papd.Constant, papd.InvLin or papd.InvQua")
        if not isinstance(multiplier, Multiplier | None):
            raise ConfigError(f"multiplier={multiplier!r}: give papd.PID, papd.GradientAscent or papd.Fixed")
        rate = rate or InvQua(*(h or 1.0 for h in RATES[self.algo, "invqua"]))
        self._arguments = {
            "env": env if isinstance(env, str) else "",
            "backend": backend,
            "cost_keys": tuple(cost_keys or ()),
            "seed": _checked_seed(seed),
            "workers": _checked_workers(workers),
        }
        cache.enable()
        self.env: CMDP | HostEnv = registry.make(env, backend, cost_keys=cost_keys)
        self._arguments["env"] = self._arguments["env"] or self.env.name
        limits = _checked_limits(cost_limit, self.env.cost_names)
        controls = Controls(
            eqx.tree_at(lambda r: r.weights, rate, _each(rate.weights, len(limits))),
            jax.tree.map(lambda gain: _each(gain, len(limits)), multiplier or PID()),
            jnp.asarray(limits, jnp.float32),
        )
        self.state: TrainState = init_state(self.env, self.hyper, controls, seed)
        self._host = (
            HostRollout(self.env, self.hyper, workers=workers) if isinstance(self.env, HostEnv) else None
        )
        self._iteration = _iteration(self.env, self.hyper) if isinstance(self.env, CMDP) else None
        self._draws = np.random.default_rng(seed)

    def iterate(self) -> Row:
        """One iteration of Algorithm 2: collect, multiplier, rate, update."""
        if self._iteration is not None:
            state, metrics = self._iteration(self.state)
        elif self._host is not None:
            key, collect_key = jax.random.split(self.state.key)
            batch, episodes = self._host.collect(self.state.learner.policy, collect_key)
            begun = eqx.tree_at(lambda s: s.key, self.state, key)
            state, metrics = _learn_from(self.hyper, begun, batch, episodes)
        metrics = jax.device_get(metrics)
        if not metrics.finite:
            raise EnvironmentFault(
                f"{self.env.name}: an observation, reward or cost of iteration {int(state.counters.iteration)} is no "
                "finite number; papd.check_env(env) looks for the cause"
            )
        self.state = state
        return row_of(self.env.cost_names, jax.device_get(state.counters), metrics, self.faults)

    def learn(self, steps: int, callback: Callback | None = None) -> "Agent":
        """Go on for whole iterations until ``steps`` more steps are taken, or the callback answers False."""
        if isinstance(steps, bool) or not (is_finite(steps) and steps >= 1):
            raise ConfigError(f"steps={steps!r}: steps must be a number >= 1")
        if callback is not None and not callable(callback):
            raise ConfigError(
                f"callback={callback!r}: a callback is a function of the agent and the iteration's row"
            )
        goal = self.env_steps + steps
        while self.env_steps < goal:
            row = self.iterate()
            if callback is not None and callback(self, row) is False:
                break
        return self

    def predict(
        self, observation: Any, deterministic: bool = True, *, key: jax.Array | None = None
    ) -> tuple[np.ndarray, None]:
        """The action for one observation or a batch, in the environment's units (and no recurrent state)."""
        inputs = self.env.observation_space.shape[0]
        try:
            observations = np.asarray(observation, np.float32)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"observation={observation!r}: an observation is an array of numbers"
            ) from error
        if observations.ndim not in (1, 2) or observations.shape[-1] != inputs:
            raise ConfigError(
                f"observation of shape {observations.shape}: {self.env.name} has observations of shape ({inputs},), "
                f"or (n, {inputs}) for a batch"
            )
        if not np.isfinite(observations).all():
            raise ConfigError("observation is not finite: it contains NaN or infinity; mend the environment")
        if key is None:
            key = jax.random.key(int(self._draws.integers(2**31)))
        rows = np.atleast_2d(observations)
        actions = np.asarray(act(self.env.action_space, self.state.learner.policy, key, rows, deterministic))
        return (np.asarray(actions[0]) if observations.ndim == 1 else actions), None

    @property
    def env_steps(self) -> int:
        """Steps taken so far."""
        return int(self.state.counters.env_steps)

    @property
    def faults(self) -> int:
        """Worker processes replaced so far."""
        return 0 if self._host is None else self._host.faults

    def config(self) -> dict[str, Any]:
        """What this agent is, as the fields of :class:`papd.runs.config.RunConfig`: enough to make it again."""
        controls = self.state.controls
        return {
            **self._arguments,
            "algo": self.algo,
            "cost_limit": _numbers(controls.limits),
            **_rate_fields(controls.rate),
            **_multiplier_fields(controls.multiplier),
            "hyper": dataclasses.asdict(self.hyper),
        }

    def save(self, folder: str | Path) -> None:
        """Write the whole train state, the configuration and the policy into ``folder``."""
        run = RunFolder(Path(folder))
        iteration = int(self.state.counters.iteration)
        run.write_config(from_mapping(self.config()).resolved().to_json(), provenance(sys.argv))
        save_tree(run.checkpoint(iteration), self.state, {"iteration": iteration})
        save_tree(run.policy, self.state.learner.policy, {"iteration": iteration})
        run.forget_after(iteration)

    def close(self) -> None:
        """Stop the worker processes, if any. An agent that is dropped does so by itself."""
        if self._host is not None:
            self._host.close()


def row_of(names: tuple[str, ...], counters: Counters, metrics: Metrics, faults: int) -> Row:
    """The metrics row of an iteration: ``names`` are the constraints', values are numbers or host arrays."""
    costs, multipliers = metrics.episodes.cost_mean, metrics.multiplier
    row: Row = {
        "iteration": int(counters.iteration),
        "env_steps": int(counters.env_steps),
        "episodes": int(counters.episodes),
        "return_mean": float(metrics.episodes.return_mean),
        "cost_mean": float(costs.sum()),
        "multiplier": float(multipliers.sum()),
        "learning_rate": float(metrics.learning_rate),
    }
    if len(names) > 1:
        row |= {f"cost_mean_{n}": float(c) for n, c in zip(names, costs, strict=True)}
        row |= {f"multiplier_{n}": float(v) for n, v in zip(names, multipliers, strict=True)}
    return row | {
        "policy_loss": float(metrics.losses.policy_loss),
        "critic_loss": float(metrics.losses.critic_loss),
        "kl": float(metrics.losses.kl),
        "entropy": float(metrics.losses.entropy),
        "updates": int(counters.updates),
        "skipped_updates": int(counters.skipped),
        "faults": faults,
    }


class PPOLag(Agent):
    """PPO-Lagrangian whose learning rate follows the multiplier."""

    algo = "ppol"
    hyper_class = PPOHyper


class DDPGLag(Agent):
    """DDPG-Lagrangian whose policy's learning rate follows the multiplier."""

    algo = "ddpgl"
    hyper_class = DDPGHyper


AGENTS: dict[str, type[Agent]] = {"ppol": PPOLag, "ddpgl": DDPGLag}


def from_config(config: RunConfig | Mapping[str, Any], env: Any = None) -> Agent:
    """The agent that a configuration describes; ``env`` stands in for an environment that only an object can give."""
    resolved = (config if isinstance(config, RunConfig) else from_mapping(config)).resolved()
    return AGENTS[resolved.algo](
        resolved.env if env is None else env,
        backend=resolved.backend,
        rate=make_rate(resolved),
        multiplier=make_multiplier(resolved),
        cost_limit=_one_or_each(resolved.cost_limit),
        cost_keys=resolved.cost_keys or None,
        seed=resolved.seed,
        workers=resolved.workers,
        **dataclasses.asdict(resolved.hyper),
    )


def load(folder: str | Path, env: Any = None) -> Agent:
    """The agent saved in ``folder`` (by ``save`` or ``papd train``): ``learn`` goes on exactly where it was."""
    run = RunFolder(Path(folder))
    agent = from_config(from_mapping(run.read_config(), where=str(run.config)), env)
    state, _ = run.newest(lambda iteration: load_tree(run.checkpoint(iteration), agent.state)[0])
    if state is not None:
        agent.state = state
    return agent


def make_rate(config: RunConfig) -> Rate:
    """The rate of a resolved configuration."""
    weights = _one_or_each(config.rate_weights)
    if config.h1 is None or (config.h2 is None and config.lr != "constant"):
        raise ConfigError(f"lr={config.lr!r} needs h1 and h2: resolve the configuration first")
    if config.lr == "constant":
        return Constant(config.h1)
    rule = InvLin if config.lr == "invlin" else InvQua
    return rule(config.h1, config.h2 or 1.0, weights=weights)


def make_multiplier(config: RunConfig) -> Multiplier:
    """The multiplier's rule of a resolved configuration."""
    cap = math.inf if config.multiplier_cap is None else config.multiplier_cap
    if config.multiplier == "fixed":
        return Fixed(_one_or_each(config.multiplier_fixed))
    if config.multiplier == "ascent":
        return GradientAscent(_one_or_each(config.multiplier_step), cap=cap)
    gains = (_one_or_each(gain) for gain in (config.kp, config.ki, config.kd))
    return PID(*gains, signed_derivative=config.signed_derivative, cap=cap)


def _iteration(env: CMDP, hyper: Hyper) -> Callable[[TrainState], tuple[TrainState, Metrics]]:
    """:func:`iterate`, compiled, for one environment.

    ``equinox.filter_jit`` sorts what is an array from what is not in every call, which takes 2 ms of an iteration of
    27; here it is done once. Agents whose environments and hyper-parameters are equal share a program.
    """
    arrays, rest = eqx.partition(env, eqx.is_array)
    leaves, structure = jax.tree.flatten(rest)
    program = _program(structure, tuple(leaves), hyper)
    return lambda state: program(arrays, state)


@functools.lru_cache(maxsize=64)
def _program(structure: Any, leaves: tuple[Any, ...], hyper: Hyper) -> Any:
    rest = jax.tree.unflatten(structure, leaves)
    return jax.jit(lambda arrays, state: iterate(eqx.combine(arrays, rest), hyper, state))


_learn_from = jax.jit(learn_from, static_argnums=0)


@eqx.filter_jit
def act(space: Space, policy: Policy, key: jax.Array, observations: Any, deterministic: bool) -> jax.Array:
    """Actions in the environment's units for a batch of observations."""
    if deterministic:
        actions = jax.vmap(policy.mode)(observations)
    else:
        actions = jax.vmap(policy.sample)(jax.random.split(key, observations.shape[0]), observations)
    return jax.vmap(lambda action: to_environment(space, action))(actions)


def _make_hyper(kind: type[PPOHyper] | type[DDPGHyper], values: dict[str, Any]) -> Hyper:
    known = {field.name for field in dataclasses.fields(kind)}
    for name in values:
        if name not in known:
            raise ConfigError(f"unknown argument {name!r}{nearest(name, known)}")
    if isinstance(values.get("hidden_sizes"), list):
        values["hidden_sizes"] = tuple(values["hidden_sizes"])
    return kind(**values)


def _checked_seed(seed: Any) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
        raise ConfigError(f"seed={seed!r}: a seed is a whole number >= 0 and below 2**32")
    return int(seed)


def _checked_workers(workers: Any) -> int | None:
    if workers is None:
        return None
    if isinstance(workers, bool) or not isinstance(workers, int | np.integer) or workers < 0:
        raise ConfigError(
            f"workers={workers!r}: a whole number >= 0 (0: step in this process), or None for one a core"
        )
    return int(workers)


def _checked_limits(cost_limit: float | tuple[float, ...], names: tuple[str, ...]) -> tuple[float, ...]:
    limits = tuple(np.atleast_1d(np.asarray(cost_limit, dtype=object)).tolist())
    if len(limits) != len(names):
        raise ConfigError(
            f"cost_limit={cost_limit}: {len(names)} constraint{'s' * (len(names) > 1)} ({', '.join(names)}) "
            f"need{'s' * (len(names) == 1)} {len(names)} limit{'s' * (len(names) > 1)}, one each"
        )
    if not all(is_finite(limit) and limit >= 0 for limit in limits):
        raise ConfigError(f"cost_limit={cost_limit!r}: a limit must be a finite number >= 0")
    return tuple(float(limit) for limit in limits)


def _each(value: jax.Array, constraints: int) -> jax.Array:
    """One value for each constraint."""
    if value.size not in (1, constraints):
        raise ConfigError(
            f"{_numbers(value)}: one value for all constraints or one for each of the {constraints}, not {value.size}"
        )
    return jnp.broadcast_to(value.reshape(-1), (constraints,))


def _one_or_each(values: tuple[float, ...]) -> float | tuple[float, ...]:
    return values if len(values) > 1 else values[0]


def _numbers(values: Any) -> list[float]:
    """Float32 values as the shortest decimals that give them back."""
    return [float(str(np.float32(value))) for value in np.atleast_1d(np.asarray(values))]


def _rate_fields(rate: Rate) -> dict[str, Any]:
    rule = RULES.get(float(rate.power))
    if rule is None:
        raise ConfigError(
            f"a rate of power {float(rate.power)} cannot be saved: use Constant, InvLin or InvQua"
        )
    fields: dict[str, Any] = {"lr": rule, "h1": _numbers(rate.h1)[0], "rate_weights": _numbers(rate.weights)}
    return fields if rule == "constant" else fields | {"h2": _numbers(rate.h2)[0]}


def _multiplier_fields(rule: Multiplier) -> dict[str, Any]:
    if isinstance(rule, Fixed):
        return {"multiplier": "fixed", "multiplier_fixed": _numbers(rule.value)}
    cap = float(np.max(np.asarray(rule.cap)))
    capped = {} if math.isinf(cap) else {"multiplier_cap": _numbers(rule.cap)[0]}
    if isinstance(rule, GradientAscent):
        return {"multiplier": "ascent", "multiplier_step": _numbers(rule.step), **capped}
    gains = {name: _numbers(getattr(rule, name)) for name in ("kp", "ki", "kd")}
    return {"multiplier": "pid", **gains, "signed_derivative": rule.signed_derivative, **capped}
