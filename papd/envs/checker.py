"""``check_env``: what is wrong with an environment, JAX or Gymnasium, one line each, with what to write instead."""

from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from papd.envs.cmdp import CMDP, Box, Discrete, Space, Step
from papd.envs.examine import AnyEnv, problems
from papd.envs.host import HostEnv
from papd.envs.registry import Env, make
from papd.envs.sources import Source, own_generators
from papd.envs.stepping import GymnasiumStepper, in_one_line
from papd.errors import PapdError

COPIES = 3
"""Environments side by side in the trial of a CMDP."""

LONGEST_TRIAL = 10_000
"""Steps after which a CMDP is believed never to end its episodes."""


def check_env(env: Env, *, cost_keys: tuple[str, ...] | None = None) -> list[str]:
    """What keeps papd from training in ``env`` (whatever ``papd.make`` takes): one line each; none if all is well."""
    if isinstance(env, gymnasium.Env):
        return [*problems(env, _name_of(env), cost_keys, None), *_seed_problems(env)]
    try:
        made = make(env, cost_keys=cost_keys)
    except PapdError as error:
        return [str(error)]
    return list(_cmdp_problems(made)) if isinstance(made, CMDP) else _host_problems(made)


def _name_of(env: AnyEnv) -> str:
    return type(env.unwrapped).__name__ if env.spec is None else env.spec.id


def _host_problems(env: HostEnv) -> list[str]:
    stepper = env.source.build() if isinstance(env.source, Source) else env.source()
    try:
        return list(_seed_problems(stepper.env)) if isinstance(stepper, GymnasiumStepper) else []
    finally:
        stepper.close()


def _seed_problems(env: AnyEnv) -> Iterator[str]:
    """The first observation must be a function of the seed (and of NumPy's and Python's global generators)."""
    first = []
    for _ in range(2):
        with own_generators(7):
            try:
                observation, _ = env.reset(seed=7)
            except Exception:  # Its own line of `problems` tells.
                return
        first.append(np.asarray(observation))
    if not np.array_equal(first[0], first[1]):
        yield (
            f"{_name_of(env)}: reset(seed=7) gave two different observations: draw from self.np_random, which "
            "super().reset(seed=seed) seeds"
        )


def _cmdp_problems(env: CMDP) -> Iterator[str]:
    """Declarations first; then one traced step; then episodes, if the step can be traced."""
    yield from _declaration_problems(env)
    key = jax.random.key(0)
    action = _action(env.action_space, key)
    traced, problem = _trace(env, key, action)
    if problem is not None:
        yield problem
        return
    step = traced[1]
    if not isinstance(step, Step):
        yield f"step returned a {type(step).__name__}: it must return papd.envs.cmdp.Step"
        return
    wrong = [*_shape_problems(env, traced), *_state_problems(traced)]
    yield from wrong
    if not wrong:
        yield from _trial_problems(env)


def _declaration_problems(env: CMDP) -> Iterator[str]:
    if not env.cost_names or len(set(env.cost_names)) < len(env.cost_names):
        yield f"cost_names={env.cost_names}: name one or more costs, each once"
    if not (isinstance(env.max_episode_steps, int) and env.max_episode_steps >= 1):
        yield f"max_episode_steps={env.max_episode_steps!r}: a whole number >= 1 is needed"
    space = env.action_space
    if isinstance(space, Box) and not np.isfinite(np.concatenate(space.bounds())).all():
        yield f"action_space={space}: actions need finite bounds, agents scale to them"
    if isinstance(space, Box) and not (np.less(*space.bounds())).all():
        yield f"action_space={space}: low must be below high"
    if isinstance(space, Discrete) and space.n < 2:
        yield f"action_space={space}: at least two actions are needed"


def _action(space: Space, key: jax.Array, count: int | None = None) -> jax.Array:
    shape = () if count is None else (count,)
    if isinstance(space, Discrete):
        return jax.random.randint(key, shape, 0, space.n, jnp.int32)
    low, high = space.bounds()
    unit = jax.random.uniform(key, (*shape, len(low)))
    return jnp.broadcast_to(low, unit.shape) + jnp.broadcast_to(high - low, unit.shape) * unit


def _trace(env: CMDP, key: jax.Array, action: jax.Array) -> tuple[Any, str | None]:
    """Shapes of reset and step under jit and vmap, or why they cannot be compiled."""
    keys, actions = jnp.stack([key] * COPIES), jnp.stack([action] * COPIES)
    steps: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("reset cannot be compiled by jax.jit", lambda: jax.eval_shape(env.reset, key)),
        ("step cannot be compiled by jax.jit", lambda: jax.eval_shape(_reset_and_step(env), key, action)),
        (
            "step cannot be mapped by jax.vmap",
            lambda: jax.eval_shape(jax.vmap(_reset_and_step(env)), keys, actions),
        ),
    )
    results = []
    for what, run in steps:
        try:
            results.append(run())
        except Exception as error:  # A stranger's environment may raise anything.
            return (
                None,
                f"{what}: {in_one_line(error)} (no Python branches on traced values: jnp.where, lax.cond)",
            )
    return (results[0], results[1]), None


