from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from spotrun.api.capacitypool import Capacity
from spotrun.api.cost import MOST_EARLIER, Accumulators, Cost, EarlierRate, Pricing, Rate
from spotrun.api.field_types.amounts import Amount
from spotrun.api.field_types.text_values import Serials
from spotrun.api.meta import ConditionStatus
from spotrun.api.names import ConditionType
from spotrun.money.ledger import Segment
from spotrun.money.ledger import cost as ledger_cost
from spotrun.money.shares import Resources
from spotrun.policies.report.write_rate import refresh_seconds, seconds_to_write
from spotrun.state.actions import Decision, Release
from spotrun.state.conditions import find
from spotrun.state.snapshot import PodEnd, PodPhase
from tests.support.jobs.builders import NOW, JobBuilder, a_job, ago, later
from tests.support.jobs.stored_state import cost_of, sums_of
from tests.support.money.priced_nodes import a_node, at_work, ended

DUE = {"written_seconds": 91.0}


def a_metered_job(*serials: int, **worker: object) -> JobBuilder:
    return at_work(a_job(max(len(serials), 1)), *serials, **worker).with_facts(**DUE)  # type: ignore[arg-type]


def sums(decision: Decision) -> Accumulators:
    return sums_of(decision.status)


def cost(decision: Decision) -> Cost:
    return cost_of(decision.status)


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
    settled = a_metered_job(0, 1).with_worker(0, node=a_node(), **_pod(), **ended(60)).decide()
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


def test_that_a_price_is_unknown_is_not_worth_a_write_of_its_own() -> None:
    said = a_metered_job(0, node=a_node(usd_per_hour=None)).decide().status
    kind = ConditionType.PRICING_COMPLETE
    others = tuple(one for one in said.conditions if one.type != kind.value)
    assert len(others) < len(said.conditions)
    unsaid = replace(said, conditions=others)
    assert seconds_to_write(unsaid, said, written_seconds=1.0) == 59.0


def test_the_price_at_the_time_is_what_counts() -> None:
    node = a_node(changes=((ago(1800), "8"),))
    decision = a_metered_job(0, node=node).decide()
    assert (cost(decision).usd, cost(decision).usd_per_hour) == ("1.5", "2")
    assert sums(decision).rates == (
        Rate(
            workers=Serials("0"),
            usd_per_hour="2",
            since="2026-03-02T11:30:00Z",
            before=(EarlierRate(usd_per_hour="1"),),
        ),
    )


def test_a_change_that_is_only_seen_after_a_worker_has_ended_counts() -> None:
    before = a_metered_job(0, node=a_node(changes=((ago(5000), "4"),))).decide()
    changes = ((ago(5000), "4"), (ago(2700), "8"), (ago(900), "16"))
    node = a_node(usd_per_hour="2", changes=changes)
    over = a_metered_job(0, node=node, **ended(1800)).with_status(
        accumulators=before.status.accumulators
    )
    assert sums(over.decide()).usd == "0.75"  # a quarter of an hour at $1, and one at $2


def test_a_price_that_changed_while_the_operator_was_away_changes_when_it_is_seen() -> None:
    before = a_metered_job(0).decide()
    job = a_metered_job(0, node=a_node(usd_per_hour="8"))
    after = job.with_status(accumulators=before.status.accumulators).decide(
        NOW + timedelta(hours=1)
    )
    assert (cost(after).usd, cost(after).usd_per_hour) == ("2", "2")


def test_what_a_worker_costs_is_known_when_its_node_no_longer_is() -> None:
    before = a_metered_job(0).decide()
    gone = replace(a_node(usd_per_hour=None), gone=True, ready=False, gone_at=NOW)
    after = (
        a_metered_job(0, node=gone).with_status(accumulators=before.status.accumulators).decide()
    )
    assert sums(after).usd == "1"


def test_an_unknown_price_is_said_and_never_counted_as_nothing() -> None:
    decision = a_metered_job(0, node=a_node(usd_per_hour=None, instance_type="g9")).decide()
    shown = cost(decision)
    assert (shown.usd, shown.usd_per_hour, shown.pricing) == (None, None, Pricing.PARTIAL)
    stated = find(decision.status, ConditionType.PRICING_COMPLETE)
    assert stated is not None
    assert "g9" in stated.message
    assert "usd-per-hour" in stated.message


def test_a_stated_price_that_cannot_be_read_is_named_with_what_to_write() -> None:
    node = a_node(usd_per_hour=None, instance_type="g5.xlarge", stated_price="1,5")
    stated = find(a_metered_job(0, node=node).decide().status, ConditionType.PRICING_COMPLETE)
    assert stated is not None
    assert stated.status is ConditionStatus.FALSE
    assert stated.message == (
        "the price of 1 of 1 workers is unknown: the annotation spotrun.dev/usd-per-hour of node a "
        "is '1,5': write a decimal number of USD, like 12.50"
    )


