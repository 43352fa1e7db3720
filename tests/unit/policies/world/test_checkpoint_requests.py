from dataclasses import replace

import pytest

from spotrun.api.field_types.text_values import Time
from spotrun.api.names import ANNOTATION_CHECKPOINT_WANTED
from spotrun.policies.world.checkpoint_requests import is_saved
from spotrun.state.job_state import NO_ORDERS, JobState, Orders
from spotrun.state.stored.training import AcknowledgedCheckpoint, Progress
from tests.support.jobs.builders import NOW, ON_CLAIM, a_job, ago, later


def test_a_checkpoint_is_ordered_when_more_leave_than_a_world_can_spare() -> None:
    job = a_job(2, min=2, checkpoint=ON_CLAIM).training(0, 1)
    job = job.with_worker(1, ready=True, arrived=1, leaves_in=60)
    assert job.decide().status.orders == Orders(1, NOW)
    spare = job.with_worker(2, ready=True).decide().status
    assert spare.orders is NO_ORDERS


def asked_at(text: str, orders: Orders = NO_ORDERS, **spec: object) -> JobState:
    job = a_job(2, min=2, **(spec or {"checkpoint": ON_CLAIM})).training(0, 1)
    job = job.with_status(orders=orders)
    return job.with_facts(script={ANNOTATION_CHECKPOINT_WANTED: text}).decide().status


def test_a_person_who_asks_gets_one_checkpoint() -> None:
    wanted = str(Time.of(ago(1)))
    first = asked_at(wanted)
    assert first.orders == Orders(1, NOW)
    assert asked_at(wanted, first.orders).orders == first.orders
    assert asked_at(str(Time.of(NOW)), Orders(4, ago(2))).orders == Orders(5, NOW)


@pytest.mark.parametrize(
    "text",
    ["", "now", "2026-03-01", str(Time.of(later(60)))],
    ids=["none", "a word", "a day", "to come"],
)
def test_what_is_no_past_time_asks_for_nothing(text: str) -> None:
    assert asked_at(text).orders is NO_ORDERS


def test_nobody_is_asked_to_save_where_there_is_no_place() -> None:
    assert asked_at(str(Time.of(ago(1))), failures={"maxRestarts": 1}).orders is NO_ORDERS


def test_a_checkpoint_begun_before_an_order_is_not_fresh_for_it() -> None:
    job = a_job(2, min=2, checkpoint=ON_CLAIM).training(0, 1)
    job = job.with_status(orders=Orders(3, ago(10)), progress=Progress(step=40))
    saved = AcknowledgedCheckpoint("step-30.g1", 30, ago(5))

    def is_fresh(orders: int | None) -> bool:
        return is_saved(job.view(), replace(job.status, checkpoint=replace(saved, orders=orders)))

    assert [is_fresh(orders) for orders in (2, 3, None)] == [False, True, True]
