"""Windows: over midnight, over Sunday, and in the nights in which the clock is changed."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from spotrun.api.spec.schedule import Schedule
from spotrun.policies.lifecycle.schedule_windows import (
    after_open_seconds,
    is_open,
    next_change,
    open_seconds,
    opens,
    seconds_until_change,
)


def a_schedule(start: str, end: str, zone: str = "UTC", *days: str) -> Schedule:
    window = {"from": start, "to": end, "timeZone": zone, **({"days": days} if days else {})}
    return Schedule.model_validate_json(json.dumps({"windows": [window]}))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


BERLIN = a_schedule("20:00", "06:00", "Europe/Berlin")
NEW_YORK = a_schedule("20:00", "06:00", "America/New_York")


@pytest.mark.parametrize(
    ("schedule", "opens", "closes", "hours"),
    [
        (BERLIN, "2026-01-10T20:00+01:00", "2026-01-11T06:00+01:00", 10),
        (BERLIN, "2026-03-28T20:00+01:00", "2026-03-29T06:00+02:00", 9),
        (BERLIN, "2026-10-24T20:00+02:00", "2026-10-25T06:00+01:00", 11),
        (NEW_YORK, "2026-03-07T20:00-05:00", "2026-03-08T06:00-04:00", 9),
        (NEW_YORK, "2026-10-31T20:00-04:00", "2026-11-01T06:00-05:00", 11),
        (
            a_schedule("22:00", "24:00", "UTC", "Sun"),
            "2026-03-01T22:00+00:00",
            "2026-03-02T00:00+00:00",
            2,
        ),
        (
            a_schedule("20:00", "06:00", "UTC", "Sun"),
            "2026-03-01T20:00+00:00",
            "2026-03-02T06:00+00:00",
            10,
        ),
    ],
)
def test_a_window_follows_the_clock_on_the_wall(
    schedule: Schedule, opens: str, closes: str, hours: int
) -> None:
    begin, end, moment = at(opens), at(closes), timedelta(seconds=1)
    assert end - begin == timedelta(hours=hours)
    assert not is_open(schedule, begin - moment)
    assert is_open(schedule, begin)
    assert is_open(schedule, end - moment)
    assert not is_open(schedule, end)
    assert next_change(schedule, begin - moment) == begin
    assert next_change(schedule, begin) == end


def test_days_are_those_on_which_a_window_begins() -> None:
    weekdays = a_schedule("20:00", "06:00", "UTC", "Mon-Fri")
    assert is_open(weekdays, at("2026-03-07T05:00+00:00"))  # Saturday morning belongs to Friday
    assert not is_open(weekdays, at("2026-03-07T21:00+00:00"))
    assert next_change(weekdays, at("2026-03-07T06:00+00:00")) == at("2026-03-09T20:00+00:00")


def test_windows_that_meet_are_one() -> None:
    always = a_schedule("00:00", "24:00")
    assert is_open(always, at("2026-03-07T00:00+00:00"))
    assert next_change(always, at("2026-03-07T12:00+00:00")) is None


@pytest.mark.parametrize(
    ("schedule", "start", "end", "hours"),
    [
        (BERLIN, "2026-01-10T12:00+01:00", "2026-01-17T12:00+01:00", 70),
        (BERLIN, "2026-03-28T12:00+01:00", "2026-03-29T12:00+02:00", 9),
        (BERLIN, "2026-01-10T22:00+01:00", "2026-01-11T01:00+01:00", 3),
        (BERLIN, "2026-01-10T10:00+01:00", "2026-01-10T18:00+01:00", 0),
        (BERLIN, "2026-01-10T22:00+01:00", "2026-01-10T21:00+01:00", 0),
        (a_schedule("00:00", "24:00"), "2026-01-01T00:00+00:00", "2026-02-01T00:00+00:00", 744),
        (
            a_schedule("20:00", "06:00", "UTC", "Sun"),
            "2026-03-01T00:00+00:00",
            "2026-03-29T00:00+00:00",
            40,
        ),
    ],
)
def test_how_much_of_a_stretch_of_time_is_usable(
    schedule: Schedule, start: str, end: str, hours: float
) -> None:
    assert open_seconds(schedule, at(start), at(end)) == hours * 3600


@pytest.mark.parametrize(
    ("now", "ahead", "holds_seconds"),
    [
        ("2026-03-07T06:00+00:00", "3 days", 14 * 3600),
        ("2026-03-07T20:00+00:00", "48 h", 3600),
        ("2026-03-09T06:00+00:00", "14 h", 3600),
        ("2026-03-09T06:30+00:00", "14 h", 1800),
        ("2026-03-09T18:00+00:00", "120 min", 600),
        ("2026-03-09T19:51+00:00", "10 min", 540),
    ],
)
def test_outside_the_windows_it_is_told_when_the_next_one_begins(
    now: str, ahead: str, holds_seconds: float
) -> None:
    weekdays = a_schedule("20:00", "06:00", "UTC", "Mon-Fri")
    words = f"the next one begins on Mon 2026-03-09 at 20:00 UTC, in at most {ahead}"
    assert opens(weekdays, at(now)) == words
    assert seconds_until_change(weekdays, at(now)) == holds_seconds


def test_a_beginning_is_told_on_the_clock_of_its_own_window() -> None:
    windows = [
        {"from": "20:00", "to": "22:00", "timeZone": "Asia/Tokyo"},
        {"from": "20:00", "to": "06:00", "timeZone": "Europe/Berlin"},
    ]
    both = Schedule.model_validate_json(json.dumps({"windows": windows}))
    assert opens(both, at("2026-07-01T05:00+00:00")).startswith(
        "the next one begins on Wed 2026-07-01 at 20:00 Asia/Tokyo, in at most 6 h"
    )
    assert opens(both, at("2026-07-01T14:00+00:00")).startswith(
        "the next one begins on Wed 2026-07-01 at 20:00 Europe/Berlin, in at most 4 h"
    )


@pytest.mark.parametrize("day", range(22, 29))
def test_a_week_whose_only_window_the_clock_leaves_out_is_passed_over(day: int) -> None:
    nightly = a_schedule("02:00", "03:00", "Europe/Berlin", "Sun")
    start = datetime(2027, 3, day, tzinfo=UTC)
    assert after_open_seconds(nightly, start, 1800) == at("2027-04-04T00:30:00Z")
