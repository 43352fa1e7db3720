from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from spotrun.api.capacitypool import Capacity
from spotrun.api.meta import ConditionStatus
from spotrun.api.names import ConditionType, Phase, SuspendedBy
from spotrun.money.budget import affordable
from spotrun.money.units import UsdPerHour
from spotrun.policies.budget import limits
from spotrun.policies.budget.limits import RETRY_SECONDS, UNPRICED_SECONDS
from spotrun.state.actions import Create, Decision, Remove
from spotrun.state.conditions import find
from spotrun.state.job_state import JobState
from spotrun.state.market import PoolFacts
from spotrun.wire import Ending
from tests.support.jobs.builders import NOW, ON_CLAIM, JobBuilder, a_job, ago, an_end, later
from tests.support.money.pool_builders import a_spot_pool, an_on_demand_pool, on_market
from tests.support.money.priced_nodes import a_node, at_work

SPOT, OD = a_spot_pool(), an_on_demand_pool()
SPOT_OF_TWO, UNPRICED = a_spot_pool(gpus=2), a_spot_pool(usd=None)

# Two workers at $1 an hour each, for an hour: $2. Kept back: 1.2 x $2/h x 290 s = $0.1933.


def a_limited_job(max_cost_usd: str | None = None, **more: Any) -> JobBuilder:
    limit = {} if max_cost_usd is None else {"maxCostUsd": max_cost_usd}
    limit |= {key: more.pop(key) for key in list(more) if key in _BUDGET}
    job = a_job(2, checkpoint=ON_CLAIM, budget=limit, **more).training(0, 1)
    return at_work(job, 0, 1, ready=True, arrived=1).with_facts(written_seconds=91.0)


_BUDGET = ("onExceeded", "unpriced", "maxUsdPerHour", "warnAtPercent")


def after(job: JobBuilder, decision: Decision) -> JobBuilder:
    """The job as it is stored then."""
    return job.with_state(decision.status)


def said(status: JobState) -> tuple[bool, str, str]:
    stated = find(status, ConditionType.WITHIN_BUDGET)
    assert stated is not None
    return stated.status is ConditionStatus.TRUE, stated.reason, stated.message


def test_below_the_limit_nothing_happens() -> None:
    decision = a_limited_job("10").decide()
    assert said(decision.status)[:2] == (True, "Training")
    assert decision.status.suspended_by is None
    cost = decision.status.cost
    assert cost is not None
    assert cost.budget_used_percent == "20%"


@pytest.mark.parametrize(
    ("limit", "is_within"),
    [
        pytest.param("2.2", True, id="the last checkpoint is still paid"),
        pytest.param("2.19", False, id="it is not"),
        pytest.param("1", False, id="the limit was lowered"),
    ],
)
def test_the_last_checkpoint_is_kept_back(limit: str, is_within: bool) -> None:
    assert said(a_limited_job(limit).decide().status)[0] is is_within


def test_without_a_checkpoint_only_the_end_of_the_workers_is_kept_back() -> None:
    job = a_job(2, budget={"maxCostUsd": "2.13", "onExceeded": "Fail"})
    assert said(at_work(job, 0, 1).decide().status)[0] is True  # 1.2 x $2/h x 180 s = $0.12
    less = a_job(2, budget={"maxCostUsd": "2.11", "onExceeded": "Fail"})
    assert said(at_work(less, 0, 1).decide().status)[0] is False


def test_at_the_limit_a_checkpoint_is_ordered_before_anybody_goes() -> None:
    job = a_limited_job("2.1")
    stopped = job.decide()
    assert stopped.status.suspended_by == (SuspendedBy.BUDGET,)
    assert (stopped.status.phase, stopped.status.reason) == (Phase.SUSPENDED, "BudgetExceeded")
    assert stopped.status.orders.checkpoint == 1
    assert not any(isinstance(action, Remove) for action in stopped.actions)
    saved = after(job, stopped).with_checkpoint(seconds_ago=-1.0).decide(later(2))
    removed = [action.reason for action in saved.actions if isinstance(action, Remove)]
    assert removed == ["BudgetExceeded"] * 2


def test_what_to_set_to_go_on_is_said() -> None:
    message = said(a_limited_job("2.1").decide().status)[2]
    assert message == (
        "$2.00 of $2.10 are spent, and $0.19 are kept for the last checkpoint and the end of the "
        "workers: to go on, set budget.maxCostUsd above 2.193333333333"
    )


@pytest.mark.parametrize(
    ("limit", "goes_on"),
    [("2.1", False), ("2.19", False), ("2.2", True), (None, True)],
    ids=["as it was", "too little", "enough", "without a limit"],
)
def test_a_job_goes_on_once_the_limit_is_raised(limit: str | None, goes_on: bool) -> None:
    job = a_limited_job("2.1")
    stopped = after(job, job.decide()).with_workers(0, 1, **_gone(job))
    settled = after(stopped, stopped.decide())
    budget = {} if limit is None else {"budget": {"maxCostUsd": limit}}
    raised = settled.with_spec(2, checkpoint=ON_CLAIM, **budget)
    assert (raised.decide().status.suspended_by is None) is goes_on


