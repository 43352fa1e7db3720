from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pytest

from spotrun.api.names import SuspendedBy
from spotrun.money.budget import affordable
from spotrun.money.units import UsdPerHour
from spotrun.policies.budget import limits
from spotrun.policies.budget.limits import RETRY_SECONDS, UNPRICED_SECONDS
from tests.support.jobs.builders import ON_CLAIM, a_job, ago, later
from tests.support.money.limited_jobs import after, said
from tests.support.money.pool_builders import a_spot_pool, an_on_demand_pool, on_market
from tests.support.money.priced_nodes import a_node, at_work

SPOT, OD = a_spot_pool(), an_on_demand_pool()
SPOT_OF_TWO, UNPRICED = a_spot_pool(gpus=2), a_spot_pool(usd=None)


def test_no_more_workers_are_wanted_than_an_hour_may_cost() -> None:
    job = at_work(a_job(8, budget={"maxUsdPerHour": "3.5"}), 0, 1)
    status = job.decide().status
    assert status.workers.allowed is not None
    assert (status.workers.allowed.size, status.workers.allowed.reason) == (3, "RateLimited")
    assert status.next_worker_id == 3
    assert said(status) == (
        True,
        "RateLimited",
        "maxUsdPerHour $3.50/h pays for 3 workers at present prices",
    )


def test_what_an_hour_may_cost_is_worked_out_once_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[UsdPerHour]()

    def counted(limit: UsdPerHour, rates: Sequence[UsdPerHour]) -> int:
        asked.append(limit)
        return affordable(limit, rates)

    monkeypatch.setattr(limits, "affordable", counted)
    job = at_work(a_job(8, budget={"maxUsdPerHour": "3.5"}), 0, 1)
    assert job.decide().status.next_worker_id == 3
    assert len(asked) == 1


def test_until_a_price_is_known_only_the_fewest_workers_are_tried() -> None:
    status = a_job(8, min=2, budget={"maxUsdPerHour": "30"}).decide().status
    assert status.next_worker_id == 2


def test_a_price_that_rises_makes_the_job_smaller() -> None:
    job = at_work(a_job(3, budget={"maxUsdPerHour": "3"}), 0, 1, 2, node=a_node(usd_per_hour="6"))
    status = job.decide().status
    assert status.workers.allowed is not None
    assert status.workers.allowed.size == 2


def test_a_job_whose_fewest_workers_are_too_dear_is_held_and_tried_again_later() -> None:
    job = at_work(a_job(2, min=2, budget={"maxUsdPerHour": "1.5"}), 0, 1)
    first = job.decide()
    assert said(first.status)[:2] == (False, "RateLimited")
    assert first.status.suspended_by == (SuspendedBy.BUDGET,)
    held = after(job, first)
    assert held.without(0).without(1).decide(later(60)).status.suspended_by
    assert not held.without(0).without(1).decide(later(RETRY_SECONDS + 1)).status.suspended_by


def test_a_job_that_is_too_dear_gets_a_node_once_prices_have_fallen() -> None:
    job = on_market(a_job(2, min=2, budget={"maxUsdPerHour": "0.7"}), SPOT, OD)
    held = after(job, job.decide())
    for tries in (1, 2, 3):
        again = held.decide(later(tries * RETRY_SECONDS + 1))
        assert again.status.suspended_by, "prices are as they were"
        assert 0 < again.wake_after_seconds <= RETRY_SECONDS
    cheaper = on_market(held, replace(SPOT, usd_per_hour=Decimal("0.3")), OD)
    assert cheaper.decide(later(60)).status.suspended_by, "it is not looked at all the time"
    assert not cheaper.decide(later(RETRY_SECONDS + 1)).status.suspended_by


@pytest.mark.parametrize(
    ("unpriced", "age_seconds", "is_held"),
    [
        pytest.param("Refuse", UNPRICED_SECONDS - 1, False, id="it may yet be annotated"),
        pytest.param("Refuse", UNPRICED_SECONDS, True, id="refused"),
        pytest.param("Allow", 3600, False, id="allowed"),
    ],
)
def test_capacity_of_unknown_price_is_not_used_under_a_budget(
    unpriced: str, age_seconds: float, is_held: bool
) -> None:
    budget = {"maxCostUsd": "10", "unpriced": unpriced}
    node = a_node(usd_per_hour=None, instance_type="g9", zone="z1")
    job = at_work(
        a_job(1, budget=budget, checkpoint=ON_CLAIM), 0, node=node, scheduled_at=ago(age_seconds)
    )
    status = job.decide().status
    assert (status.suspended_by == (SuspendedBy.BUDGET,)) is is_held
    if is_held:
        assert said(status)[1] == "PriceUnknown"
        assert "g9,,z1,OnDemand,<USD per hour>" in said(status)[2]
        assert (status.reason, "g9" in (status.message or "")) == ("PriceUnknown", True)


def test_a_refused_price_is_looked_for_again_when_the_spec_changes() -> None:
    budget = {"maxCostUsd": "10"}
    job = at_work(a_job(1, budget=budget, checkpoint=ON_CLAIM), 0, node=a_node(usd_per_hour=None))
    held = after(job, job.decide()).without(0)
    assert held.decide(later(30)).status.suspended_by
    assert not held.with_facts(generation=2).decide(later(30)).status.suspended_by
