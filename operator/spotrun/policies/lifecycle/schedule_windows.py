"""Schedule windows: whether a job may run at a moment, and when that changes.

Wall-clock times are compared in the window's own zone, so a window from 20:00 to 06:00 begins and
ends at these times on the clock also in the nights in which the clock is changed.
"""

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from spotrun.api.spec.schedule import Schedule, Window

_DAY_MINUTES = 24 * 60
_WEEK = timedelta(weeks=1)
_A_MONDAY = datetime(2024, 1, 1, tzinfo=UTC)
_STEPS = ((timedelta(days=1), 1, "days"), (timedelta(hours=1), 1, "h"))
_SMALLEST_STEP = (timedelta(minutes=10), 10, "min")
"""The time until a window is given in coarse steps: each change of the message is a write."""
_FEW = 2
"""Fewer steps than this are given in the next smaller unit."""


def is_open(schedule: Schedule, now: datetime) -> bool:
    """Whether a moment lies in one of the windows."""
    return any(start <= now < end for start, end in _stretches(schedule, now))


def next_change(schedule: Schedule, now: datetime) -> datetime | None:
    """The next moment at which `is_open` differs from now; None if there is none within a week."""
    edges = sorted(
        {edge for stretch in _stretches(schedule, now) for edge in stretch if edge > now}
    )
    here = is_open(schedule, now)
    return next((edge for edge in edges if is_open(schedule, edge) is not here), None)


def opens(schedule: Schedule, now: datetime) -> str:
    """Describe when the next window begins, on its own clock, and how far away that is."""
    moment = next_change(schedule, now)
    if moment is None:
        return "no window begins within a week"
    zone = next(one.time_zone for one in schedule.windows if _begins(one, moment))
    ahead, _ = _ahead(moment - now)
    local = moment.astimezone(ZoneInfo(zone))
    return f"the next one begins on {local:%a %Y-%m-%d at %H:%M} {zone}, in at most {ahead}"


def seconds_until_change(schedule: Schedule, now: datetime) -> float | None:
    """Return how long the result of `opens` stays the same; None: until the schedule changes."""
    moment = next_change(schedule, now)
    return None if moment is None else _ahead(moment - now)[1] / timedelta(seconds=1)


def open_seconds(schedule: Schedule, start: datetime, end: datetime) -> float:
    """Return how many of the seconds between two moments lie in windows."""
    total, at = 0.0, start
    while at + _WEEK <= end:
        total += _open_week_seconds(schedule, at)
        at += _WEEK
    return total + _open_seconds(schedule, at, end)


def after_open_seconds(schedule: Schedule, start: datetime, seconds: float) -> datetime:
    """Return the moment by which this many seconds since `start` have lain in windows."""
    monday = start - (start - _A_MONDAY) % _WEEK
    per_week = _open_week_seconds(schedule, monday)
    weeks, left = divmod(seconds, per_week) if per_week else (0.0, seconds)
    at = start + weeks * _WEEK
    while left > 0:
        change = next_change(schedule, at)
        if is_open(schedule, at):
            stretch = (change - at) / timedelta(seconds=1) if change is not None else left
            if stretch >= left:
                return at + timedelta(seconds=left)
            left -= stretch
        # When clocks are put forward, this week's only window may be skipped.
        at = change if change is not None else at + _WEEK
    return at


@lru_cache(maxsize=4096)  # a deadline may be months away, and is read in each pass
def _open_week_seconds(schedule: Schedule, start: datetime) -> float:
    return _open_seconds(schedule, start, start + _WEEK)


def _open_seconds(schedule: Schedule, start: datetime, end: datetime) -> float:
    total, at = timedelta(), start
    while at < end:
        until = min(next_change(schedule, at) or end, end)
        if is_open(schedule, at):
            total += until - at
        at = until
    return total / timedelta(seconds=1)


def _stretches(schedule: Schedule, now: datetime) -> Iterator[tuple[datetime, datetime]]:
    for window in schedule.windows:
        yield from _of_window(window, now)


def _of_window(window: Window, now: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The stretches that begin from two days ago to eight days ahead, in UTC."""
    zone = ZoneInfo(window.time_zone)
    today = now.astimezone(zone).date()
    days = {number for part in window.days or () for number in part.numbers} or set(range(7))
    length = (window.to.minutes - window.from_.minutes) % _DAY_MINUTES or _DAY_MINUTES
    for offset in range(-2, 9):
        day = today + timedelta(days=offset)
        if day.weekday() in days:
            midnight = datetime(day.year, day.month, day.day)  # noqa: DTZ001 - given a zone below
            start = midnight + timedelta(minutes=window.from_.minutes)
            yield _in_utc(start, zone), _in_utc(start + timedelta(minutes=length), zone)


def _begins(window: Window, moment: datetime) -> bool:
    return any(start == moment for start, _ in _of_window(window, moment))


def _ahead(left: timedelta) -> tuple[str, timedelta]:
    """Return the remaining time, rounded up, and how long this text stays valid."""
    step, size, unit = next((one for one in _STEPS if left > _FEW * one[0]), _SMALLEST_STEP)
    number = math.ceil(left / step)
    return f"{number * size} {unit}", left - (number - 1) * step


def _in_utc(clock: datetime, zone: ZoneInfo) -> datetime:
    """Return the moment at which the wall clock shows this.

    The arithmetic above uses clock times and not elapsed time. So a window ends at the written
    time, even if the clock was changed in between.
    """
    return clock.replace(tzinfo=zone).astimezone(UTC)
