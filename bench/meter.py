"""Whether the reported costs are right, by a meter that shares no code with the operator.

`lives`: batches of jobs on a real API server that lose workers and change sizes, and whose prices
change. In half of them the operator is killed during its writes. In the others it keeps running,
because they have events whose only time is when the operator sees them: nodes vanish, prices in
annotations change. The costs reported at each moment and the exact sums at the end are compared
with `tests/meter`. `unseen` is the error of such events while no operator runs. `dead_node`: a
worker's machine dies and its Node object stays, is removed later, or comes back, while the job
continues, has ended or is suspended: no sum may fall without a correction. `vanished_pod`: a pod
loses its finalizers and is deleted by force while the operator runs, or between two operators; then
the last reported cost stays. With `--quick` a node is marked unreachable at once, without the 50 s
that Kubernetes waits. Then the number of writes of an undisturbed life. `budgets`: jobs on a
virtual clock that use up their budgets; the operator dies, sometimes for hours, and some agents
never save the last checkpoint.

Run as `.venv/bin/python bench/meter.py [--quick] [--lives 200] [--budgets 200]`.
"""

import argparse
import asyncio
from fractions import Fraction
from random import Random

from bench.operator_bench import say
from devcluster.argument_types import how_many
from devcluster.cluster import Cluster
from tests.meter.dead_node import DEATHS, die
from tests.meter.lives import KILLED, UNSEEN, WATCHED, Result, live
from tests.meter.vanished_pod import vanish
from tests.support.cluster.operator_world import install_crds
from tests.support.money.budget_lives import a_life

JOBS = 10  # that run at the same time
SEED = 20260301


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="10 lives, 20 budgets, one dead node")
    parser.add_argument("--lives", type=how_many, default=200)
    parser.add_argument("--budgets", type=how_many, default=200)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.lives, arguments.budgets = 10, 20
    budgets(arguments.budgets)
    with Cluster() as cluster:
        install_crds(cluster)
        asyncio.run(dead_nodes(cluster, declared=arguments.quick))
        asyncio.run(vanished_pods(cluster))
        asyncio.run(lives(cluster, arguments.lives))


async def dead_nodes(cluster: Cluster, *, declared: bool) -> None:
    """Measure the loss of a worker on a machine that no longer reports."""
    deaths = [
        await die(cluster, job, node, declared=declared)
        for job, node in (DEATHS[:1] if declared else DEATHS)
    ]
    say(
        "dead_node_error_usd",
        float(max(error for death in deaths for error in death.errors_usd)),
        "USD",
        allowed=0.01,
        looks=sum(len(death.errors_usd) for death in deaths),
        unexplained_falls_usd=float(max(fall for death in deaths for fall in death.falls_usd)),
    )


async def vanished_pods(cluster: Cluster) -> None:
    """Measure pods that vanish without a report of when their containers ended."""
    watched = await vanish(cluster, is_watched=True)
    unwatched = await vanish(cluster, is_watched=False)
    falls = [*watched.falls_usd, *unwatched.falls_usd]
    say(
        "vanished_pod_error_usd",
        float(max(watched.errors_usd)),
        "USD",
        allowed=0.01,
        looks=len(watched.errors_usd),
        unwatched_error_usd=float(max(unwatched.errors_usd)),
        unexplained_falls_usd=float(max(falls)),
    )


async def lives(cluster: Cluster, number: int) -> None:
    """Measure random lives, then undisturbed ones."""
    kinds = {"killed": KILLED, "watched": WATCHED}
    results: dict[str, list[Result]] = {kind: [] for kind in kinds}
    for batch in range(max(-(-number // JOBS), len(kinds))):
        kind = list(kinds)[batch % len(kinds)]
        results[kind].append(await live(cluster, SEED + batch, kinds[kind], jobs=JOBS))
    errors = {kind: _errors(several) for kind, several in results.items()}
    worst = max(map(max, errors.values()))
    facts = {kind: round(max(found), 6) for kind, found in errors.items()}
    say("meter_max_error_usd", worst, "USD", looks=sum(map(len, errors.values())), **facts)
    finals = {kind: _finals(several) for kind, several in results.items()}
    facts = {kind: round(max(found), 9) for kind, found in finals.items()}
    say(
        "meter_final_error_usd",
        max(finals["killed"]),
        "USD",
        lives=sum(map(len, finals.values())),
        kills=sum(result.num_kills for result in results["killed"]),
        in_a_pool=round(max(map(max, map(_in_pools, results.values()))), 9),
        **facts,
    )
    unseen = await live(cluster, SEED, UNSEEN, jobs=JOBS)
    say("meter_unseen_error_usd", max(_errors([unseen])), "USD", kills=unseen.num_kills)
    quiet = await live(cluster, SEED, (), jobs=JOBS, seconds=0)
    say("writes_per_worker", quiet.pod_writes_per_worker, "writes", allowed=2)


def budgets(number: int) -> None:
    """Measure jobs that use up their budgets."""
    overruns, used = [], []
    for seed in range(number):
        random = Random(seed)  # noqa: S311 - a bench that can be run again
        job = a_life(
            random.randint(1, 4),
            random.uniform(6, 30),
            answers=random.random() < 0.5,
            crashes=[random.randint(0, 4) for _ in range(random.randint(0, 6))],
            on_exceeded=random.choice(("Suspend", "Fail")),
            absences=[
                (random.uniform(0, 20), random.uniform(1, 240)) for _ in range(random.randint(0, 2))
            ],
        )
        overruns.append(float(max(job.metered_usd() - job.limit_usd, Fraction(0))))
        used.append(float(job.metered_usd() / job.limit_usd))
    say("budget_overrun_usd", max(overruns), "USD", runs=number, most_used=round(max(used), 3))


def _errors(results: list[Result]) -> list[float]:
    return [float(error) for result in results for error in result.errors_usd]


def _finals(results: list[Result]) -> list[float]:
    return [float(error) for result in results for error in result.final_errors_usd]


def _in_pools(results: list[Result]) -> list[float]:
    return [float(error) for result in results for error in result.pool_errors_usd]


if __name__ == "__main__":
    main()
