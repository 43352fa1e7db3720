from dataclasses import replace
from decimal import Decimal

import pytest

from spotrun.state.actions import Withdraw
from spotrun.state.job_state import NO_ORDERS
from spotrun.state.stored.training import Pace
from tests.support.jobs.builders import JobBuilder, a_job, later
from tests.support.jobs.placed_workers import (
    DRY,
    HOUR,
    OD,
    REFUSED,
    SPOT,
    asked,
    due,
    lacking,
    places,
    removed,
    waiting,
    withdrawn,
    working,
)
from tests.support.money.pool_builders import on_market


def test_without_any_spot_pool_on_demand_is_used_at_once_and_nothing_is_excluded() -> None:
    (place,) = places(on_market(a_job(1), OD))
    assert (place.required, place.capacity) == ((), None)
    assert place.preferred == (("od", 100),)


def test_the_base_is_on_demand_and_stays_so() -> None:
    job = on_market(a_job(3, placement={"onDemandBase": 1}), SPOT, OD)
    assert asked(job) == ["OnDemand", "Spot", "Spot"]
    lost_base = on_market(working(a_job(3, placement={"onDemandBase": 1}), SPOT, 1, 2), SPOT, OD)
    assert asked(lost_base) == ["OnDemand"]


@pytest.mark.parametrize(("capacity", "expected"), [("Spot", "Spot"), ("OnDemand", "OnDemand")])
def test_only_the_capacity_that_the_user_allows(capacity: str, expected: str) -> None:
    job = on_market(a_job(1, placement={"capacity": capacity}), SPOT, OD)
    assert asked(job) == [expected]


def test_spot_that_does_not_come_is_waited_for_and_then_replaced() -> None:
    job = on_market(waiting(a_job(2, min=1), 0, 1, pools=(SPOT,), seconds=700), DRY, OD)
    assert withdrawn(lacking(job, 599)) == []
    assert lacking(job, 599).decide().wake_after_seconds <= 1.0
    late = lacking(job, 600)
    assert withdrawn(late) == [(1, "Fallback"), (0, "Fallback")]
    assert asked(late) == ["OnDemand", "OnDemand"]


def test_only_what_is_missing_falls_back() -> None:
    job = waiting(working(a_job(2, min=1), SPOT, 0), 1, pools=(SPOT,), seconds=700)
    late = lacking(on_market(job, DRY, OD), 600)
    assert (withdrawn(late), asked(late)) == ([(1, "Fallback")], ["OnDemand"])


def test_with_capacity_spot_nothing_falls_back() -> None:
    job = waiting(a_job(1, placement={"capacity": "Spot"}), 0, pools=(SPOT,), seconds=700)
    late = lacking(on_market(job, DRY, OD), 6000)
    assert (withdrawn(late), asked(late)) == ([], [])


def test_a_job_behind_its_pace_takes_on_demand_where_spot_is_dry() -> None:
    behind = on_market(due(30, 28), DRY, OD)
    assert asked(behind) == ["OnDemand"]
    ahead = on_market(due(30, 15), DRY, OD)
    assert asked(ahead) == ["Spot"]


def test_a_job_behind_its_pace_takes_spot_where_it_is_to_be_had() -> None:
    assert asked(on_market(due(30, 28), SPOT, OD)) == ["Spot"]


def test_a_job_behind_its_pace_does_not_wait_for_spot_longer_than_it_usually_takes() -> None:
    job = on_market(waiting(due(30, 20), 0, pools=(SPOT,), seconds=59), SPOT, OD)
    behind = on_market(waiting(due(30, 28), 0, pools=(SPOT,), seconds=60), SPOT, OD)
    assert (withdrawn(job), asked(job)) == ([], [])
    assert (withdrawn(behind), asked(behind)) == ([(0, "Fallback")], ["OnDemand"])


def test_a_job_behind_its_pace_does_not_wait_for_spot_that_autoscalers_do_not_make() -> None:
    scaled = replace(SPOT, declared=True)
    behind = on_market(waiting(due(30, 28), 0, pools=(scaled,), seconds=30), scaled, OD)
    assert asked(behind) == []
    assert asked(behind.with_facts(turned_down=REFUSED)) == ["OnDemand"]


