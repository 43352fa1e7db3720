"""Preemption of the cheapest victim, compared with FIFO and plain priority, on random fleets.

    fleet_wasted_ratio       wasted work (done again, or lost while jobs change, save and start
                             again) divided by that of plain priority preemption, over all fleets
    fleet_high_wait_ratio    mean wait of the high class, divided by the same; `with_grace` compares
                             with killed jobs that use up Kubernetes' grace period
    fleet_wasted_usd         the money for that work; `fleet_usd` is that for all held nodes
    fleet_high_wait_seconds  mean wait of the high class, `fleet_low_wait_seconds` of the others
    fleet_preemptions        how often a job gave workers

Jobs, their sizes and their saves are random, with a seed for each fleet. A tenth to four tenths of
a fleet is for jobs of the high class, which do not shrink. The operator's own function chooses the
victims, with the operator's own prices. No value depends on a real clock.

Run as `.venv/bin/python bench/preemption.py [--quick] [--fleets 200] [--seed 0]`.
"""

import argparse
import statistics
from collections.abc import Iterator, Sequence
from random import Random

from bench.operator_bench import say
from bench.preemption_fleet import NODE_GPUS, Outcome, Sharing, outcomes
from bench.preemption_jobs import Plan
from devcluster.argument_types import how_many

QUICK_FLEETS = 4
DAY_SECONDS = 86_400.0
GPU_USD_PER_HOUR = 3.0
HOUR = 3600.0


def main() -> None:
    """Run all fleets, and print their figures."""
    parser = argparse.ArgumentParser(description="preemption on random fleets")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--fleets", type=how_many, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    number = QUICK_FLEETS if options.quick else options.fleets
    found: dict[Sharing, list[Outcome]] = {sharing: [] for sharing in Sharing}
    for seed in range(options.seed, options.seed + number):
        random = Random(seed)  # noqa: S311 - a fleet, not a secret
        nodes = random.randint(8, 32)
        for sharing, outcome in outcomes(nodes, list(jobs(random, nodes))).items():
            found[sharing].append(outcome)
    report(found, options.seed)


def jobs(random: Random, nodes: int) -> Iterator[Plan]:
    """Yield the random jobs of a day: low ones for nearly the whole fleet, and high ones."""
    for priority, load in ((0, random.uniform(0.7, 1.1)), (100, random.uniform(0.1, 0.4))):
        left = load * nodes * NODE_GPUS * DAY_SECONDS
        number = 0
        while left > 0:
            one = _job(random, nodes, priority, f"{priority}-{number}")
            left -= one.work * one.gpus
            number += 1
            yield one


def _job(random: Random, nodes: int, priority: int, name: str) -> Plan:
    most = random.randint(1, min(8, nodes // 2))
    is_elastic = priority == 0 and random.random() < 0.6
    hours = 10 ** random.uniform(0, 1.1) if priority == 0 else random.uniform(0.2, 3.0)
    return Plan(
        name=name,
        priority=priority,
        arrives=random.uniform(0, DAY_SECONDS),
        least=max(round(most * random.uniform(0.25, 0.5)), 1) if is_elastic else most,
        most=most,
        gpus=random.choice((8, 8, 4)),
        work=most * hours * HOUR,
        save_every=random.choice((600.0, 1200.0, 1800.0, 3600.0)),
        save_seconds=random.uniform(2.0, 30.0),
        restart_seconds=random.uniform(30.0, 300.0),
        changes_in_process=random.random() < 0.7,
    )


def report(found: dict[Sharing, list[Outcome]], seed: int) -> None:
    """Print the results of all fleets."""
    fleets = len(found[Sharing.PLAIN])
    wasted = {sharing: sum(one.wasted for one in many) for sharing, many in found.items()}
    high = {
        sharing: _mean([w for o in many for w in o.high_waited]) for sharing, many in found.items()
    }
    plain, ours = Sharing.PLAIN, Sharing.CHEAPEST
    ratios = [
        ours_of.wasted / plain_of.wasted
        for ours_of, plain_of in zip(found[ours], found[plain], strict=True)
        if plain_of.wasted
    ]
    facts: dict[str, object] = {"fleets": fleets, "seed": seed}
    say(
        "fleet_wasted_ratio",
        wasted[ours] / wasted[plain],
        "x",
        median=statistics.median(ratios),
        worst=max(ratios),
        **facts,
    )
    with_grace = high[ours] / high[Sharing.PLAIN_WITH_GRACE]
    say("fleet_high_wait_ratio", high[ours] / high[plain], "x", with_grace=with_grace, **facts)
    for sharing, many in found.items():
        low = _mean([w for o in many for w in o.low_waited])
        usd = sum(one.held for one in many) / HOUR * GPU_USD_PER_HOUR
        lost = wasted[sharing] / HOUR * GPU_USD_PER_HOUR
        say(f"fleet_wasted_usd_{sharing.value}", lost, "USD", **facts)
        say(f"fleet_usd_{sharing.value}", usd, "USD", **facts)
        say(f"fleet_high_wait_seconds_{sharing.value}", high[sharing], "s", **facts)
        say(f"fleet_low_wait_seconds_{sharing.value}", low, "s", **facts)
        times = sum(one.preempted for one in many)
        say(f"fleet_preemptions_{sharing.value}", times, "times", **facts)


def _mean(numbers: Sequence[float]) -> float:
    return statistics.fmean(numbers) if numbers else 0.0


if __name__ == "__main__":
    main()
