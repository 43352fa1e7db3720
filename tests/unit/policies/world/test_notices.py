"""Notices: make before break, in one round, with the state saved where only a restart helps."""

from dataclasses import replace
from typing import Any

import pytest

from spotrun.api.field_types.text_values import WorkerIds
from spotrun.api.status import Entry
from spotrun.policies.lifecycle.suspension import CHECKPOINT_SECONDS
from spotrun.policies.world.join_timeout import arrival_wake_after_seconds
from spotrun.policies.world.policy import wake_after_seconds
from spotrun.policies.world.resize import SCRIPT_LEAD_SECONDS
from spotrun.state.actions import Create, Remove
from spotrun.state.job_state import NO_ORDERS, Orders
from spotrun.wire import Progress
from tests.support.jobs.builders import ON_CLAIM, JobBuilder, a_job, ago, later


def members(job: JobBuilder) -> str:
    return WorkerIds.of(job.decide().status.world.members)


def created(job: JobBuilder) -> list[Create]:
    return [one for one in job.decide().actions if isinstance(one, Create)]


def removed(job: JobBuilder) -> list[int]:
    return [one.worker_id for one in job.decide().actions if isinstance(one, Remove)]


def a_notice(job: JobBuilder, *worker_ids: int, leaves_in: float) -> JobBuilder:
    for worker_id in worker_ids:
        job = job.with_worker(worker_id, ready=True, arrived=1, leaves_in=leaves_in)
    return job


def test_replacements_for_all_who_leave_are_made_at_once_and_elsewhere() -> None:
    job = a_notice(a_job(4).training(0, 1, 2, 3), 1, 2, leaves_in=120)
    assert job.decide().status.next_worker_id == 6
    made = created(job.with_status(next_worker_id=6))
    assert [one.worker_id for one in made] == [4, 5]
    assert {one.avoid_nodes for one in made} == {("node-1", "node-2")}


def test_a_notice_for_several_is_one_swap() -> None:
    job = a_notice(a_job(4).training(0, 1, 2, 3), 1, 2, leaves_in=120)
    job = job.with_worker(4, ready=True, ready_for=3).with_worker(5, ready=False)
    prepared = job.decide().status
    assert (prepared.world.members, prepared.world.is_active) == ((0, 3, 4, 5), False)
    done = job.with_status(world=prepared.world).with_worker(5, ready=True).decide().status
    assert (done.world.number, done.world.is_active) == (2, True)
    assert done.world.entry is Entry.BOUNDARY


def test_the_first_replacement_of_several_waits_a_moment_for_the_others() -> None:
    job = a_notice(a_job(4).training(0, 1, 2, 3), 1, 2, 3, leaves_in=120)
    assert members(job.with_worker(4, ready=True, ready_for=0.2)) == "0-3"
    assert members(job.with_worker(4, ready=True, ready_for=1)) == "0-2,4"
    both = job.with_worker(4, ready=True, ready_for=0.9).with_worker(5, ready=True, ready_for=0.2)
    assert members(both) == "0-3"
    alone = a_notice(a_job(4).training(0, 1, 2, 3), 1, leaves_in=120)
    assert members(alone.with_worker(4, ready=True)) == "0,2-4"


def test_who_leaves_within_seconds_of_another_leaves_with_it() -> None:
    job = a_notice(a_job(4, min=1).training(0, 1, 2, 3), 2, leaves_in=8)
    job = a_notice(job, 3, leaves_in=12)
    assert members(job) == "0-1"
    assert members(a_notice(job, 3, leaves_in=14)) == "0-1,3"


def test_who_has_seconds_left_stays_where_the_others_would_be_too_few() -> None:
    job = a_notice(a_job(4, min=3).training(0, 1, 2, 3), 2, leaves_in=8)
    job = a_notice(job, 3, leaves_in=12)
    assert members(job) == "0-1,3"


def test_a_departing_worker_is_removed_with_the_swap_and_not_before() -> None:
    job = a_notice(a_job(2).training(0, 1), 1, leaves_in=60).with_worker(2, ready=False)
    assert removed(job) == []
    assert removed(job.with_worker(2, ready=True)) == [1]


