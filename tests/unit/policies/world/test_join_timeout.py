"""Who is waited for on the way into a world, how long, and who is in the next one."""

from dataclasses import replace
from typing import Any

import pytest

from spotrun.api.status import Entry
from spotrun.wire import Progress
from tests.support.jobs.builders import (
    JobBuilder,
    a_job,
    decided_world,
    world,
)
from tests.support.jobs.decided import removed


def entering(entry: Entry, formed: float, **late: Any) -> JobBuilder:
    job = a_job(3, min=2).with_workers(0, 1, 2, ready=True, arrived=4)
    return job.with_world(
        "0-2", 5, entry=entry, state_holders="0-2", formed=formed, store="s:1", **late
    )


@pytest.mark.parametrize(
    ("entry", "age", "leaves_out"),
    [
        (Entry.ABORT, 1.9, False),
        (Entry.ABORT, 2.0, True),
        (Entry.BOUNDARY, 2.0, True),
        (Entry.RESTART, 119.0, False),
        (Entry.RESTART, 120.0, True),
    ],
)
def test_who_is_late_is_left_out(entry: Entry, age: float, leaves_out: bool) -> None:
    job = entering(entry, 600.0 if entry is Entry.RESTART else 20.0)
    for worker_id in (0, 1):
        job = job.with_worker(worker_id, ready=True, arrived=5, arrived_for=age)
    new = world(job)
    assert (new.members == (0, 1)) is leaves_out
    assert new.late_workers == ((2,) if leaves_out else ())


@pytest.mark.parametrize(
    ("entry", "seconds", "next_how"),
    [
        (Entry.BOUNDARY, 30.0, Entry.ABORT),
        (Entry.ABORT, 30.0, Entry.RESTART),
        (Entry.RESTART, 600.0, Entry.RESTART),
    ],
)
def test_a_world_that_nobody_enters_is_tried_harder(
    entry: Entry, seconds: float, next_how: Entry
) -> None:
    before = decided_world(entering(entry, seconds - 1))
    assert before is not None
    assert before[0] == 5
    after = decided_world(entering(entry, seconds))
    assert after is not None
    assert (after[0], after[1], after[3]) == (6, "0-2", next_how)
    said = entering(entry, seconds).decide().status.decisions[-1]
    assert (said.what, said.why) == ("World", f"3 of 3 workers did not arrive by {entry}")


@pytest.mark.parametrize(("seconds", "is_waited_for"), [(119.0, True), (120.0, False)])
def test_survivors_wait_for_a_replacement_until_its_process_has_started(
    seconds: float, is_waited_for: bool
) -> None:
    """The survivor is there at once; whoever imports PyTorch first takes longer."""
    job = a_job(2, min=2).with_world("1-2", 3, entry=Entry.ABORT, state_holders="1", formed=130.0)
    job = job.with_worker(1, ready=True, arrived=3, arrived_for=seconds)
    job = job.with_worker(2, ready=True, in_process=False)
    waits, gives_up = (3, "1-2", True, Entry.ABORT, "1"), (4, "", False, Entry.RESTART, "1")
    assert decided_world(job) == (waits if is_waited_for else gives_up)


def test_over_nccl_a_boundary_that_somebody_does_not_reach_is_followed_by_a_restart() -> None:
    job = entering(Entry.BOUNDARY, 20.0)
    job = job.with_worker(2, ready=True, arrived=4, needs_boundary=True)
    for worker_id in (0, 1):
        came = {"arrived": 5, "arrived_for": 3.0, "needs_boundary": True}
        job = job.with_worker(worker_id, ready=True, **came)
    assert decided_world(job) == (6, "0-2", True, Entry.RESTART, "0-2")


def test_where_too_few_come_in_process_they_keep_the_state() -> None:
    job = a_job(3, min=3).with_workers(0, 1, 2, ready=True, arrived=4)
    job = job.with_world("0-2", 5, entry=Entry.ABORT, state_holders="0-2", formed=20.0, store="s:1")
    for worker_id in (0, 1):
        job = job.with_worker(worker_id, ready=True, arrived=5, arrived_for=3.0)
    assert decided_world(job) == (6, "", False, Entry.RESTART, "0-1")


def test_whom_even_a_second_restart_does_not_bring_is_left_behind() -> None:
    job = entering(Entry.RESTART, 600.0, late_workers="0").with_worker(3, ready=True)
    new = world(job)
    assert (new.members, new.late_workers) == ((1, 2, 3), (0, 0, 1, 2))


@pytest.mark.parametrize(
    ("least", "late", "members", "holders"),
    [
        (1, "", "0-2", "0-1"),
        (2, "", "0-2", "0-1"),
        (1, "1", "0,2", "0"),  # late for the second time: it is left out, the other one brings it
    ],
)
def test_where_only_a_joining_worker_comes_to_a_boundary_the_others_still_bring_the_state(
    least: int, late: str, members: str, holders: str
) -> None:
    """One of the two may have died; all that have the state are told to come, and go on with it."""
    job = a_job(3, min=least).with_workers(0, 1, ready=True, arrived=4)
    job = job.with_worker(2, ready=True, arrived=5, arrived_for=3.0, progress=Progress(0, 0))
    told_to_join: dict[str, Any] = {
        "state_holders": "0-1",
        "joining_workers": "2",
        "late_workers": late,
    }
    job = job.with_world("0-2", 5, entry=Entry.BOUNDARY, formed=3.2, store="s:1", **told_to_join)
    assert decided_world(job) == (6, members, True, Entry.ABORT, holders)


