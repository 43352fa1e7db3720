"""The periods of a SpendLimit, in UTC."""

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from spotrun.api.spec.spend_limit import SpendPeriod


@dataclass(frozen=True, slots=True)
class Period:
    """A time in which spending is added up; without a start and an end it is all time."""

    start: datetime | None = None
    end: datetime | None = None


def period_of(kind: SpendPeriod, now: datetime) -> Period:
    """Return the period of this kind that contains `now`."""
    if kind is SpendPeriod.TOTAL:
        return Period()
    day = datetime.combine(now.astimezone(UTC).date(), time(), UTC)
    if kind is SpendPeriod.WEEK:
        start = day - timedelta(days=day.weekday())
        return Period(start, start + timedelta(days=7))
    start = day.replace(day=1)
    return Period(start, (start + timedelta(days=32)).replace(day=1))