def test_without_time_for_two_changeovers_nobody_waits_for_spot() -> None:
    assert asked(on_market(due(10.4, 10), SPOT, OD)) == ["Spot"]
    assert asked(on_market(due(10.3, 10), SPOT, OD)) == ["OnDemand"]


def test_a_spot_worker_that_trains_stays_also_then_as_long_as_its_work_is_saved() -> None:
    job = on_market(working(due(10.17, 10), SPOT, 0), SPOT, OD)
    assert (asked(job), removed(job)) == ([], [])


def test_a_gang_that_breaks_when_no_time_is_left_starts_anew_without_spot() -> None:
    # Who is left of it might be lost next, and each loss costs all of them a changeover.
    job = due(10.3, 10, workers=2).with_status(pace=Pace(step_seconds=Decimal(1), workers=2))
    gang = working(job, SPOT, 0).with_world("", 2, is_active=False, state_holders="0")
    assert asked(on_market(gang, SPOT, OD)) == ["OnDemand", "OnDemand"]


def test_work_that_is_not_saved_is_saved_when_its_loss_would_miss_the_deadline() -> None:
    job = on_market(working(due(10.5, 10.1), SPOT, 0), SPOT, OD)
    unsaved = job.with_checkpoint(int(37.5 * HOUR))
    decision = unsaved.decide()
    assert (decision.status.orders.checkpoint, asked(unsaved)) == (1, [])


def half_there(hours_left: float, work_left: float) -> JobBuilder:
    """An elastic job of two, of whom one trains on spot; nothing is saved yet."""
    job = due(hours_left, work_left, workers=2)
    workers = job.spec.workers.model_copy(update={"min": 1})
    job = replace(job, spec=job.spec.model_copy(update={"workers": workers}))
    pace = Pace(step_seconds=Decimal(1), workers=2, changeovers=(600,))
    return working(job, SPOT, 0).with_status(pace=pace, checkpoint=None)


@pytest.mark.parametrize(
    ("hours_left", "work_left"),
    [
        (59, 47.5),  # just begun: the first checkpoint is not due yet
        (48.2, 38),  # without what is done there would be no time for two changeovers
        (30, 19),
    ],
)
def test_work_that_is_not_saved_yet_keeps_its_pace(hours_left: float, work_left: float) -> None:
    assert asked(on_market(half_there(hours_left, work_left), DRY, OD)) == ["Spot"]


def test_too_little_work_is_behind_also_where_it_is_not_saved_yet() -> None:
    assert asked(on_market(half_there(30, 28), DRY, OD)) == ["OnDemand"]


def test_it_is_saved_before_its_loss_would_cost_the_time_to_wait_for_spot() -> None:
    calm = on_market(half_there(48.4, 38), SPOT, OD).decide()
    at_risk = on_market(half_there(48.2, 38), SPOT, OD).decide()
    assert calm.status.orders is NO_ORDERS
    assert at_risk.status.orders.checkpoint == 1


def test_where_nobody_can_save_it_work_that_is_not_saved_is_not_counted_on() -> None:
    job = on_market(half_there(30, 19), DRY, OD)
    unsaved = replace(job, spec=job.spec.model_copy(update={"checkpoint": None}))
    assert asked(unsaved) == ["OnDemand"]


def test_where_saving_is_not_enough_on_demand_takes_over_while_spot_trains_on() -> None:
    job = on_market(working(due(10.1, 10.05), SPOT, 0), SPOT, OD)
    unsaved = job.with_checkpoint(int(37.0 * HOUR))
    assert asked(unsaved) == ["OnDemand"]
    assert removed(unsaved) == []


def test_where_nothing_can_be_saved_a_worker_that_trains_is_not_replaced_in_vain() -> None:
    job = on_market(working(due(10.1, 10.05), SPOT, 0), SPOT, OD).with_checkpoint(int(37.0 * HOUR))
    spec = job.spec.model_copy(update={"checkpoint": None})
    assert asked(replace(job, spec=spec)) == []


def test_it_is_known_when_to_look_again() -> None:
    waits = on_market(waiting(due(30, 15), 0, pools=(DRY,), seconds=5), DRY, OD)
    seconds = waits.decide().wake_after_seconds
    assert 0 < seconds <= 600
    at_risk = waits.decide(later(15 * HOUR))
    assert any(isinstance(action, Withdraw) for action in at_risk.actions)
