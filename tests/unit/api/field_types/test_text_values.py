import datetime as dt
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spotrun.api.field_types.amounts import (
    Amount,
    Percent,
    PositiveAmount,
    Quantity,
    Ratio,
    SignedAmount,
)
from spotrun.api.field_types.bounded import DnsLabel, DnsName, LabelKey, LabelValue
from spotrun.api.field_types.intervals import Ranges, runs_of
from spotrun.api.field_types.text_values import (
    AutoOrDuration,
    Duration,
    Intervals,
    PositiveDuration,
    Text,
    Time,
    WorkerIds,
)
from spotrun.api.spec.schedule import ClockTime, Days, EndTime


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90.0),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        ("0s", 0.0),
        ("250ms", 0.25),
        ("1h0m0s", 3600.0),
        ("2h3m4s5ms", 7384.005),
        ("999999.999h", 3599999996.4),
    ],
)
def test_a_duration_is_its_seconds_and_its_own_text(text: str, seconds: float) -> None:
    duration = Duration(text)
    assert (duration, duration.seconds) == (text, seconds)
    assert duration.timedelta == dt.timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "-1s",
        "+1s",
        "1d",
        "1w",
        "1 h",
        "30m1h",
        "1s1s",
        "1us",
        "h",
        ".5h",
        "1.h",
        "1h\n",
        "1e3s",
        "1.2345s",
        "1000000h",
        "\u0661s",
    ],
)
def test_what_is_no_duration_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="write 48h for two"):
        Duration(text)


@settings(deadline=None)
@given(st.integers(min_value=0, max_value=3_599_999_999_999))
def test_durations_are_written_as_they_are_read(milliseconds: int) -> None:
    assert Duration.of(milliseconds / 1000).exact_seconds * 1000 == milliseconds


def test_auto_is_no_duration_and_a_duration_is_one() -> None:
    assert AutoOrDuration("Auto").duration is None
    assert AutoOrDuration("10m").duration == PositiveDuration("10m")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (PositiveDuration, "0h0m"),
        (PositiveDuration, "0.000s"),
        (AutoOrDuration, "0s"),
        (AutoOrDuration, "auto"),
        (Amount, "-1"),
        (Amount, "1."),
        (Amount, ".5"),
        (Amount, "1e3"),
        (Amount, "1_000"),
        (Amount, "NaN"),
        (Amount, "12.5\n"),
        (Amount, "1.0000000000001"),
        (PositiveAmount, "0.00"),
        (Ratio, "0"),
        (Ratio, "1.000000000001"),
        (SignedAmount, "--1"),
        (Percent, "43"),
        (Quantity, "1GB"),
        (Quantity, "-1"),
        (Quantity, "1ki"),
        (Time, "2027-02-29T00:00:00Z"),
        (Time, "2027-01-01"),
        (Time, "2027-01-01T00:00:00"),
        (Time, "2027-01-01 00:00:00Z"),
        (Time, "1027-01-01T00:00:00Z"),
        (WorkerIds, "1,"),
        (WorkerIds, "a"),
        (Days, "Mo"),
        (Days, "Mon-"),
        (ClockTime, "24:00"),
        (EndTime, "24:01"),
        (DnsLabel, "a" * 64),
        (DnsName, "a..b"),
        (LabelKey, "a/b/c"),
        (LabelValue, "-a"),
    ],
)
def test_text_of_the_wrong_form_is_refused_with_a_hint(kind: type[Text], text: str) -> None:
    with pytest.raises(ValueError, match=r"must be|Too long"):
        kind(text)


def test_amounts_are_exact() -> None:
    assert Amount("0.1").decimal + Amount("0.2").decimal == Decimal("0.3")
    assert Amount("999999999999.999999999999").decimal == Decimal("999999999999.999999999999")
    assert SignedAmount("-12.50").decimal == Decimal("-12.5")
    assert Percent("120.5%").decimal == Decimal("120.5")


@settings(deadline=None)
@given(st.decimals(min_value=0, max_value=999_999_999_999, places=12))
def test_amounts_are_written_as_they_are_read(number: Decimal) -> None:
    assert Amount.of(number).decimal == number


