from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.api.meta import ConditionStatus
from spotrun.money.units import Usd
from spotrun.policies.budget.spend.allotment import spent_in_period
from spotrun.policies.budget.spend.conclude import Names, closed, conclude
from spotrun.policies.budget.spend.facts import JobFacts, Limit, SpendState
from tests.support.jobs.builders import NOW, later
from tests.support.money.shared_limits import a_job, a_limit, running, usd

NOBODY = Names()


def concluded(limit: Limit, *jobs: JobFacts, spent: str = "0", names: Names = NOBODY) -> SpendState:
    return conclude(limit, jobs, usd(spent), usd("3"), names=names, now=NOW)


def deleted(name: str = "gone", **facts: object) -> JobFacts:
    return replace(running(name, **facts), is_deleting=True)


@pytest.mark.parametrize(
    ("spent", "within", "below"),
    [
        ("0", True, True),
        ("79.99", True, True),
        ("80", True, False),
        ("99.99", True, False),
        ("100", False, False),
        ("130", False, False),
    ],
)
def test_conditions_say_when_it_gets_tight(spent: str, within: bool, below: bool) -> None:
    stated = {str(one.type): one.status for one in concluded(a_limit(), spent=spent).conditions}
    assert (stated["WithinLimit"] is ConditionStatus.TRUE) is within
    assert (stated["BelowWarning"] is ConditionStatus.TRUE) is below


def test_who_waits_is_counted_and_named() -> None:
    names = Names(tuple(f"h{n:02}" for n in range(30)), ("s",))
    state = concluded(closed(a_limit(), [], NOW), running("r"), names=names)
    assert (state.running, state.held, state.suspended) == (1, 30, 1)
    assert len(state.held_jobs) == 20
    assert state.message == (
        "0% of $100.00 is spent; 30 jobs may not start and 1 were stopped: raise limitUsd or wait "
        "for the next period"
    )


def test_the_forecast_ends_with_the_job_or_the_period() -> None:
    hours = (a_limit().period(NOW).end - NOW).total_seconds() / 3600  # type: ignore[operator]
    state = concluded(a_limit(), running("r"), spent="5")
    assert state.forecast_usd == usd("5") + usd(str(int(hours) * 10))
    ends = replace(running("r", spent="5"), forecast_usd=usd("12"))
    assert concluded(a_limit(), ends, spent="5").forecast_usd == usd("12")
    assert concluded(a_limit(period="Total"), running("r")).forecast_usd is None
    assert concluded(a_limit(period="Total"), spent="5").forecast_usd == usd("5")


def test_a_deleted_job_is_added_once_with_the_end_of_its_workers() -> None:
    job = deleted(spent="4")
    once = closed(a_limit(), [job], NOW)
    assert once.state.closing == ("uid-gone",)
    assert once.state.deleted_usd == (usd("4") + job.rate.over(120)).as_stored
    assert closed(once, [job], later(5)).state == once.state
    gone = closed(once, [], later(9)).state
    assert (gone.closing, gone.deleted_usd) == ((), once.state.deleted_usd)


def test_a_job_that_never_got_the_finalizer_is_not_waited_for() -> None:
    assert not closed(a_limit(), [replace(deleted(), finalizers=())], NOW).state.closing


def test_a_new_period_begins_with_nothing() -> None:
    once = closed(a_limit(), [deleted(spent="4")], NOW)
    later_on = closed(once, [], later(40 * 86_400))
    assert later_on.state.deleted_usd == usd("0")


def test_not_more_are_taken_at_a_look_than_the_status_holds() -> None:
    jobs = [deleted(f"g{n}", spent="1") for n in range(130)]
    once = closed(a_limit(), jobs, NOW)
    assert len(once.state.closing) == 100
    rest = [job for job in jobs if job.uid not in once.state.closing]
    assert len(closed(once, rest, NOW).state.closing) == 30


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=8))
def test_deleting_jobs_never_lowers_what_is_spent(jobs: list[tuple[int, bool]]) -> None:
    limit = a_limit()
    live = [a_job(f"j{n}", spent=str(usd_)) for n, (usd_, _) in enumerate(jobs)]
    before = spent_in_period(limit, live, NOW)
    left = [replace(job, is_deleting=goes) for job, (_, goes) in zip(live, jobs, strict=True)]
    after = closed(limit, left, NOW)
    assert spent_in_period(after, left, NOW) == before
    stay = [job for job in left if not job.is_deleting]
    assert spent_in_period(closed(after, stay, NOW), stay, NOW) == before
    assert before == sum((job.usd for job in live), Usd())
