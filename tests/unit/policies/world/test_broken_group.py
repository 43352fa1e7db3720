"""A group that broke though nobody is lost: all go on in process, but not for ever."""

from dataclasses import replace

import pytest

from spotrun.api.names import Reason
from spotrun.api.status import Entry
from spotrun.policies.world.broken_group import MOST_BREAKS
from spotrun.state.snapshot import Node
from spotrun.state.stored.failures import NO_RESTARTS
from spotrun.state.world_members import CALM_SECONDS
from spotrun.wire import Failure, Progress
from tests.support.jobs.builders import JobBuilder, a_job, decided_world, world

AS_BEFORE = (2, "0-2", True, Entry.ABORT, "0-1")


def broken(*worker_ids: int, **others: object) -> JobBuilder:
    """Three that train in world 2, of whom these say that its group broke."""
    job = a_job(3, min=1).training(0, 1, 2, world_number=2, **others)
    job = job.with_world("0-2", 2, entry=Entry.ABORT, state_holders="0-1")
    for worker_id in worker_ids:
        job = job.with_worker(worker_id, ready=True, arrived=2, broken=2, **others)
    return job


def test_the_same_members_meet_anew_and_go_on_in_process() -> None:
    job = broken(0, 1, 2)
    assert decided_world(job) == (3, "0-2", True, Entry.ABORT, "0-2")
    decided = job.decide().status
    assert decided.world.breaks == 1
    assert decided.restarts == NO_RESTARTS  # it is no failure
    assert decided.decisions
    assert decided.decisions[-1].why == (
        "the connections between the workers broke, though no worker is lost"
    )


@pytest.mark.parametrize("worker_ids", [(), (0,), (0, 1)])
def test_as_long_as_one_has_not_said_so_it_may_be_lost(worker_ids: tuple[int, ...]) -> None:
    assert decided_world(broken(*worker_ids)) == AS_BEFORE


def test_what_was_said_of_the_world_before_counts_for_nothing() -> None:
    job = broken().with_workers(0, 1, 2, ready=True, arrived=2, broken=1)
    assert decided_world(job) == AS_BEFORE


def test_a_loss_explains_it() -> None:
    job = broken(0, 1, 2).with_worker(2, node=Node("n", gone=True), broken=2)
    assert decided_world(job.with_facts(lost_seconds={2: 0.3})) == (
        3,
        "0-1",
        True,
        Entry.ABORT,
        "0-1",
    )


def test_a_failure_explains_it() -> None:
    job = broken(0, 1).with_worker(2, ready=True, arrived=2, failed=Failure(2, 1, "boom"))
    assert decided_world(job) == (3, "0-1", True, Entry.ABORT, "0-1")


def test_over_nccl_only_new_processes_can_go_on() -> None:
    assert decided_world(broken(0, 1, 2, needs_boundary=True)) == AS_BEFORE


def test_who_has_no_state_yet_does_not_go_on_alone() -> None:
    job = broken(0, 1, 2, progress=Progress(1, 0)).with_world("0-2", 2, entry=Entry.RESTART)
    assert decided_world(job) == (2, "0-2", True, Entry.RESTART, None)


def test_while_the_next_world_is_prepared_those_who_train_meet_anew() -> None:
    job = a_job(3).training(0, 1).with_workers(0, 1, ready=True, arrived=1, broken=1)
    job = job.with_worker(2, ready=False)
    job = job.with_world(
        "0-2", 2, is_active=False, entry=Entry.BOUNDARY, state_holders="0-1", training_number=1
    )
    assert decided_world(job) == (3, "0-1", True, Entry.ABORT, "0-1")


@pytest.mark.parametrize(
    ("breaks", "age", "expected"),
    [
        (0, 1.0, 1),
        (1, 1.0, 2),
        (MOST_BREAKS - 1, CALM_SECONDS - 1, MOST_BREAKS),
        (MOST_BREAKS, CALM_SECONDS - 1, None),
        (MOST_BREAKS, CALM_SECONDS, 1),
    ],
)
def test_breaks_in_a_row_are_counted(breaks: int, age: float, expected: int | None) -> None:
    job = broken(0, 1, 2)
    job = job.with_world(
        "0-2", 2, entry=Entry.ABORT, state_holders="0-1", formed=age, breaks=breaks
    )
    new = world(job)
    assert new.number == (2 if expected is None else 3)
    assert new.breaks == (breaks if expected is None else expected)


def test_a_link_that_stays_broken_ends_in_a_failure_though_a_world_is_prepared() -> None:
    """It cannot go on for ever that a world is prepared, and its members meet anew, in turn."""
    job, num_worlds = broken(0, 1, 2), 0
    for _ in range(20):
        job = job.with_spec(4, min=1)  # somebody is wanted who never comes
        decided = job.decide().status
        if decided.world == job.status.world:
            break
        num_worlds += 1
        present = decided.world.training_number or decided.world.number
        job = job.with_state(replace(decided, decisions=()))
        job = job.with_workers(0, 1, 2, ready=True, arrived=present, broken=present)
        job = job.with_worker(3, ready=False)
    assert job.status.world.breaks == MOST_BREAKS
    failure = Failure(present, 1, "the workers lost touch with each other, but none is missed")
    job = job.with_workers(0, 1, 2, ready=True, arrived=present, failed=failure)
    restarts = job.decide().status.restarts
    assert (restarts.failures, restarts.last_reason) == (1, Reason.EXIT_CODE)
    assert num_worlds <= 2 * MOST_BREAKS
