"""What ``papd bench`` measures, one task a process: threads and cores are chosen before JAX starts.

    python -m papd.results.bench_tasks TASK '{"argument": value}'     prints one JSON object

A training is timed as it runs. Every other time is the fastest of several repeats of the same work: another program can
only slow it down.
"""

import itertools
import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any, Literal

REPEATS = 5


def train(env: str, algo: str, backend: Literal["bullet", "twin"], steps: int) -> dict[str, float]:
    """Whole training from the first step: compilation apart, then steps and updates a second, and memory."""
    from papd.runs.agent import AGENTS

    began = time.perf_counter()
    agent = AGENTS[algo](env, backend=backend)
    made = time.perf_counter()
    first = agent.iterate()
    compiled = time.perf_counter()
    row = first
    while row["env_steps"] < steps:
        row = agent.iterate()
    seconds = time.perf_counter() - compiled
    agent.close()
    return {
        "make_seconds": made - began,
        "first_iteration_seconds": compiled - made,
        "steps_per_second": (row["env_steps"] - first["env_steps"]) / seconds,
        "updates_per_second": (row["updates"] - first["updates"]) / seconds,
        "resident_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def ppol_update(env: str) -> dict[str, float]:
    """GFLOP/s of the minibatch update on an iteration's batch, and of bare products of its shapes."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    from papd.agents import ppo_lag
    from papd.agents.hyper import PPOHyper
    from papd.agents.iteration import init_learner
    from papd.agents.rollout import collect
    from papd.envs.registry import make

    cmdp: Any = make(env, "twin")
    hyper = PPOHyper(target_kl=1e9)
    inputs, actions = cmdp.observation_space.shape[0], cmdp.action_space.shape[0]
    learner: Any = init_learner(hyper, 0, inputs, cmdp.action_space, 1)
    _, batch, _ = eqx.filter_jit(collect)(cmdp, learner.policy, hyper, None, jax.random.key(0))
    rate, multiplier = jnp.float32(4e-4), jnp.ones(1)
    improve = eqx.filter_jit(ppo_lag.improve)
    updates = int(improve(hyper, learner, batch, multiplier, rate, jax.random.key(0))[1].updates)
    seconds = fastest(lambda: improve(hyper, learner, batch, multiplier, rate, jax.random.key(0)))
    rows = batch.reward.size // max(1, batch.reward.size // hyper.minibatch_size)
    shapes = [(inputs, *hyper.hidden_sizes, actions), *[(inputs, *hyper.hidden_sizes, 1)] * 2]
    work = sum(step_flops(rows, sizes) for sizes in shapes)
    return _share(updates * work / seconds, rows, hyper.hidden_sizes[0]) | {
        "microseconds": 1e6 * seconds / updates
    }


def ddpgl_update(env: str) -> dict[str, float]:
    """GFLOP/s of one update (critics, actor, targets), and of bare products of its shapes."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    from papd.agents import ddpg_lag
    from papd.agents.hyper import DDPGHyper
    from papd.agents.iteration import init_learner
    from papd.agents.rollout import collect
    from papd.envs.registry import make

    cmdp: Any = make(env, "twin")
    hyper = DDPGHyper(updates_per_step=2.0)
    inputs, actions = cmdp.observation_space.shape[0], cmdp.action_space.shape[0]
    learner: Any = init_learner(hyper, 0, inputs, cmdp.action_space, 1)
    _, batch, _ = eqx.filter_jit(collect)(cmdp, learner.policy, hyper, None, jax.random.key(0))
    rate, multiplier = jnp.float32(4e-4), jnp.ones(1)
    improve = eqx.filter_jit(ddpg_lag.improve)

    def work() -> Any:
        return improve(hyper, learner, batch, multiplier, rate, rate, jax.random.key(0))

    updates, rows = int(work()[1].updates), hyper.batch_size
    seconds = fastest(work)
    actor, critic = (inputs, *hyper.hidden_sizes, actions), (inputs + actions, *hyper.hidden_sizes, 1)
    forward = forward_flops(rows, actor) + 2 * forward_flops(rows, critic)
    # Targets forward; critics forward and backward; actor forward and backward, through both critics.
    through = 2 * (forward_flops(rows, critic) + input_flops(rows, critic))
    one = forward + 2 * step_flops(rows, critic) + step_flops(rows, actor) + through
    return _share(updates * one / seconds, rows, hyper.hidden_sizes[0]) | {
        "updates_per_second": updates / seconds
    }


def peak(size: int) -> dict[str, float]:
    """GFLOP/s of large square products: what the machine's arithmetic can do."""
    import jax
    import jax.numpy as jnp

    square = jnp.ones((size, size))
    product = jax.jit(lambda x: x @ x)
    return {"gflops": 2 * size**3 / fastest(lambda: product(square)) / 1e9}


def twin_steps(env: str, num_envs: int, seconds: float) -> dict[str, float]:
    """Steps a second of a twin with random actions, nothing learned."""
    from papd.envs.twins.measure import twin_steps_per_second

    return {"steps_per_second": twin_steps_per_second(env, num_envs=num_envs, seconds=seconds)}


def real_steps(env: str, seconds: float, rounds: int) -> dict[str, Any]:
    """The real simulator: PPOL's collection, policy and all, beside the package's own ``step`` in bare loops."""
    import jax

    from papd.agents.host_rollout import HostRollout
    from papd.agents.hyper import PPOHyper
    from papd.agents.iteration import init_learner
    from papd.envs.host import HostEnv
    from papd.envs.measure import compare
    from papd.envs.registry import make

    made, hyper = make(env), PPOHyper()
    assert isinstance(made, HostEnv)
    learner = init_learner(hyper, 0, made.observation_space.shape[0], made.action_space, len(made.cost_names))
    rollout = HostRollout(made, hyper)

    def collect(seconds: float) -> float:
        """Whole iterations' experience, at least one's."""
        steps, began = 0, time.perf_counter()
        while steps == 0 or time.perf_counter() - began < seconds:
            _, episodes = rollout.collect(learner.policy, jax.random.key(steps))
            steps += int(episodes.steps)
        return steps / (time.perf_counter() - began)

    collect(0.0)  # Starts the workers and compiles.
    found = compare(env, collect, seconds=seconds, rounds=rounds)
    rollout.close()
    return {"bare": found.bare, "workers": found.workers, "ratio": found.ratio}


def fastest(work: Callable[[], Any]) -> float:
    """Seconds of the fastest of several repeats, after a first one that compiles."""
    times = []
    for _ in range(1 + REPEATS):
        began = time.perf_counter()
        _wait(work())
        times.append(time.perf_counter() - began)
    return min(times[1:])


def _wait(result: Any) -> None:
    import jax

    for leaf in jax.tree.leaves(result):
        leaf.block_until_ready()


def forward_flops(rows: int, sizes: tuple[int, ...]) -> int:
    """Multiplications and additions of a network's forward pass."""
    return sum(2 * rows * i * o for i, o in itertools.pairwise(sizes))


def input_flops(rows: int, sizes: tuple[int, ...]) -> int:
    """Of the backward pass to the inputs."""
    return forward_flops(rows, sizes)


def step_flops(rows: int, sizes: tuple[int, ...]) -> int:
    """Of a forward pass and the gradient of every weight (the first layer needs none of its inputs)."""
    return 3 * forward_flops(rows, sizes) - 2 * rows * sizes[0] * sizes[1]


def _share(flops: float, rows: int, width: int) -> dict[str, float]:
    peak = _product_peak(rows, width)
    return {"gflops": flops / 1e9, "peak_gflops": peak / 1e9, "share": flops / peak}


def _product_peak(rows: int, width: int) -> float:
    """FLOP/s of (rows x width) times (width x width), over and over."""
    import jax
    import jax.numpy as jnp

    count = 500
    x, weight = jnp.ones((rows, width)), jnp.eye(width)
    many = jax.jit(lambda x, w: jax.lax.fori_loop(0, count, lambda _, x: x @ w, x))
    return count * 2 * rows * width * width / fastest(lambda: many(x, weight))


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    task.__name__: task for task in (train, ppol_update, ddpgl_update, peak, twin_steps, real_steps)
}

if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](**json.loads(sys.argv[2]))))
