"""The cost of jobs on recorded markets: our policy, its published peers, and the optimum.

Each line is the mean over the zones (or sets of zones) of a row, with several starts in each, and a
bootstrap interval over the zones. Two accountings: `published` (available capacity is known, and no
work is lost) and `ours` (a pool's state is learned by requests, and work since the last checkpoint
is lost). A cluster is in one region, so rows over several regions are bounds and marked as such.

Run as `.venv/bin/python bench/market.py [--quick] [--jobs 2] [--accounting published]`.
"""

import argparse
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from statistics import fmean

from devcluster.argument_types import how_many
from spotrun.simulate.market.trace import Trace, read
from spotrun.simulate.market.virtual_market import Prices, Recordings
from spotrun.simulate.outcome import Outcome
from spotrun.simulate.replay_runs import Case, Starts, run
from spotrun.simulate.scenario import Job, Observe, Rules

V100 = "p3.2xlarge"
H100 = "a3-highgpu-1g"
WEST = ("us-west-2a", "us-west-2b", "us-west-2c")
EAST = ("us-east-1c", "us-east-1d", "us-east-1f")
ALL = ("us-east-1a", *EAST, "us-east-2a", "us-east-2b", *WEST)
PAIRS = (WEST[:2], WEST[1:], EAST[:2], EAST[1:], ("us-east-2a", "us-east-2b"))
CENTRAL = ("us-central1-a", "us-central1-b", "us-central1-c")

PUBLISHED = Rules(checkpoint_seconds=0, observe=Observe.MARKET)
OURS = Rules()
ACCOUNTINGS = {"published": PUBLISHED, "ours": OURS}
POLICIES = ("spotrun", "uniform-progress", "greedy", "optimum", "on-demand")
STARTS = Starts(first=1320, every=1320, number=12)
"""The starts with which the peers are within one or two percent of their published results."""
GANG_STARTS = Starts(first=0, every=140, number=12)
RESAMPLES = 2000


@dataclass(frozen=True)
class Row:
    """A line of the table for each policy."""

    name: str
    instance_type: str
    zones: tuple[tuple[str, ...], ...]  # for each set, one replay from each start
    job: Job
    starts: Starts
    is_bound: bool = False  # over several regions, unlike any cluster


def rows() -> Iterator[Row]:
    """The whole table."""
    kinds = (
        ("1 zone", tuple((zone,) for zone in ALL), False),
        ("2 zones", PAIRS, False),
        ("3 zones", (WEST, EAST), False),
        ("9 zones", (ALL,), True),
    )
    for name, zones, is_bound in kinds:
        for hours in (52, 60, 72, 96):
            yield Row(name, V100, zones, _job(48, hours), STARTS, is_bound)
    for hours in (27, 30, 36):
        for name, workers, least, most in (
            ("gang of 8", 8, 8, 8),
            ("2..16 for the work of 8", 8, 2, 16),
            ("gang of 16", 16, 16, 16),
            ("4..16 for the work of 16", 16, 4, 16),
        ):
            yield Row(name, H100, (CENTRAL,), _job(24, hours, workers, least, most), GANG_STARTS)


def main() -> None:
    """Print the table, a JSON object per line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one start and one deadline each")
    parser.add_argument("--jobs", type=how_many, default=1, help="processes (default: 1)")
    parser.add_argument("--accounting", choices=ACCOUNTINGS, action="append")
    parser.add_argument("--policy", choices=POLICIES, action="append")
    parser.add_argument("--row", action="append", help="rows that begin so, e.g. '1 zone'")
    arguments = parser.parse_args()
    chosen = list(rows())
    if arguments.row:
        chosen = [row for row in chosen if row.name.startswith(tuple(arguments.row))]
    if arguments.quick:
        chosen = list(_quick(chosen))
    cells = [
        (accounting, row, policy)
        for accounting in arguments.accounting or ACCOUNTINGS
        for row in chosen
        for policy in arguments.policy or POLICIES
        if policy != "optimum" or row.job.min_workers == row.job.max_workers
    ]
    with ProcessPoolExecutor(arguments.jobs) as processes:
        work = processes.map if arguments.jobs > 1 else map
        for line in work(_cell, cells):
            print(json.dumps(line), flush=True)


def _quick(chosen: Iterable[Row]) -> Iterator[Row]:
    """Yield each kind of row with one deadline, few zones and one start."""
    seen: set[str] = set()
    for row in chosen:
        if row.name not in seen:
            seen.add(row.name)
            yield replace(row, zones=row.zones[-2:], starts=replace(row.starts, number=1))


def _cell(asked: tuple[str, Row, str]) -> dict[str, object]:
    """Return the results of one policy in one row."""
    accounting, row, policy = asked
    rules = ACCOUNTINGS[accounting]
    by_zones = [
        run(policy, Case(row.job, _recordings(row.instance_type, zones, rules), rules), row.starts)
        for zones in row.zones
    ]
    outcomes = [outcome for of_zones in by_zones for outcome in of_zones]
    means = [fmean(outcome.cost_usd for outcome in of_zones) for of_zones in by_zones]
    low, high = _interval(means)
    return {
        "metric": "replay_cost",
        "row": row.name,
        "deadline_hours": row.job.deadline_seconds / 3600,
        "accounting": accounting,
        "policy": policy,
        "value": round(fmean(means), 2),
        "unit": "USD",
        "low": low,
        "high": high,
        "worst": round(max(outcome.cost_usd for outcome in outcomes), 2),
        "missed": sum(not outcome.deadline_met for outcome in outcomes),
        "replays": len(outcomes),
        **_habits(outcomes),
        **({"bound": True} if row.is_bound else {}),
    }


def _habits(outcomes: Sequence[Outcome]) -> dict[str, float]:
    names = ("launches", "interruptions", "on_demand_hours", "lost_work_hours")
    return {name: round(fmean(getattr(one, name) for one in outcomes), 2) for name in names}


def _interval(means: Sequence[float]) -> tuple[float, float]:
    """Return the middle 95 % of the means of resampled zones; the mean itself if there is one."""
    dice = random.Random(1)  # noqa: S311 - the same interval each time
    drawn = sorted(fmean(dice.choices(means, k=len(means))) for _ in range(RESAMPLES))
    cut = round(RESAMPLES * 0.025)
    return round(drawn[cut], 2), round(drawn[-cut - 1], 2)


@cache
def _recordings(instance_type: str, zones: tuple[str, ...], rules: Rules) -> Recordings:
    return Recordings([_trace(instance_type, zone) for zone in zones], rules, Prices())


@cache
def _trace(instance_type: str, zone: str) -> Trace:
    folder = Path(str(files("spotrun.simulate") / "data"))
    (path,) = folder.glob(f"*__{zone}__{instance_type}__*.json")
    return read(path)


def _job(work: float, deadline: float, workers: int = 1, least: int = 1, most: int = 1) -> Job:
    return Job(work * 3600, deadline * 3600, workers, least, most)


if __name__ == "__main__":
    main()