@pytest.mark.parametrize("entry", [Entry.BOUNDARY, Entry.ABORT])
def test_who_is_late_once_keeps_the_state_where_too_few_are_left(entry: Entry) -> None:
    """Nobody has gone on without it; who was late twice is replaced, and has no say any more."""
    job = a_job(3, min=3).with_workers(0, 1, ready=True, arrived=4)
    job = job.with_worker(2, ready=True, arrived=5, arrived_for=3.0, progress=Progress(0, 0))
    told_to_join: dict[str, Any] = {
        "state_holders": "0-1",
        "joining_workers": "2",
        "late_workers": "1",
    }
    job = job.with_world("0-2", 5, entry=entry, formed=3.2, store="s:1", **told_to_join)
    decided = job.decide()
    new = decided.status.world
    assert (new.members, new.state_holders, new.late_workers) == ((), (0,), (1, 1))
    status = replace(decided.status, next_worker_id=4)
    job = job.with_state(status).without(1).with_worker(3, ready=True)
    assert decided_world(job) == (7, "0,2-3", True, Entry.ABORT, "0")


def test_where_only_joining_workers_come_every_part_of_the_model_is_still_brought() -> None:
    job = a_job(4, min=2, sizes=[2, 4], perReplica=2)
    for worker_id in (0, 1):
        job = job.with_worker(worker_id, ready=True, arrived=4, slot=worker_id)
    came: dict[str, Any] = {"arrived": 5, "arrived_for": 3.0, "progress": Progress(0, 0)}
    for worker_id in (2, 3):
        job = job.with_worker(worker_id, ready=True, slot=worker_id - 2, **came)
    told_to_join: dict[str, Any] = {"state_holders": "0-1", "joining_workers": "2-3"}
    job = job.with_world("0-3", 5, entry=Entry.BOUNDARY, formed=3.2, store="s:1", **told_to_join)
    assert decided_world(job) == (6, "0-3", True, Entry.ABORT, "0-1")


def one_starts(least: int, *arrived_for: float) -> JobBuilder:
    """At a boundary others came so long ago; the last member has to start its process again."""
    last = len(arrived_for)
    job = a_job(last + 1, min=least)
    for worker_id, age in enumerate(arrived_for):
        job = job.with_worker(worker_id, ready=True, arrived=5, arrived_for=age)
    job = job.with_worker(last, ready=True, in_process=False)
    joined: dict[str, Any] = {
        "state_holders": "0-1",
        "joining_workers": f"2-{last}",
        "store": "s:1",
    }
    return job.with_world(f"0-{last}", 5, entry=Entry.BOUNDARY, formed=30.0, **joined)


@pytest.mark.parametrize(
    ("least", "members"), [(1, "0-1"), (2, "0-1"), (3, "0-2")], ids=["one", "two", "all are needed"]
)
def test_nobody_waits_for_a_process_that_starts_and_is_not_needed(least: int, members: str) -> None:
    after = decided_world(one_starts(least, 20.0, 20.0))
    assert after is not None
    assert after[1] == members
    assert after[3:] == (Entry.BOUNDARY if least == 3 else Entry.ABORT, "0-1")


@pytest.mark.parametrize(("seconds", "is_waited_for"), [(1.9, True), (2.0, False)])
def test_who_starts_beside_others_has_a_moment_after_the_last_of_them(
    seconds: float, is_waited_for: bool
) -> None:
    after = world(one_starts(2, 20.0, 20.0, seconds))
    assert after.members == ((0, 1, 2, 3) if is_waited_for else (0, 1, 2))


@pytest.mark.parametrize(
    ("entry", "in_process", "members"),
    [
        (Entry.BOUNDARY, True, "0-3"),
        (Entry.BOUNDARY, False, "0-2"),  # the others go on in process, and would wait for it
        (Entry.ABORT, False, "0-3"),  # all start again
    ],
)
def test_a_spare_that_holds_nobody_up_is_taken_into_the_harder_try(
    entry: Entry, in_process: bool, members: str
) -> None:
    job = a_job(4, min=2).with_workers(0, 1, 2, ready=True, arrived=4)
    job = job.with_world("0-2", 5, entry=entry, state_holders="0-2", formed=30.0, store="s:1")
    after = decided_world(job.with_worker(3, ready=True, in_process=in_process))
    harder = Entry.ABORT if entry is Entry.BOUNDARY else Entry.RESTART
    assert after == (6, members, True, harder, "0-2")


def test_a_spare_that_has_to_start_is_taken_where_the_others_are_too_few() -> None:
    """Without it nobody would train, and who is only late would not be counted on any more."""
    job = a_job(4, min=3).with_workers(0, 1, ready=True, arrived=4)
    came: dict[str, Any] = {"arrived": 5, "arrived_for": 3.0, "progress": Progress(0, 0)}
    job = job.with_worker(2, ready=True, **came).with_worker(3, ready=True, in_process=False)
    told_to_join: dict[str, Any] = {
        "state_holders": "0-1",
        "joining_workers": "2",
        "late_workers": "1",
    }
    job = job.with_world("0-2", 5, entry=Entry.BOUNDARY, formed=3.2, store="s:1", **told_to_join)
    assert decided_world(job) == (6, "0,2-3", True, Entry.ABORT, "0")


def test_who_is_late_twice_is_replaced() -> None:
    job = a_job(2, min=2).training(0, 1).with_worker(2, ready=True)
    job = job.with_world("0-1", 1, late_workers="2,2", store="s:1")
    decision = job.decide()
    assert decision.status.next_worker_id == 3
    assert removed(decision.actions) == [2]
