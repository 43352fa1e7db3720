"""Random changes of worlds, one burst after the other, and their effect on the training.

A burst (bench/chaos_bursts.py) is one of: workers that are killed (at a random moment, or ordered
to die around a reduction, a commit or an update), also while the next world is formed or state is
sent; an absent operator during that; a joining worker, also as the replacement of a lost one; a
worker that leaves; two worlds at once. And failures that may end, after the worker was left out or
before they were noticed: a stopped process, a cut link, an agent that hangs.

With `--shard 2` two processes hold a copy of the model (FSDP2), and two copies train. A lost worker
leaves a mate, which waits until a joining worker has the missing part. Kills also hit torch's own
collectives. Bits then differ from those of an undisturbed training: bench/chaos_compare.py
describes what is compared instead.

With `--nccl` a stand-in for NCCL carries the worlds (tests/support/gpu/nccl_on_host.py). It ends as
NCCL was seen to end on a GPU, early and without an error, and no GPU is needed. There collectives
also end early by themselves.

Then, in a separate training (bench/chaos_joins.py), a whole machine is lost at a random moment of
the first 0.3 s after each join, with real agents and the operator's own decisions: in turns that of
the joining worker and that of one that trained before. Half of the losses close no connection.

    chaos_bursts      bursts after which all members trained on within SECONDS
    chaos_stuck       bursts after which they did not
    chaos_aimed       kills that hit between the start of a reduction and the end of its update
    chaos_stranded    processes that had to be started again, since their mate was lost during an
                      evaluation (`--shard`): the others trained on
    chaos_mismatches  steps whose state differs from an undisturbed training in any bit, in any
                      worker, or that a worker did twice; workers that trained on while they were
                      left out; and processes that ended with an error
    join_window_kills       machines that were lost in the first moments of a join
    join_window_steps_lost  steps that were repeated or begun again after that
    join_window_stuck       trainings that did not continue within 15 s of a loss, or without a
                            join for 90 s: their stacks are printed, and a new one begins
    join_window_seconds     from a loss until all others have finished another step

The figures of joins are printed as soon as the last one is over, and also after an early end by
Ctrl-C, SIGTERM or `--seconds`, with a remark. After signals the lines are not compared.

Run as `.venv/bin/python bench/chaos.py [--quick] [--seeds 10] [--bursts 50] [--joins 100]
[--only joins] [--seconds 1800] [--shard 2] [--nccl]`.
"""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from bench.chaos_bursts import Chaos, StuckError
from bench.chaos_compare import TOLERANCE, compare
from bench.chaos_join_runs import JoinRuns
from bench.chaos_joins import Joins
from bench.early_end import EarlyEnd
from bench.operator_bench import say
from devcluster.argument_types import how_many


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few bursts of two seeds")
    parser.add_argument("--seeds", type=how_many, default=10)
    parser.add_argument("--bursts", type=how_many, default=50)
    parser.add_argument("--joins", type=how_many, default=100, help="after which someone is lost")
    parser.add_argument(
        "--shard", type=how_many, default=1, help="processes that hold a copy; above 1 only bursts"
    )
    parser.add_argument("--nccl", action="store_true", help="over a stand-in for NCCL; only bursts")
    parser.add_argument("--only", choices=("bursts", "joins"), default="")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--seconds", type=how_many, help="after which no more is lost in joins")
    arguments = parser.parse_args()
    if arguments.nccl and arguments.shard > 1:
        parser.error("--nccl goes with whole copies: of processes that share one all start again")
    if arguments.quick:
        arguments.seeds, arguments.bursts, arguments.joins = 2, 10, 4
    is_well = arguments.only == "joins" or disturb(arguments)
    has_joins = arguments.only != "bursts" and arguments.shard == 1 and not arguments.nccl
    is_well &= not has_joins or lose_after_joins(arguments)
    sys.exit(not is_well)


def disturb(arguments: argparse.Namespace) -> bool:
    """Run burst after burst; returns whether all went well."""
    bursts, errors = Counter[str](), list[str]()
    stuck = aimed = stranded = 0
    with tempfile.TemporaryDirectory() as scratch:
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            folder = Path(scratch) / f"seed-{seed}"
            folder.mkdir()
            chaos = Chaos(folder, seed, arguments.shard, nccl=arguments.nccl)
            try:
                chaos.begin()
                for _ in range(arguments.bursts):
                    chaos.burst()
            except StuckError as error:
                stuck += 1
                print(f"seed {seed}: stuck after {error}", file=sys.stderr)
            finally:
                errors += [f"seed {seed}: {said}" for said in chaos.end()]
            bursts += chaos.bursts
            aimed += chaos.num_aimed
            stranded += chaos.num_stranded
            print(f"seed {seed}: {chaos.bursts.total()} bursts", file=sys.stderr)
        compared = compare(Path(scratch), arguments.shard)
    mismatches = compared.wrong
    for wrong in (*errors, *mismatches):
        print(wrong, file=sys.stderr)
    say(
        "chaos_bursts",
        bursts.total() - stuck,
        "bursts",
        seeds=arguments.seeds,
        shard=arguments.shard,
        nccl_stand_in=arguments.nccl,
        kinds=dict(bursts),
    )
    say("chaos_stuck", stuck, "bursts")
    say("chaos_aimed", aimed, "kills")
    if arguments.shard > 1:
        say("chaos_stranded", stranded, "processes")
    rounding = {"tolerance": TOLERANCE, "most_apart": float(f"{compared.most_apart:.1g}")}
    say(
        "chaos_mismatches",
        len(mismatches) + len(errors),
        "steps",
        **(rounding if arguments.shard > 1 else {}),
    )
    return not (stuck or mismatches or errors)


def lose_after_joins(arguments: argparse.Namespace) -> bool:
    """Lose a machine after each join; returns whether no step was lost with them."""
    with tempfile.TemporaryDirectory() as scratch:
        with EarlyEnd(arguments.seconds) as early_end:
            seed, wanted = arguments.first_seed, arguments.joins
            runs = JoinRuns(Path(scratch), seed, wanted, early_end, Joins)
            runs.run()
        runs.say()
        if early_end.is_by_signal:
            return False
        mismatches = compare(Path(scratch)).wrong
        is_well = runs.is_well and not mismatches
    for wrong in (*runs.errors, *mismatches):
        print(wrong, file=sys.stderr)
    return is_well


if __name__ == "__main__":
    main()
