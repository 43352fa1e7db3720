"""Random changes of worlds, one burst after the other, and what the training makes of them.

A burst (bench/chaos_bursts.py) is one of: workers that are killed (at a random moment, or ordered
to die around a reduction, a commit or an update), also while the next world is formed or state is
sent; an operator that is away meanwhile; a joining worker, also in the place of one that is lost; a
worker that leaves; two worlds at once. And what goes away but may come back, after it was left out
or before anybody has noticed: a process that is stopped, a link that is cut, an agent that stands
still.

With `--shard 2` so many processes hold a copy of the model (FSDP2), and two copies train. A worker
that is lost leaves a mate, which waits until a joining worker has the missing part. Kills hit
amid torch's own collectives, too. Bits are not those of an undisturbed training then: see
bench/chaos_compare.py for what is compared instead.

Then, in a training of its own (bench/chaos_joins.py), a whole machine is lost at a random moment of
the first 0.3 s after each join, with real agents and the operator's own decisions: in turn that of
the joining worker and that of one who trained before. Half of them end no connection.

    chaos_bursts      bursts after which all members trained on within SECONDS
    chaos_stuck       bursts after which they did not
    chaos_aimed       kills that hit between the begin of a reduction and the end of its update
    chaos_stranded    processes that had to be started again, since their mate was lost amid an
                      evaluation (`--shard`): the others trained on
    chaos_mismatches  steps whose state differs from that of an undisturbed training in any bit, in
                      any worker, or that a worker made twice; workers that trained on while they
                      were left out; and processes that ended by an error
    join_window_kills       machines that were lost in the first moments of a join
    join_window_steps_lost  steps that were made again after that, or begun anew
    join_window_stuck       trainings that did not go on within 15 s of a loss, or that nobody
                            joined within 90 s: their stacks are said, and a new one begins
    join_window_seconds     from a loss until all others have finished another step

The figures of joins come as soon as the last one is over, and also if that is ended early, by
Ctrl-C, SIGTERM or `--seconds`; then they say so. After signals nothing is compared.

Run as `.venv/bin/python bench/chaos.py [--quick] [--seeds 10] [--bursts 50] [--joins 100]
[--only joins] [--seconds 1800] [--shard 2]`.
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
    parser.add_argument("--only", choices=("bursts", "joins"), default="")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--seconds", type=how_many, help="after which no more is lost in joins")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.seeds, arguments.bursts, arguments.joins = 2, 10, 4
    is_well = arguments.only == "joins" or disturb(arguments)
    is_well &= arguments.only == "bursts" or arguments.shard > 1 or lose_after_joins(arguments)
    sys.exit(not is_well)


def disturb(arguments: argparse.Namespace) -> bool:
    """Burst after burst; returns whether nothing went wrong."""
    bursts, errors = Counter[str](), list[str]()
    stuck = aimed = stranded = 0
    with tempfile.TemporaryDirectory() as scratch:
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            folder = Path(scratch) / f"seed-{seed}"
            folder.mkdir()
            chaos = Chaos(folder, seed, arguments.shard)
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
    """Lose somebody after each join; returns whether no step was lost with them."""
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
