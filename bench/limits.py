"""Whether a SpendLimit is kept when many jobs start in the same second.

Jobs of one to four workers at different prices begin together under a limit that holds some of
them, with onExceeded: Suspend, on a virtual clock. Some agents never answer, so that their workers
use their whole grace period; in every second life the operator dies repeatedly. A meter that knows
only the pods checks the operator's own sums.

Run as `.venv/bin/python bench/limits.py [--quick] [--lives 20] [--jobs 50]`.
"""

import argparse
from random import Random

from bench.operator_bench import say
from devcluster.argument_types import how_many
from tests.support.money.limit_lives import a_shared_life

ALLOWED_USD = 0.01


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one life")
    parser.add_argument("--lives", type=how_many, default=20)
    parser.add_argument("--jobs", type=how_many, default=50)
    arguments = parser.parse_args()
    lives = 1 if arguments.quick else arguments.lives
    overruns, used, running = [], [], []
    for seed in range(lives):
        random = Random(seed)  # noqa: S311 - a bench that can be run again
        limit = f"{random.uniform(1, 12):.2f}"
        life = a_shared_life(arguments.jobs, limit, random, crashes=bool(seed % 2))
        overruns.append(float(life.overrun_usd))
        used.append(float(life.metered_usd() / life.limit.usd.exact))
        running.append(life.most_running)
    say(
        "limit_overrun_usd",
        max(overruns),
        "USD",
        allowed=ALLOWED_USD,
        lives=lives,
        jobs=arguments.jobs,
        least_used=round(min(used), 3),
        most_used=round(max(used), 3),
        most_running=max(running),
    )


if __name__ == "__main__":
    main()
