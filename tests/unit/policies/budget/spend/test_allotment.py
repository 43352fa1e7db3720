"""A worker costs $10 an hour. Its end (a grace period, a minute) is reckoned at 1.2 times 180 s,
$0.60, and ten minutes of work at $2.00: the smallest useful piece is $2.60."""

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.money.units import Usd
from spotrun.policies.budget.spend.allotment import Allotment, allot, piece_usd, spent_in_period
from spotrun.policies.budget.spend.facts import JobFacts, Limit, SpendState
from tests.support.jobs.builders import NOW
from tests.support.money.shared_limits import a_job, a_limit, asking, running, usd


def alloted(limit: Limit, *jobs: JobFacts, spent: str = "0") -> Allotment:
    return allot([limit], {limit.name: usd(spent)}, jobs)


def test_the_smallest_useful_piece_is_ten_minutes_and_an_end() -> None:
    assert piece_usd(a_job()) == usd("2.6")
    two = a_job(spec={"workers": 4, "min": 2})
    assert piece_usd(two) == usd("5.2")
    assert piece_usd(a_job(worker_rate=None)) is None


@pytest.mark.parametrize(
    ("limit", "spent", "granted"),
    [
        ("2.59", "0", ""),
        ("2.6", "0", "a"),
        ("5.2", "0", "ab"),
        ("7.79", "0", "ab"),
        ("10", "5", "a"),
        ("10", "12", ""),
    ],
)
def test_so_many_start_as_the_rest_holds(limit: str, spent: str, granted: str) -> None:
    jobs = [asking("a", age=30), asking("b", age=20), asking("c", age=10)]
    assert alloted(a_limit(limit), *jobs, spent=spent).granted == frozenset(granted)


def test_a_warning_holds_nobody() -> None:
    assert alloted(a_limit("1", onExceeded="Warn"), asking("a"), spent="5").granted == {"a"}


def test_the_order_is_priority_then_age_and_who_was_let_start_stays_first() -> None:
    old, young = asking("old", age=90), asking("young", age=10)
    urgent = asking("urgent", age=5, spec={"priority": 7})
    assert alloted(a_limit("3"), young, old).granted == {"old"}
    assert alloted(a_limit("3"), young, old, urgent).granted == {"urgent"}
    let = replace(young, is_granted=True)
    assert alloted(a_limit("3"), let, old, urgent).granted == {"young"}


def test_what_runs_keeps_its_end_and_ten_minutes_of_work() -> None:
    assert alloted(a_limit("5.19"), running("r"), asking("a")).granted == set()
    assert alloted(a_limit("5.2"), running("r"), asking("a")).granted == {"a"}


def test_a_job_of_unknown_price_waits() -> None:
    [refused] = alloted(a_limit(), asking("a", worker_rate=None)).refused.values()
    assert refused.need is None


def test_each_limit_that_covers_a_job_has_to_have_room() -> None:
    wide, narrow = a_limit("100", "wide"), a_limit("1", "narrow")
    found = allot([wide, narrow], {"wide": Usd(), "narrow": Usd()}, [asking("a")])
    assert found.refused["a"].limit.name == "narrow"
    elsewhere = replace(narrow, spec=a_limit("1", selector={"matchLabels": {"team": "x"}}).spec)
    found = allot([wide, elsewhere], {"wide": Usd(), "narrow": Usd()}, [asking("a")])
    assert found.granted == {"a"}


def test_growth_needs_a_piece_of_its_own() -> None:
    wants = {"workers": 3, "min": 1}
    assert alloted(a_limit("7.79"), asking("a", spec=dict(wants))).sizes == {"a": 1}
    assert alloted(a_limit("7.8"), asking("a", spec=dict(wants))).sizes == {"a": 3}
    grown = running("a", spec=dict(wants))
    assert alloted(a_limit("7.79"), replace(grown, workers=2)).sizes == {"a": 2}


# What suspends: the rest is the limit, less what is spent; three ends are $1.80.
def three(**facts: object) -> list[JobFacts]:
    prices = {"cheap": "0.1", "dear": "5", "middle": "1"}
    return [running(name, price=price, **facts) for name, price in prices.items()]


