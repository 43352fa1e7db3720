"""Bills of many namespaces compared with an independent meter: the charges, and a bill's size.

Random jobs (with changing prices, pools, idle parts) run in simulated time from the middle of one
month to the middle of the next. Each finishes or is deleted while it runs, at random. The bills are
made by the operator's own code, without an API server: ledger, lines, codec. It is killed at random
writes, before, between and after those of two months, and forgets everything unwritten.

`bill_error_usd`: the largest difference between the sum of a namespace's bills and the meter.
`bill_job_error_usd`: the same for a single job; `bill_object_kb`: the largest bill. `bill_kills`,
`bill_vanished`: how often the operator was killed, and how many jobs were deleted before a restart.

Run as `.venv/bin/python bench/bill.py [--quick] [--namespaces 50] [--jobs 5000] [--seed 1]`.
"""

import argparse
import heapq
import random
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

from bench.operator_bench import say
from devcluster.argument_types import how_many
from spotrun.money.charges import Charge, Charges
from spotrun.money.ledger import Ledger
from spotrun.money.units import NO_RATE, UsdPerHour
from spotrun.policies.cost.bill import to_show
from spotrun.policies.cost.billing.codec import fitted, read, write
from spotrun.policies.cost.billing.lines import JobFacts, Standing, facts_of_vanished
from spotrun.policies.cost.billing.month_bill import Known, MonthBill, changes, with_lines
from spotrun.policies.cost.billing.parts import UNITS_PER_USD, parts_of
from spotrun.state.stored.cost import Cost, PoolCost

BEGIN = datetime(2026, 11, 16, tzinfo=UTC)
DAYS = 30
POOLS = {"spot-a": "Spot", "spot-b": "Spot", "on-demand": "OnDemand", "own": "Reserved"}
NEWS_SECONDS, RATE_SECONDS, REFRESH_SECONDS, DOWN_SECONDS = 3, 30, 300, 45
"""The operator's own pauses, and the time without an operator after a kill."""
KILLS = 0.02
SECOND = timedelta(seconds=1)


@dataclass
class Life:
    """A job: its rates, each from a time on, and its end."""

    name: str
    uid: str
    charges: Charges
    end: datetime
    is_deleted_running: bool
    deleted_at: datetime  # when the object is deleted; after the end if the job finished
    idle_usd_per_hour: Decimal

    @property
    def begin(self) -> datetime:
        return self.charges[0].since

    def metered(self) -> Fraction:
        """The meter's own sum, which shares no code with the operator's."""
        ends = [charge.since for charge in self.charges[1:]] + [self.end]
        seconds = [
            (end - charge.since) / SECOND for charge, end in zip(self.charges, ends, strict=True)
        ]
        idle = Fraction(self.idle_usd_per_hour) * Fraction((self.end - self.begin) / SECOND)
        paid = [
            c.usd_per_hour.exact * Fraction(s) for c, s in zip(self.charges, seconds, strict=True)
        ]
        return (sum(paid, Fraction(0)) + idle) / 3600

    def facts(self, now: datetime) -> JobFacts:
        """Return the content of the job's status at a time."""
        until = min(now, self.end)
        ledger = Ledger()
        ledger.add(self.charges, self.begin, until)
        spent = ledger.total()
        idle = UsdPerHour(self.idle_usd_per_hour).over(Decimal(int((until - self.begin) / SECOND)))
        cost = Cost(
            usd=to_show(spent.usd),
            spot_usd=to_show(spent.spot_usd),
            by_pool=tuple(PoolCost(pool, to_show(usd)) for pool, usd in spent.by_pool.items()),
            lost_work_usd=to_show(spent.usd * Decimal("0.07")),
            idle_usd=to_show(idle),
        )
        is_gone = now >= self.deleted_at
        standing = Standing.GONE if is_gone else Standing.ENDED
        last = self.charges[bisect_right([c.since for c in self.charges], until) - 1]
        is_running = now < self.end
        return JobFacts(
            uid=self.uid,
            name=self.name,
            created_at=self.begin,
            as_of=until,
            amounts=parts_of(cost, POOLS),
            usd_per_hour=last.usd_per_hour if is_running else NO_RATE,
            standing=Standing.OPEN if is_running else standing,
            labels={"team": f"team-{self.uid[0]}"},
        )


