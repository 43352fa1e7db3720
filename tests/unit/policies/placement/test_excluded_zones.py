from decimal import Decimal
from typing import Any

import pytest

from spotrun.api.names import ConditionType
from spotrun.state.actions import Placed
from spotrun.state.conditions import find
from spotrun.state.market import PoolFacts
from spotrun.state.stored.training import Pace
from tests.support.jobs.builders import a_job
from tests.support.jobs.placed_workers import NO_NODE, OD, places, waiting, working
from tests.support.money.pool_builders import a_spot_pool, an_on_demand_pool, on_market


def in_two_zones(
    megabytes: float | None, zones: str = "Auto", on_demand: PoolFacts = OD
) -> list[Placed]:
    """Seven train in one zone, and one more is wanted."""
    near, far = a_spot_pool("near", 0.4, zone="a"), a_spot_pool("far", 0.32, zone="b")
    job = working(a_job(8, min=1, placement={"zones": zones}), near, *range(7))
    job = job.with_status(pace=Pace(step_seconds=Decimal(1), workers=8))
    sent = None if megabytes is None else megabytes * 1e6
    return places(on_market(job, near, far, on_demand, sync_bytes_per_step=sent))


def test_with_100_mb_of_gradients_a_world_stays_in_one_zone_and_with_1_mb_it_does_not() -> None:
    assert [place.required for place in in_two_zones(100)] == [("near",)]
    (place,) = in_two_zones(1)
    assert set(place.required) == {"near", "far"}


def test_while_traffic_is_not_measured_other_zones_are_liked_less() -> None:
    (place,) = in_two_zones(None)
    assert dict(place.preferred) == {"far": 50, "near": 80}


def test_single_means_the_zone_where_the_others_are() -> None:
    (place,) = in_two_zones(1, "Single")
    assert (place.required, place.zone) == (("near",), "a")
    (place,) = in_two_zones(100, "Any")
    assert set(place.required) == {"near", "far"}


TAKES = "$25.20/h of traffic between zones would make it more expensive than on-demand"


AFTER_10M = "the operator uses on-demand after 10m without spot (placement.fallbackAfter)"


WAITS_ON = "the job waits for spot in its own zone, because placement.capacity is Spot"


FAR = "spot g5.xlarge b has room at $0.32/h, but"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({}, f"{FAR} {TAKES}: to use it, set placement.zones to Any; {AFTER_10M}"),
        (
            {"zones": "Single", "fallbackAfter": "2m"},
            f"{FAR} placement.zones is Single; {AFTER_10M.replace('10m', '2m')}",
        ),
        ({"zones": "Single", "capacity": "Spot"}, f"{FAR} placement.zones is Single; {WAITS_ON}"),
        ({"zones": "Any"}, ""),
    ],
    ids=["Auto", "Single", "Spot", "Any"],
)
def test_of_a_free_node_in_another_zone_it_is_said_why_it_is_left_out(
    spec: dict[str, Any], why: str
) -> None:
    near = a_spot_pool("near", 0.4, zone="a")
    far = a_spot_pool("far", 0.32, zone="b", free_slots=1)
    home = an_on_demand_pool(zone="a")
    job = working(a_job(8, min=1, placement=spec), near, *range(7))
    job = waiting(job, 7, pools=(near,), seconds=1, **NO_NODE)
    job = job.with_status(pace=Pace(step_seconds=Decimal(1), workers=8))
    job = on_market(job, near, far, home, sync_bytes_per_step=100e6)
    status = job.decide().status
    words = "; ".join(filter(None, (f"1 find no node: {NO_NODE['unschedulable']}", why)))
    said = find(status, ConditionType.CAPACITY_AVAILABLE)
    assert said is not None
    assert (said.message, status.message) == (f"of 8 workers {words}", f"7 workers train; {words}")


def test_any_means_any_also_where_traffic_makes_it_dearer_than_on_demand_at_home() -> None:
    at_home = an_on_demand_pool(zone="a")
    (place,) = in_two_zones(100, "Any", at_home)
    assert set(place.required) == {"near", "far"}
    (place,) = in_two_zones(100, "Auto", at_home)
    assert place.required == ("near",)


def test_a_world_that_begins_is_not_scattered() -> None:
    pools = [a_spot_pool(name, usd, zone=name) for name, usd in (("a", 0.4), ("b", 0.41))]
    job = a_job(8).with_status(pace=Pace(step_seconds=Decimal(1), workers=8))
    found = places(on_market(job, *pools, OD, sync_bytes_per_step=1e9))
    assert {place.required for place in found} == {("a",)}
