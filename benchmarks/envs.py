"""How fast PPOL collects in the real simulator, against the package's own ``step`` in bare loops; and that our stepping
is the same as the package's.

python benchmarks/envs.py                   # ratios for the four tasks of the paper
python benchmarks/envs.py --equal 100       # 100 random episodes of every lean task, compared bit for bit
"""

import argparse
import statistics

PAPER = ("SafetyBallRun-v0", "SafetyCarRun-v0", "SafetyBallCircle-v0", "SafetyCarCircle-v0")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ids", nargs="*", help="Bullet-Safety-Gym ids")
    parser.add_argument("--equal", type=int, metavar="EPISODES", help="compare episodes instead of speed")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each kind, in turn")
    options = parser.parse_args()
    if options.equal is not None:
        show_equality(options.ids, options.equal)
    else:
        show_ratios(options.ids or PAPER, options.seconds, options.rounds)


def show_ratios(ids, seconds, rounds):
    from papd.results.bench_tasks import real_steps

    print(f"{'id':22} {'bare loops':>12} {'collection':>12} {'ratio':>6}   steps/s, median of {rounds}")
    for name in ids:
        found = real_steps(name, seconds, rounds)
        bare, ours = statistics.median(found["bare"]), statistics.median(found["workers"])
        print(f"{name:22} {bare:12.0f} {ours:12.0f} {found['ratio']:6.2f}", flush=True)


def show_equality(ids, episodes):
    from papd.envs.bullet import is_lean
    from papd.envs.bullet_ids import BULLET_IDS
    from papd.envs.equality import compare_episodes

    for name in ids or [name for name in BULLET_IDS if is_lean(name)]:
        result = compare_episodes(name, episodes)
        verdict = f"differing seeds {result.differing}" if result.differing else "equal bit for bit"
        print(f"{name:22} {result.episodes} episodes, {result.steps} steps: {verdict}", flush=True)


if __name__ == "__main__":
    main()
