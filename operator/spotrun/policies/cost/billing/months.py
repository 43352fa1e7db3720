"""Months in UTC, for which bills are made."""

from datetime import UTC, datetime, timedelta

_MICROSECOND = timedelta(microseconds=1)

Month = str
"""A month as it is written in the names of bills, such as 2026-11."""


def month_of(moment: datetime) -> Month:
    """Return the month of a moment."""
    at = moment.astimezone(UTC)
    return f"{at.year:04d}-{at.month:02d}"


def begin_of(month: Month) -> datetime:
    """Return the first moment of a month; raises ValueError if the text is not a month."""
    return datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC)


def end_of(month: Month) -> datetime:
    """Return the first moment after a month."""
    begin = begin_of(month)
    return begin.replace(year=begin.year + begin.month // 12, month=begin.month % 12 + 1)


def months_between(start: datetime, end: datetime) -> list[tuple[Month, int]]:
    """Return the months between two moments, each with the microseconds that lie in it.

    If the end is not after the start, this is the month of the start.
    """
    found: list[tuple[Month, int]] = []
    at = start
    while at < end:
        month = month_of(at)
        until = min(end_of(month), end)
        found.append((month, (until - at) // _MICROSECOND))
        at = until
    return found or [(month_of(start), 0)]