def test_fail_ends_the_job_once_its_checkpoint_is_saved() -> None:
    job = a_limited_job("2.1", onExceeded="Fail")
    stopped = after(job, job.decide())
    assert stopped.decide(later(5)).status.phase is Phase.SUSPENDED
    over = stopped.with_checkpoint(seconds_ago=-1.0).decide(later(5)).status
    assert (over.phase, over.reason) == (Phase.FAILED, "BudgetExceeded")


def test_warn_goes_on_beyond_the_limit() -> None:
    decision = a_limited_job("1.5", onExceeded="Warn").decide()
    assert said(decision.status)[:2] == (False, "BudgetExceeded")
    assert decision.status.suspended_by is None
    cost = decision.status.cost
    assert cost is not None
    assert cost.stop_at is None


def test_each_level_is_told_once_and_of_several_the_highest() -> None:
    job = a_limited_job("2.4", warnAtPercent=[10, 50, 80])
    first = job.decide()
    [told] = first.announcements
    assert (told.reason, told.is_warning) == ("BudgetWarning", True)
    assert told.message == "80% of the budget is used: $2.00 of $2.40; now $2.00/h is spent"
    assert said(first.status)[1] == "BudgetWarning"
    assert after(job, first).decide(later(61)).announcements == ()


def test_the_job_is_looked_at_again_when_the_limit_is_reached() -> None:
    # $2.24 less $0.1933 lasts 84 s.
    job = a_limited_job("2.24", warnAtPercent=[])
    stored = after(job, job.decide()).with_facts(written_seconds=0.0)
    assert stored.decide().again_seconds <= 60
    nearly = stored.decide(later(80)).again_seconds
    assert nearly == pytest.approx(4.0, abs=0.1)


def test_workers_that_hear_nothing_stop_before_the_limit() -> None:
    cost = a_limited_job("10").decide().status.cost
    # $10 less $2 less $0.1933, at 1.2 x $2/h
    assert cost is not None
    assert cost.stop_at is not None
    assert (cost.stop_at.datetime - NOW).total_seconds() == pytest.approx(11_710, abs=1)


def test_nobody_is_told_to_stop_before_there_can_be_news() -> None:
    cost = a_limited_job("2.2").decide().status.cost
    assert cost is not None
    assert cost.stop_at is not None
    assert cost.stop_at.datetime == later(90)


def test_no_more_workers_are_wanted_than_an_hour_may_cost() -> None:
    job = at_work(a_job(8, budget={"maxUsdPerHour": "3.5"}), 0, 1)
    status = job.decide().status
    assert status.workers is not None
    assert status.workers.allowed is not None
    assert (status.workers.allowed.size, status.workers.allowed.reason) == (3, "RateLimited")
    assert status.next_serial == 3
    assert said(status) == (
        True,
        "RateLimited",
        "$3.50/h allow 3 workers at present prices",
    )


def test_what_an_hour_may_cost_is_worked_out_once_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[UsdPerHour]()

    def counted(limit: UsdPerHour, rates: Sequence[UsdPerHour]) -> int:
        asked.append(limit)
        return affordable(limit, rates)

    monkeypatch.setattr(limits, "affordable", counted)
    job = at_work(a_job(8, budget={"maxUsdPerHour": "3.5"}), 0, 1)
    assert job.decide().status.next_serial == 3
    assert len(asked) == 1


def test_until_a_price_is_known_only_the_fewest_workers_are_tried() -> None:
    status = a_job(8, min=2, budget={"maxUsdPerHour": "30"}).decide().status
    assert status.next_serial == 2


def test_a_price_that_rises_makes_the_job_smaller() -> None:
    job = at_work(a_job(3, budget={"maxUsdPerHour": "3"}), 0, 1, 2, node=a_node(usd_per_hour="6"))
    status = job.decide().status
    assert status.workers is not None
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
        message = "the fewest workers, 2, cost more than $0.79/h: raise maxUsdPerHour"
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


def test_a_job_that_is_too_dear_gets_a_node_once_prices_have_fallen() -> None:
    job = on_market(a_job(2, min=2, budget={"maxUsdPerHour": "0.7"}), SPOT, OD)
    held = after(job, job.decide())
    for tries in (1, 2, 3):
        again = held.decide(later(tries * RETRY_SECONDS + 1))
        assert again.status.suspended_by, "prices are as they were"
        assert 0 < again.again_seconds <= RETRY_SECONDS
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


def test_what_others_hold_back_stays_held_back() -> None:
    job = a_limited_job("2.1", suspend=True)
    by = job.decide().status.suspended_by
    assert by == (SuspendedBy.USER, SuspendedBy.BUDGET)


def _gone(job: JobBuilder) -> dict[str, Any]:
    pod = job.workers[0].pod
    times = {name: getattr(pod, name) for name in ("requests", "scheduled_at", "created_at")}
    return {**times, "node": a_node(), **an_end(Ending.DEPARTED), "ended_at": NOW}