def _reset_and_step(env: CMDP) -> Callable[[jax.Array, jax.Array], Any]:
    return lambda key, action: env.step(key, env.reset(key)[0], action)


def _shape_problems(env: CMDP, traced: Any) -> Iterator[str]:
    (_, first), step = traced
    size, costs = len(env.observation_space.low), len(env.cost_names)
    wanted = {
        "the observation of reset": (first, (size,), jnp.floating),
        "the observation of step": (step.observation, (size,), jnp.floating),
        "the reward": (step.reward, (), jnp.floating),
        "the cost": (step.cost, (costs,), jnp.floating),
        "terminated": (step.terminated, (), jnp.bool_),
        "truncated": (step.truncated, (), jnp.bool_),
    }
    for what, (value, shape, kind) in wanted.items():
        found = jax.eval_shape(jnp.asarray, value)
        named = "float32" if kind is jnp.floating else "bool"
        if found.shape != shape or not jnp.issubdtype(found.dtype, kind):
            yield f"{what} is {found.dtype}{list(found.shape)}: it must be {named}{list(shape)}"


def _state_problems(traced: Any) -> Iterator[str]:
    """A scan carries the state: it must keep its structure, shapes and types."""
    (state, _), step = traced
    before: Any = jax.tree.structure(state)
    after: Any = jax.tree.structure(step.state)
    if before != after:
        yield f"the state of reset is {before}, that of step {after}: they must be the same pytree"
        return
    for place, (old, new) in enumerate(zip(jax.tree.leaves(state), jax.tree.leaves(step.state), strict=True)):
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            yield (
                f"leaf {place} of the state is {old.dtype}{list(old.shape)} after reset and "
                f"{new.dtype}{list(new.shape)} after step: they must agree"
            )


def _trial_problems(env: CMDP) -> Iterator[str]:
    """Whole episodes with random actions, in a few environments side by side."""
    yield from _purity_problems(env)
    limit = min(env.max_episode_steps, LONGEST_TRIAL)
    played = _play(env, jax.random.split(jax.random.key(1), COPIES), limit)
    first, steps = jax.tree.map(np.asarray, played)
    running = np.ones(COPIES, bool)
    problem = _observation_problem(env.observation_space, first, running, "reset")
    for number in range(limit):
        if problem is not None or not running.any():
            break
        step = jax.tree.map(lambda leaf, place=number: leaf[place], steps)
        problem = _step_problem(env, step, running, f"step {number + 1}")
        running &= ~(step.terminated | step.truncated)
    if problem is not None:
        yield problem
    elif running.any() and env.max_episode_steps <= LONGEST_TRIAL:
        yield (
            f"an episode went on after max_episode_steps={env.max_episode_steps}: "
            "count the steps in the state and set truncated then"
        )


@eqx.filter_jit
def _play(env: CMDP, keys: jax.Array, limit: int) -> tuple[Any, Step]:
    state, first = jax.vmap(env.reset)(keys)

    def step(state: Any, number: jax.Array) -> tuple[Any, Step]:
        step_keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, number)
        result = jax.vmap(env.step)(step_keys, state, _action(env.action_space, step_keys[0], COPIES))
        return result.state, result._replace(state=None)

    return first, jax.lax.scan(step, state, jnp.arange(limit))[1]


def _purity_problems(env: CMDP) -> Iterator[str]:
    """Run twice as plain Python, where a draw from NumPy or a changed attribute would show."""
    key = jax.random.key(3)
    action = _action(env.action_space, key)
    if not eqx.tree_equal(env.reset(key), env.reset(key)):
        yield "reset gave two different results for one key: draw from the key only, with jax.random"
        return
    state, _ = env.reset(key)
    if not eqx.tree_equal(env.step(key, state, action), env.step(key, state, action)):
        yield (
            "step gave two different results for one key, state and action: draw from the key only, and keep "
            "what changes in the state"
        )


def _step_problem(env: CMDP, result: Step, running: np.ndarray, where: str) -> str | None:
    for name, value in (("reward", result.reward), ("cost", result.cost)):
        wrong = running & ~np.isfinite(np.asarray(value).reshape(COPIES, -1)).all(axis=1)
        if wrong.any():
            return f"{where} gave the {name} {np.asarray(value)[wrong][0].tolist()}: it must be finite"
    return _observation_problem(env.observation_space, result.observation, running, where)


def _observation_problem(space: Box, observation: Any, running: np.ndarray, where: str) -> str | None:
    low, high = space.bounds()
    for row in np.asarray(observation)[running]:
        if not np.isfinite(row).all():
            return f"{where} gave a non-finite observation {row.tolist()}"
        outside = np.flatnonzero((row < low) | (row > high))
        if outside.size:
            place = int(outside[0])
            return (
                f"{where} gave {float(row[place])} at place {place} of the observation, its space says "
                f"{float(low[place])} to {float(high[place])}: widen observation_space"
            )
    return None
