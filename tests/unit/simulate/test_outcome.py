"""What a replay comes to: money by the ledger, time by the clock."""

import pytest

from spotrun.simulate.market.virtual_market import Pool, VirtualMarket
from spotrun.simulate.outcome import Course, Lease, Outcome
from tests.unit.simulate.markets import GAP, ON_DEMAND, SPOT, a_job, a_market

HOUR = 3600.0


@pytest.fixture
def market() -> VirtualMarket:
    return a_market("#" * 48)


def leases(market: VirtualMarket) -> tuple[Pool, Pool]:
    (spot,), (on_demand,) = market.spot, market.on_demand
    return spot, on_demand


def test_nodes_are_paid_for_as_long_as_they_are_held(market: VirtualMarket) -> None:
    spot, on_demand = leases(market)
    held = [
        Lease(spot, 0, 2 * HOUR, nodes=3, was_taken=True),
        Lease(on_demand, 2.5 * HOUR, 3 * HOUR),
        Lease(spot, 2.75 * HOUR, 4 * HOUR),
    ]

    came = Outcome.of("any", Course(held, 4 * HOUR, lost_seconds=900), a_job(18, 24), market)

    assert came == Outcome(
        policy="any",
        cost_usd=float(SPOT) * 7.25 + float(ON_DEMAND) * 0.5,
        finish_hours=4.0,
        deadline_met=True,
        launches=5,
        interruptions=3,
        spot_hours=7.25,
        on_demand_hours=0.5,
        idle_hours=0.5,
        lost_work_hours=0.25,
    )


@pytest.mark.parametrize(("finished", "is_met"), [(23.9, True), (24.0, True), (24.01, False)])
def test_the_deadline_is_met_until_it_has_passed(
    market: VirtualMarket, finished: float, is_met: bool
) -> None:
    came = Outcome.of("any", Course([], finished * GAP), a_job(1, 24), market)

    assert came.deadline_met is is_met


def test_a_job_that_never_ended_has_no_finish(market: VirtualMarket) -> None:
    spot, _ = leases(market)

    came = Outcome.of("any", Course([Lease(spot, 0, HOUR)], None), a_job(1, 24), market)

    assert (came.finish_hours, came.deadline_met, came.idle_hours) == (None, False, 0.0)
