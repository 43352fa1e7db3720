from dataclasses import replace

from spotrun.api.field_types.text_values import WorkerIds
from spotrun.api.names import Phase, Reason
from spotrun.api.status import Entry
from spotrun.runtime.decision_log import entries
from spotrun.state.actions import Create, Decision, DeleteJob, Release, Remove, Withdraw
from spotrun.state.job_state import JobState, World

RUNNING = JobState(phase=Phase.RUNNING, reason="Training", message="2 workers train")


def world(world_number: int, *members: int, is_active: bool = True) -> World:
    return World(number=world_number, members=members, is_active=is_active, entry=Entry.BOUNDARY)


def test_nothing_new_is_nothing_to_say() -> None:
    before = replace(RUNNING, world=world(1, 0, 1))
    after = replace(before, message="3 workers train", settled=WorkerIds.of((4,)).ranges)

    assert list(entries(before, Decision(after, (Release(4, "u"),)))) == []


def test_what_changes_is_said_in_order() -> None:
    after = replace(RUNNING, world=world(2, 1, 2))
    actions = (
        Create(4),
        Create(3),
        Remove(0, "u", next(iter(Reason)), "its node is going"),
        DeleteJob("its time is over"),
    )

    assert list(entries(JobState(), Decision(after, actions))) == [
        "Running: 2 workers train",
        "world 2: workers 1-2",
        "create workers 3-4",
        "remove worker 0: its node is going",
        "delete the job: its time is over",
    ]


def test_a_world_is_prepared_and_then_entered() -> None:
    before = replace(RUNNING, world=world(1, 0))
    prepared = replace(RUNNING, world=world(2, 0, 1, is_active=False))
    entered = replace(RUNNING, world=world(2, 0, 1))

    assert list(entries(before, Decision(prepared))) == ["world 2: workers 0-1, being prepared"]
    assert list(entries(prepared, Decision(entered))) == ["world 2: workers 0-1"]


def test_a_world_may_be_empty() -> None:
    before = replace(RUNNING, world=world(1, 0, 1))
    after = replace(RUNNING, world=world(2))

    assert list(entries(before, Decision(after))) == ["world 2: no workers"]


def test_many_workers_that_go_for_one_reason_are_one_line() -> None:
    reason = next(iter(Reason))
    gone = [Remove(worker_id, "u", reason, "a gang comes first") for worker_id in (7, 3, 4, 5)]
    other = Remove(9, "u", reason, "its node is going")
    unbound = [Withdraw(worker_id, "u", "1", reason, "no node in time") for worker_id in (11, 12)]

    assert list(entries(RUNNING, Decision(RUNNING, (*gone, other, *unbound)))) == [
        "remove workers 3-5,7: a gang comes first",
        "remove worker 9: its node is going",
        "withdraw workers 11-12: no node in time",
    ]
