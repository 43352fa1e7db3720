from dataclasses import replace

import pytest

from spotrun.api.names import Reason
from spotrun.api.status import Entry
from spotrun.state.actions import Action, Create, Remove
from spotrun.state.job_state import JobState
from spotrun.state.stored.failures import Restarts
from spotrun.wire import FAULTY_DEVICE, WRONG_DEVICE, Failure
from tests.support.jobs.builders import (
    ON_CLAIM,
    JobBuilder,
    a_job,
    ago,
    decided_world,
    later,
    lost,
    world,
)

PAUSING = Restarts(failures=1, retry_at=later(5), last_world=1)


BROKEN = Failure(1, 1, "boom")


def test_survivors_go_on_in_process() -> None:
    job = lost(a_job(4, min=2).training(0, 1, 2, 3), 0)
    assert decided_world(job) == (2, "1-3", True, Entry.ABORT, "1-3")


def test_more_losses_are_waited_for() -> None:
    job = lost(a_job(4, min=2).training(0, 1, 2, 3, in_process=False), 0, seen=0.1)
    assert decided_world(job) == (1, "0-3", True, Entry.RESTART, None)
    assert job.decide().wake_after_seconds == pytest.approx(0.2)


def test_in_process_another_loss_is_hardly_waited_for() -> None:
    job = lost(a_job(4, min=2).training(0, 1, 2, 3), 0, seen=0.01)
    assert decided_world(job) == (1, "0-3", True, Entry.RESTART, None)
    assert job.decide().wake_after_seconds == pytest.approx(0.04)


def test_scripts_that_cannot_go_on_in_process_start_again() -> None:
    job = lost(a_job(3, min=2).training(0, 1, 2, in_process=False), 2)
    assert decided_world(job) == (2, "0-1", True, Entry.RESTART, "0-1")


def test_over_nccl_a_boundary_is_gone_through_in_process_and_after_a_loss_all_start_again() -> None:
    job = a_job(3, min=1).training(0, 1, 2, needs_boundary=True)
    assert decided_world(lost(job, 2)) == (2, "0-1", True, Entry.RESTART, "0-1")
    assert decided_world(job.with_spec(2, max=3)) == (2, "0-1", True, Entry.BOUNDARY, "0-2")


def test_too_few_survivors_keep_the_state_and_go_on_with_the_replacement() -> None:
    job = lost(a_job(2, min=2).training(0, 1), 0)
    assert decided_world(job) == (2, "", False, Entry.RESTART, "1")
    job = job.with_status(world=world(job)).without(0).with_worker(2, ready=True)
    assert decided_world(job) == (3, "1-2", True, Entry.ABORT, "1")


def test_a_spare_that_is_ready_takes_the_place() -> None:
    job = lost(a_job(2, min=2).training(0, 1).with_worker(2, ready=True), 0)
    assert decided_world(job) == (2, "1-2", True, Entry.ABORT, "1")


def test_a_joining_worker_without_state_never_goes_on_alone() -> None:
    job = a_job(2).with_world("0-1", 2, entry=Entry.BOUNDARY, state_holders="0")
    job = lost(job.with_worker(1, ready=True, arrived=1, progress=None), 0)
    job = job.with_worker(1, ready=True)
    assert decided_world(job) == (3, "1", True, Entry.RESTART, None)


def test_a_new_leader_waits_to_hear_from_the_survivors() -> None:
    job = lost(a_job(3).training(0, 1).with_worker(1), 0).with_facts(leading_seconds=10.0)
    assert decided_world(job) == (1, "0-1", True, Entry.RESTART, None)
    assert job.decide().wake_after_seconds <= 50


@pytest.mark.parametrize(("led", "again"), [(8.0, 2.0), (12.0, 48.0)])
def test_a_new_leader_looks_again_when_who_has_not_come_had_time_to(
    led: float, again: float
) -> None:
    job = a_job(2).training(0).with_worker(1).with_world("0-1").with_facts(leading_seconds=led)
    assert job.decide().wake_after_seconds == again


def test_the_others_go_on_without_a_process_that_failed() -> None:
    job = a_job(3, min=2).training(0, 1, 2).with_worker(1, ready=False, arrived=1, failed=BROKEN)
    assert decided_world(job) == (2, "0,2", True, Entry.ABORT, "0,2")


