from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from spotrun.api.capacitypool import Capacity
from spotrun.api.names import SuspendedBy
from spotrun.money.units import UsdPerHour
from spotrun.policies.budget.projected_rate import least_rate, max_stable_workers, rate_of_missing
from spotrun.state.actions import Create
from spotrun.state.market import PoolFacts
from tests.support.jobs.builders import a_job, ago, later
from tests.support.money.limited_jobs import said
from tests.support.money.pool_builders import a_spot_pool, an_on_demand_pool, on_market

SPOT, OD = a_spot_pool(), an_on_demand_pool()


SPOT_OF_TWO, UNPRICED = a_spot_pool(gpus=2), a_spot_pool(usd=None)


@pytest.mark.parametrize(
    ("limit", "pools", "is_held"),
    [
        pytest.param("0.79", (SPOT, OD), True, id="the cheapest are too dear"),
        pytest.param("0.8", (SPOT, OD), False, id="just enough"),
        pytest.param("0.79", (SPOT_OF_TWO, OD), False, id="a worker pays half of a node"),
        pytest.param("0.79", (OD,), False, id="some node group without nodes may be cheaper"),
        pytest.param("0.79", (), False, id="no pool is known"),
        pytest.param("0.79", (UNPRICED, OD), False, id="nobody knows what they cost"),
    ],
)
def test_a_job_that_is_known_to_be_too_dear_gets_no_node_at_all(
    limit: str, pools: tuple[PoolFacts, ...], is_held: bool
) -> None:
    budget = {"maxUsdPerHour": limit, "unpriced": "Allow"}
    job = on_market(a_job(2, min=2, budget=budget), *pools)

    first = job.decide()

    assert (first.status.suspended_by == (SuspendedBy.BUDGET,)) is is_held
    assert any(isinstance(action, Create) for action in first.actions) is not is_held
    if is_held:
        message = "the smallest world (2 workers) costs over $0.79/h: raise maxUsdPerHour"
        assert said(first.status) == (False, "RateLimited", message)


@pytest.mark.parametrize("why", [{"available": False}, {"max_workers": 1, "workers": 1}])
def test_a_cheap_pool_that_has_nothing_to_give_does_not_hold_a_job(why: dict[str, Any]) -> None:
    dry = replace(SPOT, available=False, retry_at=later(3600))
    cheap = an_on_demand_pool("cheap", 0.45, **why)
    job = on_market(a_job(2, min=2, budget={"maxUsdPerHour": "1"}), dry, OD, cheap)
    stated = a_job(2).with_workers(0, 1, node=None, unschedulable="no").decide(ago(7200)).status
    first = job.with_status(conditions=stated.conditions).decide()
    assert first.status.suspended_by is None
    assert {one.place.capacity for one in first.actions if isinstance(one, Create)} == {
        Capacity.SPOT
    }


@pytest.mark.parametrize(
    ("pools", "workers", "expected"),
    [
        pytest.param((SPOT, OD), (), "0.8", id="the cheapest of the fewest"),
        pytest.param((SPOT, OD), (0,), None, id="some of it is there"),
        pytest.param((UNPRICED,), (), None, id="nobody knows what they cost"),
    ],
)
def test_what_an_hour_of_the_fewest_workers_costs_at_least(
    pools: tuple[PoolFacts, ...], workers: tuple[int, ...], expected: str | None
) -> None:
    job = on_market(a_job(4, min=2).with_workers(*workers), *pools)
    found = least_rate(job.view(), job.status)
    assert found == (None if expected is None else UsdPerHour(Decimal(expected)))


@pytest.mark.parametrize(
    ("limit", "base", "most"),
    [
        pytest.param("100", 0, None, id="all may stay"),
        pytest.param("1.6", 0, 0, id="all have to be on spot"),
        pytest.param("1.6", 2, 2, id="but for those that the user wants on demand"),
        pytest.param("0.1", 0, 0, id="not even that can be paid"),
    ],
)
def test_so_many_may_be_on_capacity_that_stays(limit: str, base: int, most: int | None) -> None:
    job = on_market(a_job(4, placement={"onDemandBase": base}), SPOT, OD)
    found = max_stable_workers(job.view(), UsdPerHour(Decimal(limit)), 4)
    assert found == most if most else not found


def test_who_is_only_asked_for_changes_no_answer_and_an_unknown_price_is_the_given_one() -> None:
    limit, unknown = UsdPerHour(Decimal(100)), UsdPerHour(Decimal(7))
    job, asking = a_job(4), a_job(4).with_workers(0, 1, node=None)
    for pools in ((SPOT, OD), (UNPRICED,)):
        rates = [
            rate_of_missing(on_market(one, *pools).view(), one.status, 3, limit, unknown)
            for one in (job, asking)
        ]
        assert rates[0] == rates[1]
    assert rates[0] == unknown * 3
