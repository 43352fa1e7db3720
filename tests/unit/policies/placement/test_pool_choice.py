from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from spotrun.api.capacitypool import Capacity
from spotrun.api.names import ConditionType
from spotrun.money.shares import Resources
from spotrun.state.actions import Create, Placed
from spotrun.state.conditions import find
from spotrun.state.market import PoolFacts
from tests.support.jobs.builders import ON_CLAIM, a_job, later
from tests.support.jobs.placed_workers import (
    OD,
    SPOT,
    asked,
    places,
    removed,
    waiting,
    withdrawn,
    working,
)
from tests.support.money.pool_builders import a_pool, a_spot_pool, an_on_demand_pool, on_market


def test_a_cluster_that_knows_no_pool_is_asked_for_any_node() -> None:
    assert places(a_job(2)) == [Placed(), Placed()]


def test_a_pool_that_is_full_is_not_asked() -> None:
    full = a_spot_pool("full", 0.1, workers=4, max_workers=4)
    (place,) = places(on_market(a_job(1), full, SPOT))
    assert place.required == ("spot",)


def test_one_world_has_one_gpu_model() -> None:
    other = a_spot_pool("h100", 3.0, accelerator="h100", on_demand_usd_per_hour=None)
    job = on_market(a_job(2), SPOT, other)
    assert {place.required for place in places(job)} == {("h100",)}  # a seventh of the time
    with_a10g = on_market(working(a_job(2), SPOT, 0), SPOT, other)
    assert {place.required for place in places(with_a10g)} == {("spot",)}
    mixed = on_market(a_job(2, placement={"homogeneous": "None"}), SPOT, other)
    assert {place.required for place in places(mixed)} == {("h100", "spot")}


def test_a_pod_that_fits_no_known_pool_is_asked_for_any_node_and_it_is_said_why() -> None:
    job = on_market(a_job(1), a_spot_pool(gpus=0, allocatable=Resources(cpu=Decimal(4))))
    decision = job.decide()
    assert places(job) == [Placed()]
    assert decision.status.decisions[-1].why == (
        "no known pool can take a worker: 1 pools: a node has too few GPUs for a worker"
    )


@pytest.mark.parametrize(
    ("pools", "placement", "why"),
    [
        pytest.param(
            (a_spot_pool(namespaces_allowed=False),),
            {},
            "1 pools: their namespaceSelector does not allow ns",
            id="an admin's",
        ),
        pytest.param(
            (a_spot_pool("a", 0.8, namespaces_allowed=False),),
            {"maxPricePercent": 50},
            "1 pools: their namespaceSelector does not allow ns",
            id="an admin's, beside a limit",
        ),
        pytest.param(
            (a_spot_pool("a", 0.8), a_spot_pool("b", 0.9)),
            {"capacity": "Spot", "maxPricePercent": 50},
            "2 pools: they cost more than maxPricePercent, 50 % of on-demand",
            id="the user's limit",
        ),
        pytest.param(
            (),
            {"poolSelector": {"matchLabels": {"tier": "cheap"}}},
            "no CapacityPool has the labels of placement.poolSelector",
            id="the user's choice",
        ),
        pytest.param(
            (a_spot_pool(),),
            {"capacity": "OnDemand", "poolSelector": {"matchLabels": {"tier": "cheap"}}},
            "1 pools: they are spot, and placement.capacity is OnDemand",
            id="what was chosen does not fit",
        ),
    ],
)
def test_no_node_is_asked_for_that_a_rule_forbids(
    pools: tuple[PoolFacts, ...], placement: dict[str, Any], why: str
) -> None:
    job = on_market(a_job(1, placement=placement), *pools)

    decision = job.decide()

    assert decision.actions == ()
    status = decision.status
    lack = find(status, ConditionType.CAPACITY_AVAILABLE)
    assert lack is not None
    assert (status.reason, lack.reason) == ("WaitingForCapacity", "WaitingForCapacity")
    assert lack.message == f"of 1 workers no further worker is requested: {why}"
    assert (status.message or "").endswith(f"no further worker is requested: {why}")
    assert decision.wake_after_seconds <= 60


def test_where_spot_is_too_dear_on_demand_is_asked_for_though_no_such_pool_is_known() -> None:
    dear = a_spot_pool(usd=0.8)
    job = on_market(a_job(2, placement={"maxPricePercent": 50}), dear)
    assert places(job) == [Placed(capacity=Capacity.ON_DEMAND)] * 2
    waits = waiting(job, 0, pools=(dear,), seconds=5)
    assert withdrawn(waits) == [(0, "Fallback")]
    admins = on_market(job, dear, an_on_demand_pool(namespaces_allowed=False))
    assert places(admins) == [], "an admin's rule holds for nodes that nobody knows as well"


@pytest.mark.parametrize("why", [{"available": False}, {"max_workers": 4, "workers": 4}])
def test_spot_is_not_too_dear_for_what_is_not_to_be_had(why: dict[str, Any]) -> None:
    reserved = a_pool("reserved", Capacity.RESERVED, 0.1, **why)
    job = on_market(a_job(2), SPOT, OD, reserved)
    assert asked(job) == ["Spot", "Spot"]
    there = working(on_market(a_job(2, checkpoint=ON_CLAIM), SPOT, OD, reserved), reserved, 0, 1)
    later_on = there.decide(later(90_000))
    assert not any(isinstance(one, Create) for one in later_on.actions), "they cost less than spot"


def test_who_waits_for_a_pool_that_has_become_too_dear_is_taken_back() -> None:
    placement = {"capacity": "Spot", "maxPricePercent": 50}
    job = waiting(on_market(a_job(2, placement=placement), SPOT, OD), 0, pools=(SPOT,), seconds=5)
    job = working(job, SPOT, 1).with_status(next_worker_id=2)
    assert withdrawn(job) == []

    dear = on_market(job, replace(SPOT, usd_per_hour=Decimal("0.6")), OD)

    assert withdrawn(dear) == [(0, "WaitingForCapacity")]
    assert removed(dear) == []
    cheaper = on_market(a_job(1, placement=placement), SPOT, OD)
    assert asked(cheaper) == ["Spot"]


def test_no_pool_gets_more_than_its_share_and_what_is_over_is_not_asked() -> None:
    job = a_job(4, placement={"maxPercentPerPool": 50})
    found = places(on_market(job, SPOT, a_spot_pool("other", 0.5), OD))
    assert sorted(place.required for place in found) == [("other",)] * 2 + [("spot",)] * 2
    assert len(places(on_market(job, SPOT, OD))) == 2


def test_no_limit_keeps_a_job_below_its_smallest_size() -> None:
    job = a_job(4, min=3, placement={"maxPercentPerPool": 50})
    assert len(places(on_market(job, SPOT, OD))) == 3


def test_a_pool_of_several_zones_is_asked_in_each() -> None:
    wide = a_spot_pool(zones=("a", "b"))
    job = on_market(a_job(4, placement={"maxPercentPerZone": 50}), wide, OD)
    assert sorted(place.zone for place in places(job)) == ["a", "a", "b", "b"]


def test_a_zone_that_is_not_known_is_not_limited() -> None:
    job = on_market(a_job(4, placement={"maxPercentPerZone": 50}), a_spot_pool(zones=()), OD)
    assert len(places(job)) == 4
