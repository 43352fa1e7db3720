"""The cost of the largest jobs: the size of their status, and the CPU time of a decision.

`week`: 10,000 workers without successive numbers, on nodes of 100 prices that change 100 times a
day, each node at a different time; all were late once, and all are held back. Each change takes
nodes away. `decide`: 2,000 such workers, with the price of a pool; the median of the decisions
right after a change, which take longest, each the fastest of three. `late`: some of 2,000 workers
never arrive in a world; the number of worlds until all of them are replaced.

Only the real decisions run. Run as
`.venv/bin/python bench/large_job.py [--quick] [--workers 10000] [--days 7]`.
"""

import argparse
from collections.abc import Sequence
from statistics import median

from bench.operator_bench import say
from devcluster.argument_types import how_many
from tests.support.jobs.large_jobs import worlds_until_replaced
from tests.support.jobs.largest_job import LargeLife

LATE = (64, 100, 1000)
DECIDED = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few workers for an hour: a minute")
    parser.add_argument("--workers", type=how_many, default=10_000)
    parser.add_argument("--days", type=how_many, default=7)
    arguments = parser.parse_args()
    if arguments.quick:
        week(300, 0.05)
        decide(200, 4)
        late(200, (64, 100))
    else:
        decide(DECIDED, 20)
        late(DECIDED, LATE)
        week(arguments.workers, arguments.days)


def week(workers: int, days: float) -> None:
    """Run the largest job through a week."""
    life = LargeLife(workers, looks=(0.0,))
    life.live(days)
    facts = {"workers": workers, "days": days, "decisions": len(life.decide_seconds)}
    say("large_status_kb", round(life.status_bytes / 1000, 1), "kB", **facts)
    say("large_undecided", life.undecided, "decisions", **facts)
    shown = life.status.cost.usd
    assert shown is not None, "it costs"
    say(
        "large_cost_error_usd",
        float(abs(round((shown - life.spent()).exact, 4))),
        "USD",
        shown=f"{shown}",
    )


def decide(workers: int, changes: int) -> None:
    """Measure decisions right after a change of prices, and the others."""
    life = LargeLife(workers, apart=False, repeats=3)
    life.live(changes / life.changes_a_day)
    ms = [round(1000 * seconds, 1) for seconds in life.decide_seconds]
    looks = len(life.looks)
    of_look = {f"ms_{life.looks[n]:.0f}_s_later": median(ms[n::looks]) for n in range(1, looks)}
    say(f"large_decide_{DECIDED}_ms", median(ms[::looks]), "ms", workers=workers, **of_look)


def late(workers: int, numbers: Sequence[int]) -> None:
    """Count the worlds until all late workers are replaced."""
    worlds = {str(number): worlds_until_replaced(workers, number) for number in numbers}
    say("late_worlds", max(worlds.values()), "worlds", workers=workers, of=worlds)


if __name__ == "__main__":
    main()
