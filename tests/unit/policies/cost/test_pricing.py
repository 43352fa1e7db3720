from spotrun.api.meta import ConditionStatus
from spotrun.api.names import ConditionType, Pricing
from spotrun.state.conditions import find
from tests.support.money.metered_jobs import a_metered_job, cost
from tests.support.money.priced_nodes import a_node


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
        "the last known price is used: the annotation spotrun.dev/usd-per-hour of node "
        "a is '4 USD': write a decimal number of USD, like 12.50"
    )
