"""Jobs as bills see them, for tests."""

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal

from spotrun.money.units import UsdPerHour
from spotrun.policies.cost.billing.codec import read, write
from spotrun.policies.cost.billing.lines import JobFacts, JobLine, Standing
from spotrun.policies.cost.billing.month_bill import Known, MonthBill, changes, with_lines
from spotrun.policies.cost.billing.parts import Amounts, Part

NOVEMBER, DECEMBER = "2026-11", "2026-12"
SPOT = Part("compute", "Spot", "a")
LOST = Part("lostWork", "Spot", "a")


def at(day: int, hour: int = 0, *, month: int = 11, minute: int = 0) -> datetime:
    return datetime(2026, month, day, hour, minute, tzinfo=UTC)


def facts(
    as_of: datetime,
    units: int | Amounts,
    *,
    rate: str = "1",
    standing: Standing = Standing.OPEN,
    uid: str = "0f8d4c1e-0000-4000-8000-000000000001",
    created_at: datetime | None = None,
    team: str = "vision",
) -> JobFacts:
    return JobFacts(
        uid=uid,
        name=f"job-{uid[:4]}",
        created_at=created_at or at(1),
        as_of=as_of,
        amounts={SPOT: units} if isinstance(units, int) else units,
        usd_per_hour=UsdPerHour(Decimal(rate)),
        standing=standing,
        labels={"team": team},
    )


def bill_of(*seen: JobFacts) -> MonthBill:
    return with_lines(MonthBill("ns", NOVEMBER), changes(Known(), seen)[NOVEMBER])


class Books:
    """Bills as they are stored: each write is text, and a crash may come before or after any."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    @property
    def bills(self) -> list[MonthBill]:
        return [read(self.texts[month]) for month in sorted(self.texts)]

    @property
    def known(self) -> Known:
        known = Known()
        for bill in self.bills:
            known = known.after(bill)
        return known

    def keep(self, *seen: JobFacts, most_writes: int | None = None) -> int:
        """Write what has changed, and stop after so many writes; returns the number made."""
        wanted = list(changes(self.known, seen).items())
        for month, lines in wanted[:most_writes]:
            self.write(month, lines)
        return len(wanted[:most_writes])

    def write(self, month: str, lines: Iterable[JobLine]) -> None:
        bill = read(self.texts[month]) if month in self.texts else MonthBill("ns", month)
        self.texts[month] = write(with_lines(bill, lines))

    def charged(self, month: str) -> int:
        bill = read(self.texts[month])
        listed = sum(sum(line.charged.values()) for line in bill.jobs.values())
        return listed + sum(bill.others.values())

    @property
    def sum(self) -> int:
        return sum(self.charged(month) for month in self.texts)