def test_who_is_told_to_end_by_a_signal_is_left_out_at_once() -> None:
    """A machine that shuts down sends SIGTERM to all, and its kubelet may say nothing."""
    job = a_job(2, min=1).training(0, 1).with_worker(1, ready=True, arrived=1, leaving=True)
    world = job.decide().status.world
    assert (world.members, world.entry, world.is_active) == ((0,), Entry.BOUNDARY, True)
    (made,) = created(job.with_status(next_worker_id=3))
    assert made.avoid_nodes == ("node-1",)


def test_who_is_told_to_end_and_deleted_may_be_followed_on_its_node() -> None:
    job = a_job(2, min=1).training(0, 1)
    gone = {"deleting": True, "killed_at": later(100)}
    job = job.with_worker(1, ready=True, arrived=1, leaving=True, **gone)
    assert members(job) == "0"
    (made,) = created(job.with_status(next_worker_id=3))
    assert made.avoid_nodes == ()


# when all who train leave -------------------------------------------------------------------------


def test_of_several_who_all_leave_one_hands_the_state_over() -> None:
    job = a_notice(a_job(2, min=1).training(0, 1), 0, 1, leaves_in=120)
    job = job.with_workers(2, 3, ready=True, ready_for=5)
    world = job.decide().status.world
    assert (world.members, world.entry, world.is_active) == ((0, 2), Entry.BOUNDARY, True)
    after = job.with_status(world=world).with_worker(0, ready=True, arrived=2, leaves_in=110)
    after = after.with_worker(2, ready=True, arrived=2, progress=Progress(2, 120))
    assert members(after) == "2-3"


def test_one_that_trains_alone_saves_for_its_replacement() -> None:
    job = a_notice(a_job(1, checkpoint=ON_CLAIM).training(0), 0, leaves_in=120)
    # Its process starts with the world: there is nothing to get warm with before that.
    job = job.with_worker(1, ready=True, ready_for=5, in_process=False)
    assert job.decide().status.orders.checkpoint == 1
    assert members(job) == "0"
    order = Orders(1, ago(3))
    world = job.with_status(orders=order).with_checkpoint(100, 1).decide().status.world
    assert (world.members, world.entry, world.is_active) == ((1,), Entry.RESTART, True)
    assert world.restore == "step-100.g1"


def test_one_that_trains_alone_and_cannot_save_trains_to_the_end() -> None:
    job = a_notice(a_job(1).training(0), 0, leaves_in=9).with_worker(1, ready=True, ready_for=5)
    assert members(job) == "0"


# planned restarts ---------------------------------------------------------------------------------


def a_script(**worker: Any) -> JobBuilder:
    """Two workers that cannot go on in process; one leaves, and its replacement is ready."""
    ready_for = worker.pop("ready_for", 5.0)
    job = a_job(2, checkpoint=ON_CLAIM).training(0, 1, in_process=False)
    job = job.with_worker(
        1, ready=True, arrived=1, in_process=False, **{"leaves_in": 120, **worker}
    )
    return job.with_worker(2, ready=True, ready_for=ready_for, in_process=False)


def test_before_a_planned_restart_they_save() -> None:
    status = a_script().with_checkpoint(50).decide().status
    world = status.world
    assert (world.members, world.entry, world.is_active) == ((0, 2), Entry.RESTART, False)
    reported = a_script().with_checkpoint(50).with_status(world=world)
    ordered = reported.decide().status
    assert ordered.orders.checkpoint == 1
    assert not ordered.world.is_active
    order = Orders(1, ago(3))
    saved = reported.with_status(orders=order).with_checkpoint(100, 1).decide().status.world
    assert (saved.is_active, saved.restore) == (True, "step-100.g1")


def test_it_is_not_waited_for_ever_for_a_script_that_does_not_save() -> None:
    world = a_script().decide().status.world
    waits = a_script(ready_for=CHECKPOINT_SECONDS - 1).with_status(world=world)
    formed = waits.with_world(
        "0,2",
        2,
        is_active=False,
        entry=Entry.RESTART,
        state_holders="0-1",
        training_number=1,
        formed=200,
    )
    assert wake_after_seconds(formed.view(), formed.status) == 1
    assert _switches(formed) is False
    patient = formed.with_worker(2, ready=True, ready_for=CHECKPOINT_SECONDS, in_process=False)
    assert _switches(patient) is True


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (a_script(leaves_in=8), "its node ends"),
        (a_script(progress=Progress(1, 50)).with_checkpoint(100), "all is saved already"),
    ],
    ids=["hurried", "saved"],
)
def test_it_is_not_waited_where_that_gains_nothing(job: JobBuilder, why: str) -> None:
    world = job.decide().status.world
    assert world.is_active, why


