from decimal import Decimal

from spotrun.api.capacitypool import Capacity
from spotrun.api.field_types.amounts import Amount
from spotrun.api.names import Pricing
from spotrun.money.shares import Resources
from spotrun.state.actions import Release
from spotrun.state.snapshot import PodEnd, PodPhase
from tests.support.jobs.builders import NOW, later
from tests.support.money.metered_jobs import a_metered_job, cost, placed_pod, sums
from tests.support.money.priced_nodes import a_node, at_work, ended


def test_workers_cost_their_shares_of_the_node_since_they_have_it() -> None:
    shown = cost(a_metered_job(0, 1).decide())
    assert (shown.usd, shown.usd_per_hour, shown.pricing) == ("2", "2", Pricing.COMPLETE)
    assert shown.as_of is not None
    assert shown.as_of.datetime == NOW


def test_an_ended_worker_is_charged_once_with_its_number() -> None:
    first = a_metered_job(0, **ended(seconds_ago=1800)).decide()
    assert (str(first.status.settled), sums(first).usd, sums(first).rates) == ("0", "0.5", None)
    assert Release(0, "uid-0") in first.actions
    again = a_metered_job(0, **ended(seconds_ago=1800)).with_status(
        settled=first.status.settled, accumulators=first.status.accumulators
    )
    assert sums(again.decide()).usd == "0.5"
    assert cost(again.decide()).usd == "0.5"


def test_a_sum_is_the_same_whether_it_is_settled_or_not() -> None:
    settled = (
        a_metered_job(0, 1).with_worker(0, node=a_node(), **placed_pod(), **ended(60)).decide()
    )
    assert str(settled.status.settled) == "0"
    running = a_metered_job(0, 1).decide()
    one_minute = Decimal(1) / 60
    assert Decimal(cost(running).usd or 0) - Decimal(cost(settled).usd or 0) == round(one_minute, 4)


def test_a_container_beside_the_trainer_is_paid_until_it_ends() -> None:
    job = a_metered_job(0, phase=PodPhase.RUNNING, end=PodEnd(exit_code=0))
    assert not job.decide().status.settled.size
    over = a_metered_job(0, end=PodEnd(exit_code=0), **ended(1800))
    assert str(over.decide().status.settled) == "0"


def test_sums_are_added_to() -> None:
    first = at_work(a_metered_job(0, 1), 0, **ended(1800)).decide()
    job = at_work(a_metered_job(0, 1), 1, **ended()).with_state(first.status)
    assert sums(job.decide()).usd == "1.5"


def test_the_time_of_an_unknown_price_is_never_below_nothing() -> None:
    node = a_node(usd_per_hour=None)
    decision = a_metered_job(0, node=node, **{**ended(), "scheduled_at": later(30)}).decide()
    assert sums(decision).unpriced_seconds == "0"


def test_what_is_spent_on_spot_is_told_apart() -> None:
    spot = a_node("b", usd_per_hour="1", capacity=Capacity.SPOT)
    running = at_work(a_metered_job(0, 1), 1, node=spot)
    decision = running.decide()
    assert (cost(decision).usd, cost(decision).spot_usd) == ("1.25", "0.25")
    over = at_work(running.with_state(decision.status), 0, 1, node=spot, **ended())
    assert sums(over.decide()).spot_usd == "0.25"


def test_a_deleted_job_is_settled_and_not_refreshed() -> None:
    job = at_work(a_metered_job(0, 1), 1, **ended(1800)).with_facts(deleting=True)
    decision = job.decide()
    assert (str(decision.status.settled), cost(decision).usd) == ("1", "1.5")
    again = job.with_state(decision.status).decide(later(600))
    assert again.status == decision.status


def test_a_sum_of_many_is_exact() -> None:
    node, third = a_node(usd_per_hour="1"), Resources(Decimal("1.1"), Decimal(10**9))
    job = a_metered_job(*range(3), node=node, requests=third, **ended(0.1))
    settled = sums(job.decide()).usd
    assert settled is not None
    one = sums(a_metered_job(0, node=node, requests=third, **ended(0.1)).decide()).usd
    assert one is not None
    assert abs(Amount(settled).decimal - 3 * Amount(one).decimal) <= Decimal("3e-12")
