"""Each rule of the safety oracle can be broken, and is silent on a life without a fault."""

from dataclasses import replace
from typing import Any

import pytest

from tests.plans.history import Event
from tests.plans.safety import violations, worker_id_of
from tests.unit.plans.objects import a_job, a_pod, a_world

BEGINNING = [
    a_job(1, "ADDED"),
    a_job(2, nextWorkerId=2),
    a_pod(3, worker_id=0),
    a_pod(4, worker_id=1),
]
WORLD = a_world(1, "0-1", store="a:1", usedStores=["a:1"])
TRAINS = a_job(5, nextWorkerId=2, world=WORLD)


def found(*events: Event, removed: Any = (), doomed: Any = ()) -> list[str]:
    """What the oracle complains about, without the place."""
    complaints = violations(events, removed=set(removed), doomed=set(doomed))
    return [text.partition(": ")[2] for text in complaints]


def after(*status: dict[str, Any]) -> list[str]:
    """What is wrong with statuses that follow each other."""
    return found(*BEGINNING, TRAINS, *(a_job(6 + n, **one) for n, one in enumerate(status)))


def test_a_life_without_a_fault_breaks_no_rule() -> None:
    smaller = a_world(2, "0", stateHolders="0", store="a:2", usedStores=["a:1", "a:2"])
    assert found(
        *BEGINNING,
        TRAINS,
        a_pod(6, "MODIFIED", 1, going=True),
        a_job(7, nextWorkerId=3, world=smaller),
        a_job(8, nextWorkerId=3, settled="1", world=smaller),
        a_pod(9, "MODIFIED", 1, going=True, metered=False),
        a_pod(10, "DELETED", 1, going=True, metered=False),
        a_pod(11, worker_id=2),
        a_job(12, nextWorkerId=3, settled="1", phase="Succeeded", world=smaller),
        a_pod(13, "MODIFIED", 2, going=True),
        removed={"uid-2"},
        doomed={1},
    ) == []  # fmt: skip


def test_nothing_is_concluded_from_changes_that_were_missed() -> None:
    """As by a watch that an API server refused with 410 when it was started again."""
    later = a_job(9, nextWorkerId=3, world=a_world(3, "0,2", store="a:3"))
    events = (*BEGINNING, TRAINS, a_pod(7, worker_id=2))

    assert found(*events, replace(later, missed_since=5)) == []
    assert found(*events, later) == [
        "made before its number 2 was stored",
        "the number of the world jumped from 1 to 3",
    ]


@pytest.mark.parametrize(
    ("status", "complaint"),
    [
        ({"nextWorkerId": 1, "world": WORLD}, "nextWorkerId fell from 2 to 1"),
        (
            {"nextWorkerId": 2, "settled": "5", "world": WORLD},
            "settled 5, though only 2 were given out",
        ),
        (
            {"nextWorkerId": 2, "world": a_world(3, "0")},
            "the number of the world jumped from 1 to 3",
        ),
        (
            {"nextWorkerId": 2, "world": a_world(1, "0", store="a:1")},
            "world 1 changed its members: 0-1, 0",
        ),
        (
            {"nextWorkerId": 2, "world": a_world(1, "0-1", store="a:1", entry="Restart")},
            "world 1 changed its entry: Abort, Restart",
        ),
        (
            {"nextWorkerId": 2, "world": a_world(1, "0-1", store="a:1", stateHolders="0")},
            "world 1 changed its stateHolders: None, 0",
        ),
        (
            {"nextWorkerId": 2, "world": a_world(1, "0-1", store="a:1", active=False)},
            "world 1 was active and is prepared again",
        ),
        (
            {"nextWorkerId": 2, "world": a_world(1, "0-1", store="b:9")},
            "world 1 moved from a:1 to b:9",
        ),
        (
            {"nextWorkerId": 2, "world": a_world(2, "0", store="a:1")},
            "the store a:1 is used twice",
        ),
    ],
)
def test_a_status_that_goes_wrong(status: dict[str, Any], complaint: str) -> None:
    assert after(status) == [complaint]