def test_where_none_has_state_left_all_start_again_after_the_pause() -> None:
    job = a_job(2, min=2).training(0, 1, in_process=False, failed=BROKEN)
    job = job.with_status(restarts=PAUSING)
    assert decided_world(job) == (1, "0-1", True, Entry.RESTART, None)
    after = job.with_status(restarts=replace(PAUSING, retry_at=ago(1)))
    assert decided_world(after) == (2, "0-1", True, Entry.RESTART, None)


def wrong_device(workers: int, *, least: int, in_process: bool = True) -> JobBuilder:
    """The process of worker 1 has ended because its device computes wrong numbers."""
    failure = Failure(1, 1, f"rank 1 ended with exit code 1: WrongDeviceError: {WRONG_DEVICE}: a")
    job = a_job(workers, min=least, checkpoint=ON_CLAIM).training(*range(workers))
    for worker_id in range(workers):
        job = job.with_worker(worker_id, ready=True, arrived=1, broken=1, in_process=in_process)
    failed = {"ready": True, "arrived": 1, "failed": failure, "in_process": in_process}
    return job.with_worker(1, **failed).with_checkpoint(seconds_ago=60.0)


def lives(job: JobBuilder, *seconds: float) -> tuple[JobState, list[Action]]:
    """Decide at these times; return the last status, and what was done on the way."""
    actions: list[Action] = []
    for second in seconds:
        decision = job.decide(later(second))
        actions += decision.actions
        job = job.with_state(decision.status)
    return decision.status, actions


@pytest.mark.parametrize("in_process", [True, False])
def test_after_a_wrong_device_the_others_start_again_from_the_checkpoint(
    in_process: bool,
) -> None:
    """In memory they have steps in which that device had a part since it was checked last."""
    job = wrong_device(3, least=2, in_process=in_process)
    status, actions = lives(job, 0, 5)
    assert (status.world.number, status.restarts.blamed) == (1, ("node-1", "node-1"))
    assert actions == [], "it is a failure like others, with a pause"
    status, actions = lives(job, 0, 11)
    now = status.world
    assert (now.members, now.entry, now.restore) == ((0, 2), Entry.RESTART, "step-100.g1")
    removed, created = actions
    assert removed == Remove(
        1, "uid-1", Reason.FAULTY_DEVICE, "its device on node node-1 is faulty"
    )
    assert isinstance(created, Create)
    assert created.avoid_nodes == ("node-1",)


def test_after_a_faulty_device_the_others_keep_their_state() -> None:
    """Its numbers were right until it failed; only the node is left."""
    failure = Failure(1, 1, f"GPU-1: {FAULTY_DEVICE}: Xid 79, it has fallen off the bus; rank 1")
    job = wrong_device(3, least=2).with_worker(1, ready=True, arrived=1, failed=failure)
    status, actions = lives(job, 0, 1)
    now = status.world
    assert (now.members, now.entry, now.state_holders) == ((0, 2), Entry.ABORT, (0, 2))
    assert status.restarts.blamed == ("node-1", "node-1")
    assert actions == [
        Remove(1, "uid-1", Reason.FAULTY_DEVICE, "its device on node node-1 is faulty")
    ]
    _, actions = lives(job.with_state(status).without(1), 11)
    assert [one.avoid_nodes for one in actions if isinstance(one, Create)] == [("node-1",)]


def test_if_too_few_are_left_nobody_counts_as_a_holder_of_the_newest_state() -> None:
    job = wrong_device(3, least=3)
    status, _ = lives(job, 0, 11)
    assert (status.world.members, status.world.state_holders) == ((), ())
    job = job.with_state(status).without(1).with_worker(3, ready=True)
    status, _ = lives(job, 12)
    now = status.world
    assert (now.members, now.entry, now.restore) == ((0, 2, 3), Entry.RESTART, "step-100.g1")


def test_without_a_checkpoint_they_keep_what_they_have() -> None:
    job = wrong_device(3, least=2).with_status(checkpoint=None)
    status, _ = lives(job, 0)
    assert (status.world.members, status.world.entry) == ((0, 2), Entry.ABORT)
