"""Workers of different speeds: the gain of dealing by speed, and whether it stays exact.

    uneven_step_ratio     a step with balance="measured", divided by one that is dealt evenly, for
                          three workers of which one needs twice as long for a microbatch; pairs of
                          trainings in turns. `best` is the limit with whole microbatches, `ideal`
                          with divided ones; both count only the sleep
    equal_step_ratio      the same for three equal workers, and `dealings`, the changes made there:
                          the cost for trainings that do not need it
    uneven_samples_wrong  samples that a step of those trainings used twice, or not at all
    uneven_hash_equal     1 if in deterministic mode the weights are those of one process alone
    deal_milliseconds     the time of one decision, for 1,000 workers and 8,000 microbatches

Real processes on gloo. Speeds are emulated: workers sleep in each microbatch
(bench/uneven_training.py).

Run as `.venv/bin/python bench/uneven.py [--quick] [--pairs 5]`.
"""

import argparse
import re
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from bench.operator_bench import say
from bench.uneven_training import Noted, Uneven, train
from devcluster.argument_types import how_many
from spotrun_trainer.loop.dealing import deal_anew, fastest, slowest
from tests.support.processes.trainer_world import run_alone, run_world

PACE_SECONDS, QUICK_PACE_SECONDS = 0.1, 0.01  # longer paces depend less on other work
SLOW = (1, 1, 2)
EQUAL = (1, 1, 1)
MICROBATCHES = 12
STEPS, QUICK_STEPS = 26, 16
SETTLED = 12  # the steps after which it is measured
DEALT = re.compile(r"dealt by speed: ([\d, ]+) \(")


@dataclass(frozen=True)
class Trained:
    """The records of all processes of a training."""

    noted: Sequence[Noted]
    dealings: list[str]  # changes, as reported by the first process

    @property
    def step_seconds(self) -> float:
        """The duration of a typical step, once speeds are known."""
        return statistics.median(self.noted[0].seconds[SETTLED:])

    def wrong(self, alone: Noted) -> int:
        """Count the samples that a step used too often or not at all."""
        each = zip(
            alone.samples, zip(*(one.samples for one in self.noted), strict=True), strict=True
        )
        return sum(
            len(set(expected) ^ {one for part in parts for one in part})
            + sum(map(len, parts))
            - len({one for part in parts for one in part})
            for expected, parts in each
        )


def main() -> None:
    """Print each figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one pair of short trainings")
    parser.add_argument("--pairs", type=how_many, default=5)
    arguments = parser.parse_args()
    pace = QUICK_PACE_SECONDS if arguments.quick else PACE_SECONDS
    total, pairs = (QUICK_STEPS, 1) if arguments.quick else (STEPS, arguments.pairs)
    slow = Uneven(tuple(pace * each for each in SLOW), MICROBATCHES, total)
    equal = replace(slow, seconds=tuple(pace * each for each in EQUAL))
    alone = one_process(slow)
    wrong = compare("uneven_step_ratio", slow, pairs, alone)
    wrong += compare("equal_step_ratio", equal, pairs, alone)
    say("uneven_samples_wrong", wrong, "samples", steps=total * 4 * pairs)
    compare_bits(replace(slow, microbatches=16, deterministic=True))
    time_a_decision()


def compare(metric: str, plan: Uneven, pairs: int, alone: Noted) -> int:
    """Print a step's duration relative to one dealt evenly; return the number of wrong samples."""
    ratios, dealings, wrong = [], [], 0
    for _ in range(pairs):
        even, measured = trained(plan), trained(replace(plan, balance="measured"))
        ratios.append(measured.step_seconds / even.step_seconds)
        dealings += measured.dealings
        wrong += even.wrong(alone) + measured.wrong(alone)
    evenly = [plan.microbatches // len(plan.seconds)] * len(plan.seconds)
    best = fastest(plan.seconds, plan.microbatches, [1] * 3, [plan.microbatches] * 3)
    say(
        metric,
        ratios,
        "x",
        best=round(slowest(best, plan.seconds) / slowest(evenly, plan.seconds), 3),
        ideal=round(ideal(plan) / slowest(evenly, plan.seconds), 3),
        dealings=len(dealings),
        last=dealings[-1] if dealings else "evenly",
    )
    return wrong


def ideal(plan: Uneven) -> float:
    """Return the seconds of a step whose work is divided without a remainder."""
    return plan.microbatches / sum(1 / each for each in plan.seconds)


def compare_bits(plan: Uneven) -> None:
    """Print whether the weights are those of one process."""
    alone, measured = one_process(plan), trained(replace(plan, balance="measured"))
    is_equal = all(one.weights == alone.weights for one in measured.noted)
    say("uneven_hash_equal", int(is_equal), "1 or 0", dealings=len(measured.dealings))


def time_a_decision() -> None:
    """Print the time of dealing to a large world."""
    random = Random(1)  # noqa: S311 - the same in each run
    speeds = [random.uniform(1.0, 2.0) for _ in range(1000)]
    took = []
    for _ in range(5):
        began = time.perf_counter()
        deal_anew([8] * 1000, speeds)
        took.append(1000 * (time.perf_counter() - began))
    say("deal_milliseconds", took, "ms", workers=1000, microbatches=8000)


def one_process(plan: Uneven) -> Noted:
    """Return the record of a training alone, at full speed."""
    ended = run_alone(train, replace(plan, seconds=(), balance="even"))
    assert ended.error == "", ended.said
    noted: Noted = ended.value
    return noted


def trained(plan: Uneven) -> Trained:
    """Return the records of the processes of a world."""
    ended = run_world(len(plan.seconds), train, plan)
    assert not any(one.error for one in ended), "\n".join(one.said for one in ended)
    return Trained([one.value for one in ended], DEALT.findall(ended[0].said))


if __name__ == "__main__":
    main()
