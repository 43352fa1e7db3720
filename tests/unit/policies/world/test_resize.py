import pytest

from spotrun.api.status import Entry
from spotrun.policies.world.policy import wake_after_seconds
from spotrun.wire import Failure
from tests.support.jobs.builders import (
    JobBuilder,
    a_job,
    decided_world,
    later,
    lost,
    world,
)
from tests.support.jobs.decided import removed

BROKEN = Failure(1, 1, "boom")


@pytest.mark.parametrize(("formed", "joins"), [(1.9, False), (2.0, True)])
def test_who_was_left_out_has_time_to_say_that_it_has_not_let_go(
    formed: float, joins: bool
) -> None:
    """What it said before, that it could enter a world, may be that of a process that hangs."""
    job = a_job(2).with_workers(0, 1, ready=True, arrived=2, ready_for=99.0)
    job = job.with_world(
        "0", 2, entry=Entry.ABORT, state_holders="0", late_workers="1", formed=formed
    )
    decision = job.with_worker(1, ready=True, arrived=1, ready_for=99.0).decide()
    assert (decision.status.world.members == (0, 1)) is joins
    assert joins or decision.wake_after_seconds == pytest.approx(0.1)


def prepares_then_enters(job: JobBuilder) -> None:
    """Expect a world of three to be prepared, and entered once the third worker is ready."""
    assert decided_world(job) == (2, "0-2", False, Entry.BOUNDARY, "0-1")
    prepared = job.with_status(world=world(job))
    assert decided_world(prepared) == (2, "0-2", False, Entry.BOUNDARY, "0-1")
    entered = decided_world(prepared.with_worker(2, ready=True))
    assert entered == (2, "0-2", True, Entry.BOUNDARY, "0-1")


def test_growth_has_two_phases() -> None:
    prepares_then_enters(a_job(3).training(0, 1).with_worker(2, ready=False))


def test_nobody_waits_in_process_for_a_joining_worker_that_would_have_to_start_first() -> None:
    prepares_then_enters(a_job(3).training(0, 1).with_worker(2, ready=True, in_process=False))


def test_where_all_start_again_a_joining_worker_need_not_have_started() -> None:
    job = a_job(3).training(0, 1, in_process=False).with_worker(2, ready=True, in_process=False)
    assert decided_world(job) == (2, "0-2", True, Entry.RESTART, "0-1")


def test_a_joining_worker_that_failed_as_it_got_warm_is_given_another_world_after_a_pause() -> None:
    job = a_job(3).training(0, 1).with_worker(2, ready=False)
    prepared = job.with_status(world=world(job))
    failed = prepared.with_worker(2, ready=True, in_process=False, failed=Failure(2, 1, "boom"))
    assert decided_world(failed) == (2, "0-2", False, Entry.BOUNDARY, "0-1")
    decision = failed.decide()
    again = failed.with_state(decision.status).decide(later(10)).status.world
    assert (again.number, again.members, again.is_active) == (3, (0, 1, 2), False)


def test_who_is_ready_waits_no_longer_for_others_though_another_world_was_prepared() -> None:
    job = a_job(4).training(0, 1).with_worker(2, ready=True, ready_for=299.0)
    job = job.with_worker(3, ready=False)
    job = job.with_world(
        "0-3", 2, is_active=False, entry=Entry.BOUNDARY, state_holders="0-1", formed=20.0
    )
    assert decided_world(job) == (2, "0-3", False, Entry.BOUNDARY, "0-1")
    assert wake_after_seconds(job.view(), job.status) == 1.0
    after = job.with_worker(2, ready=True, ready_for=300.0)
    assert decided_world(after) == (3, "0-2", True, Entry.BOUNDARY, "0-1")


def test_a_spare_that_is_not_warm_takes_no_place_in_process() -> None:
    job = lost(a_job(2).training(0, 1).with_worker(2, ready=True, in_process=False), 0)
    assert decided_world(job) == (2, "1", True, Entry.ABORT, "1")


def test_whose_process_failed_takes_no_place_in_process_though_its_report_is_old() -> None:
    job = a_job(3).training(0, 1, 2).with_worker(2, ready=True, arrived=1, failed=BROKEN)
    assert decided_world(job) == (2, "0-1", True, Entry.ABORT, "0-1")


def test_a_smaller_wish_is_followed_at_a_boundary() -> None:
    job = a_job(3).training(0, 1, 2).with_spec(2, max=3)
    assert decided_world(job) == (2, "0-1", True, Entry.BOUNDARY, "0-2")


def test_nobody_leaves_under_notice_before_the_replacement_is_ready() -> None:
    job = a_job(2).training(0, 1).with_worker(1, ready=True, arrived=1, leaves_in=60)
    assert decided_world(job) == (1, "0-1", True, Entry.RESTART, None)
    assert job.decide().status.next_worker_id == 3
    job = job.with_worker(2, ready=True)
    assert decided_world(job) == (2, "0,2", True, Entry.BOUNDARY, "0-1")


def test_shortly_before_the_end_of_its_node_a_worker_is_left_out() -> None:
    job = a_job(2).training(0, 1).with_worker(1, ready=True, arrived=1, leaves_in=8)
    assert decided_world(job) == (2, "0", True, Entry.BOUNDARY, "0-1")


def test_a_notice_that_is_taken_back_is_forgotten() -> None:
    job = a_job(2).training(0, 1).with_worker(2, ready=False)
    assert decided_world(job) == (1, "0-1", True, Entry.RESTART, None)
    assert removed(job.decide().actions) == [2]


def test_a_world_never_mixes_templates() -> None:
    job = a_job(2, min=2).training(0, 1, template="old").with_worker(2, ready=True)
    assert decided_world(job) == (1, "0-1", True, Entry.RESTART, None)
    assert decided_world(job.with_worker(3, ready=True)) == (2, "2-3", True, Entry.RESTART, "0-1")
