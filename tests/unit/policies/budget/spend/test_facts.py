from dataclasses import replace

from spotrun.api.names import Phase, SuspendedBy
from spotrun.api.spec.spend_limit import SpendPeriod
from spotrun.money.units import UsdPerHour
from spotrun.policies.budget.spend.facts import JobFacts, facts_of, spent_by
from spotrun.policies.budget.spend.period import period_of
from spotrun.state.job_state import JobState
from spotrun.state.stored.cost import Cost, SpendBefore, StorageCost
from tests.support.jobs.builders import NOW, a_spec, ago
from tests.support.money.shared_limits import a_job, a_limit, usd

MONTH = period_of(SpendPeriod.MONTH, NOW)
OLD = 40 * 86_400


def facts(status: JobState, **spec: object) -> JobFacts:
    return facts_of(
        a_spec(1, **spec), status, NOW, name="a", uid="u", version="1", created_at=ago(60)
    )


def test_spending_goes_on_after_the_last_look_and_storage_counts() -> None:
    cost = Cost(
        usd=usd("4"),
        usd_per_hour=UsdPerHour(60),
        storage=StorageCost(usd=usd("1")),
        as_of=ago(60),
    )
    assert spent_by(cost, NOW) == usd("6")
    assert spent_by(replace(cost, usd_per_hour=None), NOW) == usd("5")
    assert spent_by(Cost(), NOW) == usd("0")


def test_a_job_counts_from_the_beginning_of_the_period() -> None:
    young = a_job(spent="9")
    old = a_job(spent="9", age=OLD)
    known = SpendBefore(month=MONTH.start, month_usd=usd("7"))
    assert young.spent_in(MONTH) == usd("9")
    assert old.spent_in(MONTH) == usd("0")  # it is noted before it runs
    assert replace(old, before=known).spent_in(MONTH) == usd("2")
    assert old.spent_in(a_limit(period="Total").period(NOW)) == usd("9")


def test_a_job_that_only_a_limit_holds_asks_again() -> None:
    held = JobState(suspended_by=(SuspendedBy.SPEND_LIMIT,))
    assert facts(held).asks
    assert not facts(held, suspend=True).asks
    assert not facts(replace(held, next_worker_id=1)).asks  # a worker is left
    assert not facts(JobState(suspended_by=(SuspendedBy.USER, SuspendedBy.SPEND_LIMIT))).asks
    assert not facts(replace(held, phase=Phase.FAILED)).asks


def test_labels_choose_jobs() -> None:
    limit = a_limit(selector={"matchLabels": {"team": "vision"}})
    assert limit.covers(a_job(labels={"team": "vision", "project": "x"}))
    assert not limit.covers(a_job(labels={"team": "audio"}))
    assert not limit.covers(a_job())
    assert a_limit().covers(a_job())


def test_workers_without_a_node_are_reckoned_at_what_they_will_cost() -> None:
    assert a_job(workers=3).present_rate == UsdPerHour(30)
    assert a_job(workers=3, rate="45").present_rate == UsdPerHour(45)
    assert a_job().present_rate == UsdPerHour(0)