def test_without_a_place_for_checkpoints_there_is_nothing_to_wait_for() -> None:
    job = a_job(2).training(0, 1, in_process=False).with_worker(2, ready=True, ready_for=5)
    job = job.with_worker(1, ready=True, arrived=1, in_process=False, leaves_in=120)
    assert _switches(job) is True


def a_plain_script(**worker: Any) -> JobBuilder:
    """The same of a script that follows no orders, though its steps are counted."""
    job = a_script(**worker)
    known = {n: one.agent.report for n, one in job.workers.items() if one.agent is not None}
    for worker_id, report in known.items():
        agent = job.workers[worker_id].agent
        assert agent is not None
        plain = replace(agent, report=replace(report, saves_on_order=False))
        job = replace(
            job, workers={**job.workers, worker_id: replace(job.workers[worker_id], agent=plain)}
        )
    return job


def test_a_script_that_follows_no_orders_is_told_when_it_is_ended() -> None:
    status = a_plain_script().decide().status
    assert status.orders is NO_ORDERS
    assert (status.world.members, status.world.is_active) == ((0, 2), True)
    assert status.world.is_planned


def test_after_a_loss_nobody_has_time_to_save() -> None:
    job = a_job(2, min=1, checkpoint=ON_CLAIM).training(0, 1, in_process=False).without(1)
    world = job.with_facts(lost_seconds={1: 60.0}).decide().status.world
    assert (world.members, world.is_active, world.is_planned) == ((0,), True, False)


def a_lone_script(leaves_in: float) -> JobBuilder:
    job = a_job(1, checkpoint=ON_CLAIM).training(0, in_process=False)
    plain = {"ready": False, "in_process": False, "saves_on_order": False}
    return job.with_worker(0, arrived=1, leaves_in=leaves_in, **plain)


def test_a_lone_script_goes_over_to_its_replacement_as_soon_as_that_is_ready() -> None:
    job = a_lone_script(leaves_in=120)
    assert members(job) == "0"
    ready = job.with_worker(1, ready=True, ready_for=5, in_process=False, saves_on_order=False)
    world = ready.decide().status.world
    assert (world.members, world.is_active, world.is_planned) == ((1,), True, True)


def test_a_lone_script_without_a_replacement_is_ended_while_it_has_time_to_save() -> None:
    job = a_lone_script(leaves_in=60)
    assert wake_after_seconds(job.view(), job.status) == 60 - SCRIPT_LEAD_SECONDS
    assert members(job) == "0"
    world = a_lone_script(leaves_in=SCRIPT_LEAD_SECONDS).decide().status.world
    assert (world.members, world.is_planned) == ((), True)


def test_survivors_that_are_too_few_have_no_time_to_save() -> None:
    job = a_job(2, min=2, checkpoint=ON_CLAIM).training(0, 1, in_process=False).without(1)
    world = job.with_facts(lost_seconds={1: 60.0}).decide().status.world
    assert (world.members, world.is_planned) == ((), False)


def test_processes_that_save_first_may_come_so_much_later() -> None:
    job = a_job(2, checkpoint=ON_CLAIM).training(0, 1, in_process=False)
    job = job.with_world("0,1", 2, entry=Entry.RESTART, formed=1)
    job = job.with_worker(0, ready=False, arrived=2, arrived_for=0.0, in_process=False)
    usual = arrival_wake_after_seconds(job.view(), job.status)
    world = replace(job.status.world, is_planned=True)
    planned = job.with_status(world=world)
    assert usual is not None
    assert arrival_wake_after_seconds(planned.view(), planned.status) == usual + 120


def test_nothing_is_late_by_the_time_a_node_ends() -> None:
    job = a_notice(a_job(2).training(0, 1), 1, leaves_in=60)
    wait = wake_after_seconds(job.view(), job.status)
    assert wait == 52
    assert members(a_notice(job, 1, leaves_in=60)) == "0-1"
    world = job.decide(later(52)).status.world
    assert world.members == (0,)


def _switches(job: JobBuilder) -> bool:
    world = job.decide().status.world
    return world.is_active