@dataclass
class Operator:
    """The bills of a namespace, and the operator that writes them."""

    jobs: list[Life]
    dice: random.Random
    texts: dict[str, str] = field(default_factory=dict)
    finals: dict[str, JobFacts] = field(default_factory=dict)  # of deleted jobs, in memory only
    kills: int = 0
    vanished: int = 0
    largest: int = 0

    def known(self) -> Known:
        known = Known()
        for month in sorted(self.texts):
            known = known.after(read(self.texts[month]))
        return known

    def keep(self, now: datetime) -> bool:
        """Write the changes; False: killed at one of the writes."""
        known = self.known()
        live = [one for one in self.jobs if one.begin <= now < one.deleted_at]
        uids = {one.uid for one in live}
        facts = [one.facts(now) for one in live] + list(self.finals.values())
        for line in known.lines.values():
            growing = line.standing in (Standing.OPEN, Standing.CARRIED)
            if growing and line.uid not in uids and line.uid not in self.finals:
                gone = next(one for one in self.jobs if one.uid == line.uid)
                facts.append(facts_of_vanished(line, gone.deleted_at))
                self.vanished += 1
        writes = list(changes(known, facts).items())
        is_killed = bool(writes) and self.dice.random() < KILLS
        most = self.dice.randint(0, len(writes)) if is_killed else len(writes)
        for month, lines in writes[:most]:
            text = self.texts.get(month)
            bill = read(text) if text else MonthBill("ns", month)
            self.texts[month] = write(fitted(with_lines(bill, lines), uids))
            self.largest = max(self.largest, len(self.texts[month]))
        if is_killed:
            self.kills += 1
        self.finals.clear()  # written or forgotten
        return not is_killed

    def charged(self) -> Fraction:
        bills = [read(text) for text in self.texts.values()]
        listed = sum(sum(x.charged.values()) for bill in bills for x in bill.jobs.values())
        return Fraction(listed + sum(sum(bill.others.values()) for bill in bills), UNITS_PER_USD)

    def charged_to(self, uid: str) -> Fraction:
        lines = (read(text).jobs.get(uid) for text in self.texts.values())
        return Fraction(sum(sum(x.charged.values()) for x in lines if x), UNITS_PER_USD)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="4 namespaces, 80 jobs")
    parser.add_argument("--namespaces", type=how_many, default=50)
    parser.add_argument("--jobs", type=how_many, default=5_000)
    parser.add_argument("--seed", type=how_many, default=1)
    arguments = parser.parse_args()
    namespaces, jobs = (4, 80) if arguments.quick else (arguments.namespaces, arguments.jobs)
    played = [
        play(random.Random(f"{arguments.seed}/{number}"), jobs // namespaces)  # noqa: S311 - jobs
        for number in range(namespaces)
    ]
    errors = [
        abs(one.charged() - sum((job.metered() for job in one.jobs), Fraction(0))) for one in played
    ]
    of_jobs = [abs(one.charged_to(job.uid) - job.metered()) for one in played for job in one.jobs]
    say("bill_error_usd", float(max(errors)), "USD", namespaces=namespaces, jobs=jobs)
    say("bill_job_error_usd", float(max(of_jobs)), "USD")
    say("bill_object_kb", max(one.largest for one in played) / 1000, "kB")
    say("bill_kills", sum(one.kills for one in played), "kills")
    say("bill_vanished", sum(one.vanished for one in played), "jobs")


def play(dice: random.Random, num_jobs: int) -> Operator:
    """Play the jobs of a namespace to their ends."""
    operator = Operator([life(dice, number) for number in range(num_jobs)], dice)
    moments: list[tuple[datetime, str, Life | None]] = []
    for number, job in enumerate(operator.jobs):
        moments.extend((at, f"look{number}", None) for at in looks(job))
        moments.append((job.deleted_at, f"delete{number}", job))
        # Of the writes every few minutes, only the last one before an event can matter.
        refreshed = job.deleted_at - dice.randrange(1, REFRESH_SECONDS) * SECOND
        moments.append((refreshed, f"refresh{number}", None))
    heapq.heapify(moments)
    down_until = BEGIN
    while moments:
        now, _, deleted = heapq.heappop(moments)
        if now < down_until:
            continue  # no operator runs; the next one finds the result
        if deleted is not None:
            operator.finals[deleted.uid] = deleted.facts(now)
        elif not operator.keep(now):
            down_until = now + timedelta(seconds=DOWN_SECONDS)
            heapq.heappush(moments, (down_until, "start", None))
    return operator


def looks(job: Life) -> Iterator[datetime]:
    """Yield the times at which the bill is written for events of a job."""
    yield job.begin + NEWS_SECONDS * SECOND
    for charge in job.charges[1:]:
        yield charge.since + RATE_SECONDS * SECOND
    yield job.end + NEWS_SECONDS * SECOND
    yield job.deleted_at + NEWS_SECONDS * SECOND


def life(dice: random.Random, number: int) -> Life:
    """Return a random job of up to three days."""
    begin = BEGIN + dice.randrange((DAYS - 4) * 86_400) * SECOND
    at, charges = begin, list[Charge]()
    for _ in range(dice.randint(1, 5)):
        pool = dice.choice(list(POOLS))
        rate = UsdPerHour(Decimal(dice.randrange(100, 400_000)).scaleb(-4))
        charges.append(Charge(at, rate, POOLS[pool] == "Spot", pool))
        at += dice.randrange(120, 14 * 3600) * SECOND
    is_deleted_running = dice.random() < 0.5
    return Life(
        name=f"train-{number}-{dice.choice(['resnet', 'llama', 'whisper'])}",
        uid=str(UUID(int=dice.getrandbits(128), version=4)),
        charges=Charges(charges),
        end=at,
        is_deleted_running=is_deleted_running,
        deleted_at=at if is_deleted_running else at + dice.randrange(1, 5 * 86_400) * SECOND,
        idle_usd_per_hour=Decimal(dice.randrange(0, 900)).scaleb(-4),
    )


if __name__ == "__main__":
    main()
