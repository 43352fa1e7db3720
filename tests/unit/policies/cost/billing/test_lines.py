"""A bill says what a job has cost once, whatever is written again, and in the right month."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from spotrun.policies.cost.billing.lines import Standing, facts_of_vanished
from spotrun.policies.cost.billing.parts import Part
from tests.unit.policies.cost.billing.histories import (
    DECEMBER,
    LOST,
    NOVEMBER,
    SPOT,
    Books,
    at,
    facts,
)


def test_the_same_cost_is_on_the_bill_once_however_often_it_is_seen() -> None:
    books = Books()
    assert books.keep(facts(at(3), 10_000)) == 1
    assert books.keep(facts(at(3), 10_000)) == 0
    books.keep(facts(at(4), 30_000))
    assert books.charged(NOVEMBER) == 30_000


def test_a_job_that_has_cost_nothing_is_on_no_bill() -> None:
    assert Books().keep(facts(at(3), {})) == 0


def test_a_cost_that_is_corrected_downwards_lowers_the_bill() -> None:
    books = Books()
    books.keep(facts(at(3), 10_000))
    books.keep(facts(at(4), 9_000))
    assert books.charged(NOVEMBER) == 9_000


def test_the_time_across_a_boundary_is_divided_to_the_last_unit() -> None:
    books = Books()
    books.keep(facts(at(30, 23), 50_000))
    books.keep(facts(at(1, 2, month=12), 50_010))  # one hour of three is in November
    assert (books.charged(NOVEMBER), books.charged(DECEMBER)) == (50_003, 7)


def test_a_month_begins_where_the_one_before_it_ended() -> None:
    books = Books()
    books.keep(facts(at(30, 12), 50_000))
    books.keep(facts(at(2, month=12), 53_333))
    november, december = (next(iter(bill.jobs.values())) for bill in books.bills)
    assert november.standing is Standing.CARRIED
    assert november.as_of == at(1, month=12)
    assert november.total == december.opening


def test_a_crash_between_the_months_is_made_good_from_what_is_written() -> None:
    books = Books()
    books.keep(facts(at(30, 23), 50_000))
    after = facts(at(1, 2, month=12), 50_010)
    books.keep(after, most_writes=1)
    assert set(books.texts) == {NOVEMBER}
    assert books.keep(after) == 1
    assert (books.charged(NOVEMBER), books.charged(DECEMBER)) == (50_003, 7)
    assert books.keep(after) == 0


def test_a_deleted_job_goes_on_at_its_rate_where_only_the_first_month_was_written() -> None:
    books = Books()
    books.keep(facts(at(30, 23), 50_000, rate="1"))
    deleted_at = at(1, 2, month=12)
    gone = facts(deleted_at, 80_000, rate="0", standing=Standing.GONE)
    books.keep(gone, most_writes=1)
    [line] = books.known.lines.values()
    books.keep(facts_of_vanished(line, deleted_at))
    assert (books.charged(NOVEMBER), books.charged(DECEMBER)) == (60_000, 20_000)


def test_a_job_that_was_suspended_for_a_month_pays_where_it_goes_on() -> None:
    books = Books()
    books.keep(facts(at(5), 10_000, rate="0"))
    books.keep(facts(at(20, month=12), 10_100, rate="3600"))
    assert (books.charged(NOVEMBER), books.charged(DECEMBER)) == (10_000, 100)


def test_a_job_that_is_seen_late_is_charged_back_as_far_as_its_rate_says() -> None:
    books = Books()
    books.keep(facts(at(1, 1, month=12), 20_000, rate="1", created_at=at(1)))  # two hours
    assert (books.charged(NOVEMBER), books.charged(DECEMBER)) == (10_000, 10_000)


def test_what_is_over_stays_as_it_is_when_the_job_is_deleted() -> None:
    books = Books()
    books.keep(facts(at(5), 10_000, rate="0", standing=Standing.ENDED))
    assert books.keep(facts(at(5), 10_000, rate="0", standing=Standing.GONE)) == 0
    assert books.keep(facts(at(9, month=12), 10_000, rate="0", standing=Standing.GONE)) == 0


def test_a_deleted_job_is_charged_no_more() -> None:
    books = Books()
    books.keep(facts(at(5), 10_000, standing=Standing.GONE))
    assert books.keep(facts(at(6), 12_000)) == 0


def test_a_job_that_vanished_is_charged_at_its_rate_until_it_was_deleted() -> None:
    books = Books()
    books.keep(facts(at(5), {SPOT: 10_000, LOST: 500}, rate="6"))
    [line] = books.known.lines.values()
    books.keep(facts_of_vanished(line, at(5, minute=10)))
    assert books.charged(NOVEMBER) == 10_500 + 10_000
    [line] = books.known.lines.values()
    assert line.standing is Standing.GONE
    assert line.charged == {SPOT: 20_000, LOST: 500}


def test_a_job_that_vanished_at_an_unknown_time_costs_what_is_written() -> None:
    books = Books()
    books.keep(facts(at(5), {Part("storage"): 7}, rate="6"))
    [line] = books.known.lines.values()
    books.keep(facts_of_vanished(line, None))
    assert books.charged(NOVEMBER) == 7


looks = st.lists(
    st.tuples(st.integers(0, 20 * 24 * 3600), st.integers(-500, 100_000), st.booleans()),
    min_size=1,
    max_size=12,
)


@given(looks, st.lists(st.integers(0, 2), max_size=12))
def test_whatever_is_lost_between_writes_the_bills_add_up_to_the_job(
    steps: list[tuple[int, int, bool]], crashes: list[int]
) -> None:
    books, now, units = Books(), at(20), 1_000
    for index, (seconds, more, runs) in enumerate(steps):
        now, units = now + timedelta(seconds=seconds), max(units + more, 1)
        seen = facts(now, {SPOT: units, LOST: units // 3}, rate="2" if runs else "0")
        most = crashes[index] if index < len(crashes) else None
        books.keep(seen, most_writes=most)  # the operator may be killed after any write
    books.keep(seen)
    assert books.sum == units + units // 3
    assert books.keep(seen) == 0
