from datetime import timedelta

from spotrun.api.names import Phase, Reason, SuspendedBy
from spotrun.api.spec.spend_limit import SpendPeriod
from spotrun.policies.budget.spend.job_policies import must_ask, note_periods, spend_size_limit
from spotrun.policies.budget.spend.period import period_of
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import SpendVerdict
from spotrun.state.stored.cost import Accumulators, Cost, SpendBefore
from tests.support.jobs.builders import NOW, JobBuilder, a_job, ago
from tests.support.money.shared_limits import usd

MONTH = period_of(SpendPeriod.MONTH, NOW).start
WEEK = period_of(SpendPeriod.WEEK, NOW).start
COVERED = SpendVerdict(is_granted=True)


def noted(job: JobBuilder) -> SpendBefore | None:
    view = job.view()
    return note_periods(view, view.job.status).accumulators.spend_before


def a_spender(spent: str, before: SpendBefore | None = None, **cost: object) -> JobBuilder:
    sums = Accumulators(usd=usd(spent), spend_before=before)
    job = a_job(1).with_status(accumulators=sums, cost=Cost(**cost))  # type: ignore[arg-type]
    return job.with_facts(spend=COVERED, created_at=ago(90 * 86_400))


def test_a_job_under_no_limit_notes_nothing() -> None:
    assert noted(a_job(1)) is None


def test_a_job_of_this_period_has_spent_nothing_before() -> None:
    young = a_job(1).with_facts(spend=COVERED, created_at=NOW - timedelta(minutes=1))
    assert noted(young) == SpendBefore(MONTH, usd("0"), WEEK, usd("0"))


def test_what_was_spent_before_the_first_limit_counts_as_earlier() -> None:
    assert noted(a_spender("7")) == SpendBefore(MONTH, usd("7"), WEEK, usd("7"))


def test_it_is_noted_once_in_a_period() -> None:
    known = SpendBefore(MONTH, usd("3"), WEEK, usd("4"))
    assert noted(a_spender("9", known)) == known


def test_between_two_looks_the_rate_is_even() -> None:
    """The last look was an hour before the week began, and this one is twelve hours after."""
    assert WEEK is not None
    earlier = SpendBefore(MONTH, usd("0"), WEEK - timedelta(days=7), usd("0"))
    job = a_spender("14", earlier, usd=usd("1"), as_of=WEEK - timedelta(hours=1))
    found = noted(job)
    assert found is not None
    assert (found.week, found.week_usd) == (WEEK, usd("2"))
    assert found.month_usd == usd("0")


def test_a_job_that_is_over_notes_nothing_more() -> None:
    assert noted(a_spender("7").with_status(phase=Phase.SUCCEEDED)) is None


def held(job: JobBuilder, verdict: SpendVerdict) -> JobState:
    return job.with_facts(spend=verdict).decide().status


def test_a_held_job_is_suspended_and_says_why() -> None:
    verdict = SpendVerdict("SpendLimit team: too little", numbers={"freeUsd": "1"})
    status = held(a_job(1), verdict)
    assert (status.phase, status.reason) == (Phase.SUSPENDED, Reason.SPEND_LIMITED.value)
    assert status.suspended_by == (SuspendedBy.SPEND_LIMIT,)
    assert status.message == "SpendLimit: SpendLimit team: too little"
    assert status.next_worker_id in {None, 0}
    [decision] = status.decisions
    assert (decision.what, decision.numbers) == ("Hold", {"freeUsd": "1"})


def test_it_starts_once_there_is_room_and_the_decision_is_kept() -> None:
    waits = a_job(1).with_status(phase=Phase.SUSPENDED, suspended_by=(SuspendedBy.SPEND_LIMIT,))
    status = held(waits, COVERED)
    assert status.suspended_by is None
    assert status.next_worker_id == 1
    assert "Start" in [one.what for one in status.decisions]


def test_a_running_job_is_suspended() -> None:
    trains = a_job(1).training(0)
    status = held(trains, SpendVerdict("too little"))
    assert status.suspended_by == (SuspendedBy.SPEND_LIMIT,)
    assert status.decisions[0].what == "Suspend"


def test_money_for_fewer_workers_limits_the_size() -> None:
    job = a_job(4, min=1).with_facts(spend=SpendVerdict(workers=2))
    limit = spend_size_limit(job.view())
    assert limit is not None
    assert (limit.reason, limit.workers) == (Reason.SPEND_LIMITED, 2)
    assert job.decide().status.next_worker_id == 2
    assert spend_size_limit(a_job(4).view()) is None
    assert spend_size_limit(a_job(2).with_facts(spend=SpendVerdict(workers=2)).view()) is None


def test_the_first_workers_have_to_be_asked_for() -> None:
    unasked = a_job(1).with_facts(spend=SpendVerdict())
    assert must_ask(unasked.snapshot(), unasked.decide().status)
    granted = a_job(1).with_facts(spend=COVERED)
    assert not must_ask(granted.snapshot(), granted.decide().status)
    free = a_job(1)
    assert not must_ask(free.snapshot(), free.decide().status)
    suspended = a_job(1, suspend=True).with_facts(spend=SpendVerdict())
    assert not must_ask(suspended.snapshot(), suspended.decide().status)
    runs = a_job(1).training(0).with_facts(spend=SpendVerdict())
    assert not must_ask(runs.snapshot(), runs.decide().status)
