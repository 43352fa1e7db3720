from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.api.spec.spend_limit import SpendPeriod
from spotrun.policies.budget.spend.period import Period, period_of


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "now", "start", "end"),
    [
        (SpendPeriod.MONTH, "2026-02-28T23:59:59", "2026-02-01", "2026-03-01"),
        (SpendPeriod.MONTH, "2026-12-31T00:00:00", "2026-12-01", "2027-01-01"),
        (SpendPeriod.WEEK, "2026-03-01T12:00:00", "2026-02-23", "2026-03-02"),
        (SpendPeriod.WEEK, "2026-03-02T00:00:00", "2026-03-02", "2026-03-09"),
    ],
)
def test_a_period_begins_at_midnight_utc(kind: SpendPeriod, now: str, start: str, end: str) -> None:
    assert period_of(kind, at(now)) == Period(at(start), at(end))


def test_other_zones_count_as_utc() -> None:
    there = datetime(2026, 3, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    assert period_of(SpendPeriod.MONTH, there).start == at("2026-02-01")


def test_in_total_there_is_no_period() -> None:
    assert period_of(SpendPeriod.TOTAL, at("2026-03-01")) == Period()


@given(
    st.datetimes(timezones=st.just(UTC)).filter(lambda moment: 1 < moment.year < 9000),
    st.sampled_from([SpendPeriod.MONTH, SpendPeriod.WEEK]),
)
def test_periods_follow_each_other_without_a_gap(now: datetime, kind: SpendPeriod) -> None:
    period = period_of(kind, now)
    assert period.start is not None
    assert period.end is not None
    assert period.start <= now < period.end
    assert period_of(kind, period.end).start == period.end
