"""The periods of a SpendLimit, in UTC."""

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from spotrun.api.spec.spend_limit import SpendPeriod


@dataclass(frozen=True, slots=True)
class Period:
    """A stretch of time in which spending is added up; one without a start is all the time."""

    start: datetime | None = None
    end: datetime | None = None


def period_of(kind: SpendPeriod, now: datetime) -> Period:
    """Return the present period of a kind."""
    if kind is SpendPeriod.TOTAL:
        return Period()
    day = datetime.combine(now.astimezone(UTC).date(), time(), UTC)
    if kind is SpendPeriod.WEEK:
        start = day - timedelta(days=day.weekday())
        return Period(start, start + timedelta(days=7))
    start = day.replace(day=1)
    return Period(start, (start + timedelta(days=32)).replace(day=1))
