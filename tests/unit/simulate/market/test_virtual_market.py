"""The virtual market: a recording from a moment on, and on-demand beside it."""

from decimal import Decimal
from math import inf
from typing import Any

import pytest

from spotrun.api.capacitypool import Capacity
from spotrun.money.ledger import Segment, cost
from spotrun.money.units import UsdPerHour
from spotrun.simulate.market.trace import Trace
from spotrun.simulate.market.virtual_market import UNLIMITED, Prices, Recordings
from spotrun.simulate.scenario import Rules
from tests.unit.simulate.markets import GAP, ON_DEMAND, PUBLISHED, SPOT, a_market, a_trace


def test_a_tick_holds_for_its_whole_length() -> None:
    (pool,) = a_market(".##.").spot

    offered = [pool.offer(moment).nodes for moment in (0, GAP - 0.1, GAP, 3 * GAP - 0.1, 3 * GAP)]

    assert offered == [0, 0, 1, 1, 0]


def test_only_what_changes_is_an_event() -> None:
    (pool,) = a_market("..###.").spot

    assert pool.next_change(0) == 2 * GAP
    assert pool.next_change(2 * GAP) == 5 * GAP
    assert pool.next_change(5 * GAP) == inf


def test_a_replay_may_begin_at_any_tick() -> None:
    (pool,) = a_market("..#.", start=1).spot

    assert [pool.offer(tick * GAP).nodes for tick in range(3)] == [0, 1, 0]
    assert pool.next_change(0) == GAP


def test_after_its_end_a_recording_has_nothing_to_give() -> None:
    (pool,) = a_market("###").spot

    assert pool.offer(3 * GAP).nodes == 0
    assert pool.next_change(0) == 3 * GAP


def test_prices_change_with_the_recording() -> None:
    prices = (Decimal(1), Decimal(1), Decimal(2), Decimal(4))
    market = Recordings([a_trace("####", spot_usd_per_hour=prices)], PUBLISHED, Prices()).market(1)
    (pool,) = market.spot

    held = Segment(0, market.time(0), market.time(3 * GAP), Decimal(1), pool.history)
    paid = cost([held], market.time(3 * GAP)).usd

    assert [pool.offer(tick * GAP).usd_per_hour for tick in range(3)] == [1, 2, 4]
    assert paid == (UsdPerHour(1) + UsdPerHour(2) + UsdPerHour(4)).over(int(GAP))


def test_beside_each_zone_stands_the_same_node_on_demand() -> None:
    market = a_market("#.", ".#")

    assert [pool.name for pool in market.pools] == [
        "p3.2xlarge-us-west-2a-spot",
        "p3.2xlarge-us-west-2b-spot",
        "p3.2xlarge-us-west-2a-on-demand",
        "p3.2xlarge-us-west-2b-on-demand",
    ]
    for pool in market.on_demand:
        assert pool.capacity is Capacity.ON_DEMAND
        assert (pool.offer(0).nodes, pool.offer(0).usd_per_hour) == (UNLIMITED, ON_DEMAND)
        assert pool.next_change(0) == inf


def test_two_recordings_of_one_zone_are_two_pools() -> None:
    market = Recordings([a_trace("#"), a_trace("."), a_trace("#")], PUBLISHED, Prices()).market(0)

    names = [pool.name for pool in market.spot]

    assert names == [f"p3.2xlarge-us-west-2a-spot{more}" for more in ("", "-2", "-3")]
    assert len(market.on_demand) == 1


def test_no_more_than_was_probed_is_there_unless_it_is_assumed() -> None:
    trace = a_trace("120", capacity_probed=2)

    def offered(*, assume: bool) -> list[int]:
        rules = Rules(assume_capacity=assume)
        (pool,) = Recordings([trace], rules, Prices()).market(0).spot
        return [pool.offer(tick * GAP).nodes for tick in range(3)]

    assert offered(assume=False) == [1, 2, 0]
    assert offered(assume=True) == [1, UNLIMITED, 0]


def test_on_demand_is_dry_in_the_same_hours_whenever_a_replay_begins() -> None:
    recordings = Recordings([a_trace("." * 600)], Rules(on_demand_dry_rate=0.5), Prices())
    hours = [recordings.market(6 * start).on_demand[0] for start in range(3)]

    dry = [[not pool.offer(3600 * hour).nodes for hour in range(50)] for pool in hours]

    assert dry[0][1:] == dry[1][:-1]
    assert dry[0][2:] == dry[2][:-2]
    assert 15 <= sum(dry[0]) <= 35
    assert hours[0].next_change(10) == 3600


def test_prices_given_serve_only_where_there_are_none() -> None:
    bare = a_trace("#", spot_usd_per_hour=None, on_demand_usd_per_hour=None)
    given = Prices(spot_usd_per_hour=Decimal(7), on_demand_usd_per_hour=Decimal(9))

    def prices(trace: Trace) -> list[Decimal]:
        market = Recordings([trace], PUBLISHED, given).market(0)
        return [pool.offer(0).usd_per_hour for pool in market.pools]

    assert prices(bare) == [Decimal(7), Decimal(9)]
    assert prices(a_trace("#")) == [SPOT, ON_DEMAND]


@pytest.mark.parametrize(
    ("absent", "flag"),
    [("spot_usd_per_hour", "--spot-price"), ("on_demand_usd_per_hour", "--on-demand-price")],
)
def test_a_price_that_nobody_knows_is_asked_for(absent: str, flag: str) -> None:
    unknown: dict[str, Any] = {absent: None}
    trace = a_trace("#", **unknown)

    with pytest.raises(ValueError, match=f"us-west-2a.json has no .*: give one with {flag}"):
        Recordings([trace], PUBLISHED, Prices())


def test_traces_of_different_ticks_run_side_by_side() -> None:
    slow, fast = a_trace("#."), a_trace("##..", "us-west-2b", gap_seconds=GAP / 2)

    market = Recordings([slow, fast], PUBLISHED, Prices()).market(1)

    assert market.tick_seconds == GAP / 2
    assert [pool.offer(0).nodes for pool in market.spot] == [0, 0]
    assert [pool.offer(-GAP / 2).nodes for pool in market.spot] == [1, 1]