@pytest.mark.parametrize(
    ("left", "stopped"),
    [
        ("7.8", set()),  # three ends, and ten minutes of each
        ("7.79", {"cheap"}),
        ("5.8", {"cheap"}),
        ("5.79", {"cheap", "middle"}),
        ("1.81", {"cheap", "middle"}),
        ("1.8", {"cheap", "middle", "dear"}),
        ("-1", {"cheap", "middle", "dear"}),
    ],
)
def test_the_cheapest_to_stop_stops_first(left: str, stopped: set[str]) -> None:
    spent = str(10 - float(left))
    found = alloted(a_limit("10", onExceeded="Suspend"), *three(), spent=spent)
    assert set(found.stopped) == stopped
    assert not alloted(a_limit("10"), *three(), spent=spent).stopped  # Hold stops nobody


def test_who_leaves_already_is_not_stopped_again_and_keeps_its_end() -> None:
    leaving = [replace(one, is_stopping=True) for one in three()]
    limit = a_limit("10", onExceeded="Suspend")
    assert not alloted(limit, *leaving, spent="9.9").stopped
    assert alloted(limit, *leaving).reserved["team"] == usd("1.8")


def test_a_job_that_was_stopped_does_not_start_again_while_nothing_is_freed() -> None:
    """Else jobs would take turns in starting, and the money would go into that."""
    limit = a_limit("10", onExceeded="Suspend")
    cheap, dear, middle = three()
    found = alloted(limit, cheap, dear, middle, spent="2.21")
    assert set(found.stopped) == {"cheap"}
    waits = asking("cheap")
    assert alloted(limit, waits, dear, middle, spent="2.21").refused
    assert alloted(limit, waits, dear, spent="2.21").granted  # the other one is done


def test_the_next_stop_is_foreseen() -> None:
    limit = a_limit("10", onExceeded="Suspend")
    found = alloted(limit, running("a"), spent="8.4")
    assert found.seconds_left == pytest.approx(360)  # a dollar beyond its end, at $10 an hour
    assert alloted(a_limit("10"), running("a"), spent="8.4").seconds_left == float("inf")


def test_what_is_spent_has_what_deleted_jobs_spent_in_this_period() -> None:
    limit = a_limit()
    this = limit.period(NOW).start
    of_now = replace(limit, state=SpendState(period_start=this, deleted_usd=usd("7")))
    earlier = replace(limit, state=SpendState(deleted_usd=usd("7")))
    jobs = [a_job(spent="2"), a_job("b", spent="1")]
    assert spent_in_period(of_now, jobs, NOW) == usd("10")
    assert spent_in_period(earlier, jobs, NOW) == usd("3")
    closing = replace(of_now, state=replace(of_now.state, closing=("uid-b",)))
    assert spent_in_period(closing, jobs, NOW) == usd("9")


JOBS = st.lists(
    st.builds(
        lambda size, rate, runs, asks, price: {
            "spec": {"workers": size, "min": max(size // 2, 1)},
            "worker_rate": str(rate),
            "rate": str(rate * size) if runs else "0",
            "workers": size if runs else 0,
            "asks": asks and not runs,
            "price": str(price),
        },
        st.integers(1, 8),
        st.integers(1, 40),
        st.booleans(),
        st.booleans(),
        st.integers(0, 9),
    ),
    max_size=6,
)


@given(JOBS, st.integers(0, 200), st.sampled_from(["Hold", "Suspend"]))
def test_no_start_and_no_growth_reserves_more_than_there_is(
    given_jobs: list[dict[str, object]], limit: int, on: str
) -> None:
    jobs = [
        a_job(f"j{n}", **{**one, "spec": dict(one["spec"])})  # type: ignore[call-overload]
        for n, one in enumerate(given_jobs)
    ]
    one = a_limit(str(limit + 1), onExceeded=on)
    found = alloted(one, *jobs)
    there = [job for job in jobs if job.workers]
    ends = sum((job.end_usd(job.present_rate) for job in there), Usd())
    pieces = [piece_usd(job) for job in jobs if job.name in found.granted]
    if pieces:
        assert sum((piece for piece in pieces if piece is not None), ends) <= one.usd
    if on == "Suspend":  # whatever is reserved is there, or everybody stops
        assert found.reserved["team"] <= max(one.usd, ends) or len(there) == 1 + len(found.stopped)


@given(JOBS, st.integers(0, 100))
def test_the_order_in_which_jobs_were_looked_at_does_not_matter(
    given_jobs: list[dict[str, object]], limit: int
) -> None:
    jobs = [
        a_job(f"j{n}", **{**one, "spec": dict(one["spec"])})  # type: ignore[call-overload]
        for n, one in enumerate(given_jobs[:4])
    ]
    one = a_limit(str(limit + 1), onExceeded="Suspend")
    assert len({str(alloted(one, *order).granted) for order in permutations(jobs)} or {1}) == 1