@pytest.mark.parametrize(
    ("first", "then", "complaint"),
    [
        ({"settled": "0-1"}, {"settled": "0"}, "settled shrank from 0-1 to 0"),
        ({"phase": "Succeeded"}, {"phase": "Running"}, "Succeeded became Running"),
        (
            {"world": a_world(2, "0")},
            {"world": a_world(1, "0-1")},
            "the number of the world fell from 2 to 1",
        ),
    ],
)
def test_a_status_that_goes_back(
    first: dict[str, Any], then: dict[str, Any], complaint: str
) -> None:
    known = {"nextWorkerId": 2, "world": WORLD}
    assert after({**known, **first}, {**known, **then}) == [complaint]


def test_only_of_a_world_that_nobody_is_told_of_may_those_with_the_state_be_lost() -> None:
    def changes(members: str, before: str, after: str) -> list[str]:
        told = (a_world(2, members, active=False, stateHolders=kept) for kept in (before, after))
        events = [a_job(n, nextWorkerId=3, world=world) for n, world in enumerate(told, 1)]
        return violations(events, removed=set(), doomed=set())

    assert changes("", "0,2", "0") == []
    assert len(changes("", "0", "0,2")) == 1
    assert len(changes("0,2-3", "0,2", "0")) == 1


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        ([a_pod(6, worker_id=0, uid="another", owner="nobody")], "made without an owner"),
        ([a_pod(6, worker_id=2)], "made before its number 2 was stored"),
        (
            [
                a_job(6, nextWorkerId=3, world=WORLD),
                a_pod(7, worker_id=2),
                a_pod(8, worker_id=2, uid="another"),
            ],
            "a second live pod of worker 2",
        ),
        (
            [a_job(6, nextWorkerId=3, settled="2", world=WORLD), a_pod(7, worker_id=2)],
            "made though its number 2 is settled",
        ),
        (
            [a_pod(6, "DELETED", 1), a_pod(7, worker_id=1, uid="another")],
            "made anew though a world counts on worker 1",
        ),
        (
            [a_pod(6, "MODIFIED", 1, metered=False)],
            "released before worker 1 was settled",
        ),
    ],
)
def test_a_pod_that_should_not_be(events: list[Event], complaint: str) -> None:
    assert found(*BEGINNING, TRAINS, *events) == [complaint]


DELETION = a_pod(6, "MODIFIED", 1, going=True)


def test_the_operator_deletes_no_healthy_worker() -> None:
    complaints = [
        "deleted though the world counts on worker 1",
        "deleted though worker 1 is healthy and wanted",
    ]
    assert found(*BEGINNING, TRAINS, DELETION, removed={"uid-1"}) == complaints
    assert found(*BEGINNING, TRAINS, DELETION) == [], "somebody else did"


@pytest.mark.parametrize(
    "before",
    [
        a_job(5, nextWorkerId=2, suspendedBy=["User"], world=a_world(1, "0-1")),
        a_job(5, nextWorkerId=2, phase="Failed", world=a_world(1, "0-1")),
        a_job(5, nextWorkerId=2, replicas=1, world=a_world(1, "0")),
        a_pod(5, "MODIFIED", 1, phase="Failed"),
        a_job(5, "DELETED", nextWorkerId=2),
        a_job(5, nextWorkerId=2, lost="1", world=a_world(1, "0-1")),
    ],
)
def test_the_operator_may_delete_what_is_not_wanted(before: Event) -> None:
    assert found(*BEGINNING, before, DELETION, removed={"uid-1"}) == []


def test_a_deletion_that_a_list_found_is_that_of_the_worker_in_the_name() -> None:
    found_gone = {"metadata": {"name": "job-abcde-7", "uid": "uid-7"}}
    assert worker_id_of(found_gone) == 7


def test_a_job_whose_deletion_a_list_found_has_lost_nothing() -> None:
    gone = a_job(9, "DELETED")
    assert found(*BEGINNING, TRAINS, replace(gone, missed_since=5)) == []
    assert found(*BEGINNING, TRAINS, gone) != []