def test_a_stated_price_that_became_unreadable_is_named_while_the_last_one_counts_on() -> None:
    decision = a_metered_job(0, node=a_node(stated_price="4 USD")).decide()
    stated = find(decision.status, ConditionType.PRICING_COMPLETE)
    assert stated is not None
    assert (stated.status, cost(decision).usd) == (ConditionStatus.TRUE, "1")
    assert stated.message == (
        "the last price that was known counts on: the annotation spotrun.dev/usd-per-hour of node "
        "a is '4 USD': write a decimal number of USD, like 12.50"
    )


def test_what_is_known_of_several_is_a_part_and_said_to_be_one() -> None:
    job = at_work(a_metered_job(0, 1), 1, node=a_node("b", usd_per_hour=None))
    shown = cost(job.decide())
    assert (shown.usd, shown.usd_per_hour, shown.pricing) == ("1", "1", Pricing.PARTIAL)


def test_a_job_that_had_workers_of_unknown_price_stays_partial() -> None:
    node = a_node(usd_per_hour=None)
    before = a_metered_job(0, node=node, **ended()).decide()
    assert sums(before).unpriced_seconds == "3600"
    after = a_metered_job().with_status(
        accumulators=before.status.accumulators,
        settled=Serials("0").ranges,
        next_serial=1,
        cost=before.status.cost,
    )
    assert cost(after.decide()).pricing is Pricing.PARTIAL


def test_a_price_that_becomes_known_counts_from_the_beginning() -> None:
    unknown = a_metered_job(0, node=a_node(usd_per_hour=None)).decide()
    known = a_metered_job(0).with_status(cost=unknown.status.cost).decide()
    assert (cost(known).usd, cost(known).pricing) == ("1", Pricing.COMPLETE)


def test_workers_that_ask_for_nothing_share_their_node_without_paying_for_more_than_it() -> None:
    decision = a_metered_job(0, 1, requests=Resources()).decide()
    assert (cost(decision).usd, cost(decision).usd_per_hour) == ("4", "4")


def test_what_is_spent_on_spot_is_told_apart() -> None:
    spot = a_node("b", usd_per_hour="1", capacity=Capacity.SPOT)
    running = at_work(a_metered_job(0, 1), 1, node=spot)
    decision = running.decide()
    assert (cost(decision).usd, cost(decision).spot_usd) == ("1.25", "0.25")
    over = at_work(running.with_state(decision.status), 0, 1, node=spot, **ended())
    assert sums(over.decide()).spot_usd == "0.25"


def test_a_long_history_of_prices_is_added_up() -> None:
    changes = tuple((ago(3000 - n), str(4 + n % 2)) for n in range(1, MOST_EARLIER + 2))
    node = a_node(changes=changes)
    decision = a_metered_job(0, node=node).decide()
    held = Segment(0, ago(3600), NOW, Decimal("0.25"), node.prices)
    exact = ledger_cost([held], NOW).usd.decimal
    assert sums(decision).rates is not None
    assert len(sums(decision).rates or ()) == 1
    assert Decimal(cost(decision).usd or 0) == round(exact, 4)


def test_the_cost_of_a_running_job_is_written_once_a_minute() -> None:
    running = a_metered_job(0).decide().status
    job = a_metered_job(0).with_state(running)
    pace = refresh_seconds(job.snapshot())
    early = job.with_facts(written_seconds=pace - 1).decide(NOW + timedelta(seconds=pace - 1))
    assert early.status == running
    assert early.wake_after_seconds == pytest.approx(1.0)
    due = job.with_facts(written_seconds=72.0).decide(NOW + timedelta(seconds=72))
    assert cost(due).usd == "1.02"


@pytest.mark.parametrize("usd_per_hour", ["4", None], ids=["known", "unknown"])
def test_a_job_whose_workers_have_ended_has_nothing_new_to_say(usd_per_hour: str | None) -> None:
    node = a_node(usd_per_hour=usd_per_hour)
    job = at_work(a_job(1, suspend=True), 0, node=node, **ended()).with_facts(**DUE)
    for _ in range(3):
        status = job.decide().status
        job = job.with_state(status)
    assert job.decide(NOW + timedelta(hours=5)).status == status


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


def _pod() -> dict[str, object]:
    worker = at_work(a_job(1), 0).workers[0].pod
    return {name: getattr(worker, name) for name in ("requests", "scheduled_at", "created_at")}
