from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from spotrun.api.cost import MOST_EARLIER, EarlierRate, Rate
from spotrun.api.field_types.text_values import WorkerIds
from spotrun.api.names import Pricing
from spotrun.money.ledger import Segment
from spotrun.money.ledger import cost as ledger_cost
from spotrun.money.shares import Resources
from tests.support.jobs.builders import NOW, ago
from tests.support.money.metered_jobs import a_metered_job, cost, sums
from tests.support.money.priced_nodes import a_node, ended


def test_the_price_at_the_time_is_what_counts() -> None:
    node = a_node(changes=((ago(1800), "8"),))
    decision = a_metered_job(0, node=node).decide()
    assert (cost(decision).usd, cost(decision).usd_per_hour) == ("1.5", "2")
    assert sums(decision).rates == (
        Rate(
            workers=WorkerIds("0"),
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


def test_a_price_that_becomes_known_counts_from_the_beginning() -> None:
    unknown = a_metered_job(0, node=a_node(usd_per_hour=None)).decide()
    known = a_metered_job(0).with_status(cost=unknown.status.cost).decide()
    assert (cost(known).usd, cost(known).pricing) == ("1", Pricing.COMPLETE)


def test_workers_that_ask_for_nothing_share_their_node_without_paying_for_more_than_it() -> None:
    decision = a_metered_job(0, 1, requests=Resources()).decide()
    assert (cost(decision).usd, cost(decision).usd_per_hour) == ("4", "4")


def test_a_long_history_of_prices_is_added_up() -> None:
    changes = tuple((ago(3000 - n), str(4 + n % 2)) for n in range(1, MOST_EARLIER + 2))
    node = a_node(changes=changes)
    decision = a_metered_job(0, node=node).decide()
    held = Segment(0, ago(3600), NOW, Decimal("0.25"), node.prices)
    exact = ledger_cost([held], NOW).usd.decimal
    assert sums(decision).rates is not None
    assert len(sums(decision).rates or ()) == 1
    assert Decimal(cost(decision).usd or 0) == round(exact, 4)