def test_large_and_small_amounts_are_written_in_plain_digits() -> None:
    assert Amount.of(Decimal("1E+3")) == "1000"
    assert Amount.of(Decimal("1E-12")) == "0.000000000001"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", "0"),
        ("1.5", "1.5"),
        ("500m", "0.5"),
        ("20Gi", "21474836480"),
        ("1k", "1000"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("1E", "1e18"),
        ("1Ei", "1152921504606846976"),
        ("100n", "1e-7"),
    ],
)
def test_quantities_are_counted_as_kubernetes_counts_them(text: str, value: str) -> None:
    assert Quantity(text).value == Decimal(value)


def test_times_know_their_zone() -> None:
    noon = dt.datetime(2027, 1, 1, 12, tzinfo=dt.UTC)
    assert Time("2027-01-01T12:00:00Z").datetime == noon
    assert Time("2027-01-01T17:30:00+05:30").datetime == noon
    assert Time.of(noon) == "2027-01-01T12:00:00Z"


@settings(deadline=None)
@given(
    st.datetimes(
        min_value=dt.datetime(2000, 1, 2),  # noqa: DTZ001 - hypothesis wants bounds without a zone
        max_value=dt.datetime(2999, 12, 30),  # noqa: DTZ001
        timezones=st.just(dt.UTC),
    )
)
def test_times_are_written_as_they_are_read(moment: dt.datetime) -> None:
    assert Time.of(moment).datetime == moment


@settings(deadline=None)
@given(st.lists(st.integers(min_value=0, max_value=50), max_size=20))
def test_worker_ids_keep_their_order(worker_ids: list[int]) -> None:
    written = WorkerIds.of(tuple(worker_ids))
    assert [n for a, b in written.intervals for n in range(a, b + 1)] == worker_ids


@settings(deadline=None)
@given(st.lists(st.integers(min_value=0, max_value=999_999_999), max_size=400))
def test_long_lists_in_any_order_are_read_as_they_were_written(worker_ids: list[int]) -> None:
    assert list(WorkerIds(str(WorkerIds.of(worker_ids))).numbers) == worker_ids


@settings(deadline=None)
@given(st.sets(st.integers(0, 300)), st.sets(st.integers(0, 300)), st.integers(0, 310))
def test_ranges_are_sets(some: set[int], more: set[int], end: int) -> None:
    found = Ranges.of(runs_of(sorted(some))).union(more)
    both = some | more
    assert {number for number in range(310) if number in found} == both
    assert (found.size, found.end) == (len(both), max(both, default=-1) + 1)
    assert list(found.missing(end)) == [n for n in range(end) if n not in both]
    assert found.intervals == tuple(runs_of(sorted(both)))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("", ()),
        ("7", (7,)),
        ("0-2,7", (0, 1, 2, 7)),
        ("+5", (5,)),
        ("+5,2-1,-3,10", (5, 7, 8, 5, 15)),
        ("+5-0,0", (5, 5)),
        ("9-7", ()),
    ],
)
def test_worker_ids_are_written_as_numbers_or_as_distances(
    text: str, numbers: tuple[int, ...]
) -> None:
    assert WorkerIds(text).numbers == numbers


def test_a_list_of_the_largest_job_is_short() -> None:
    isolated = [100_000 + n * 611_953 % 899_981 for n in range(20_000)]  # scattered
    in_order = sorted(isolated)[::2]
    settled = Ranges.of(runs_of(sorted(set(range(999_999)) - set(in_order))))
    assert len(WorkerIds.of(in_order)) < 40_000
    assert len(Intervals.of_intervals(settled.intervals)) < 60_000
    assert len(WorkerIds.of(isolated[:10_000])) <= 70_000
    assert len(WorkerIds.of(range(10_000))) == 6


def test_worker_ids_are_compact() -> None:
    assert WorkerIds.of((*range(42), 43)) == "0-41,43"
    assert WorkerIds("").intervals == ()


@pytest.mark.parametrize(
    ("days", "numbers"),
    [("Sat", (5,)), ("Mon-Fri", (0, 1, 2, 3, 4)), ("Sat-Mon", (5, 6, 0)), ("Sun-Sun", (6,))],
)
def test_days_may_run_over_sunday(days: str, numbers: tuple[int, ...]) -> None:
    assert Days(days).numbers == numbers


def test_the_day_ends_at_1440_minutes() -> None:
    assert ClockTime("00:01").minutes == 1
    assert EndTime("24:00").minutes == 1440
