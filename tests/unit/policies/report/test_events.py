"""Which changes of status people are told of."""

from dataclasses import replace
from typing import Any

import pytest

from spotrun.api.field_types.text_values import Time, WorkerIds
from spotrun.api.meta import ConditionStatus, ReasonText
from spotrun.api.names import Phase, Reason, SuspendedBy
from spotrun.api.status import Entry
from spotrun.policies.report.events import announcements
from spotrun.state.actions import Announce
from spotrun.state.job_state import JobState, World
from spotrun.state.stored.failures import HeldBack, JoiningWorkers, Rejections, Restarts
from spotrun.state.stored.statements import Condition, RecordedDecision
from spotrun.state.stored.workers import Interruption, Interruptions
from tests.support.jobs.builders import NOW, later

WHEN = Time.of(NOW)


def status(**fields: Any) -> JobState:
    return JobState(**fields)


def world(world_number: int = 1, members: str = "0-1", *, is_active: bool = True) -> World:
    return World(
        number=world_number,
        members=WorkerIds(members).numbers,
        is_active=is_active,
        entry=Entry.ABORT,
    )


def condition(kind: str, holds: bool, reason: str, message: str) -> Condition:
    value = ConditionStatus.TRUE if holds else ConditionStatus.FALSE
    return Condition(
        type=ReasonText(kind),
        status=value,
        last_transition_time=WHEN.datetime,
        reason=ReasonText(reason),
        message=message,
    )


def interruptions(count: int) -> Interruptions:
    last = Interruption(time=WHEN.datetime, worker=4, reason="Reclaimed", node="n1")
    return Interruptions(count=count, last=last)


def rejections(worker: int) -> Rejections:
    return Rejections(count=1, worker=worker, retry_at=NOW, message="OutOfcpu: no")


def held_back(times: int, seconds: float, **restarts: Any) -> Restarts:
    joining_workers = JoiningWorkers(
        failures=times,
        retry_at=later(seconds),
        held=(HeldBack((3,), world=2),),
    )
    return Restarts(joining_workers=joining_workers, blamed=("n1",) * times, **restarts)


HOLD_BACK = (
    RecordedDecision(
        WHEN.datetime, what="HoldBack", why="worker 3 failed", numbers={"reason": "OOMKilled"}
    ),
    RecordedDecision(WHEN.datetime, what="World", why="another"),
)
LOST = (RecordedDecision(WHEN.datetime, what="World", why="1 of 3 workers are gone"),)
REFUSED = condition("TemplateAccepted", False, "TemplateRefused", "exceeded quota")
SUSPENDED = condition("Suspended", True, "OutsideSchedule", "Schedule: not before 20:00")

CHANGES = [
    pytest.param(status(), status(phase=Phase.PENDING, next_worker_id=2), [], id="a start"),
    pytest.param(
        status(),
        status(world=world(), decisions=LOST),
        [(Reason.TRAINING, "world 1: 2 workers, entered by Abort; 1 of 3 workers are gone", False)],
        id="a world",
    ),
    pytest.param(status(), status(world=world(is_active=False)), [], id="a world in preparation"),
    pytest.param(
        status(world=world(is_active=False)),
        status(world=world()),
        [(Reason.TRAINING, "world 1: 2 workers, entered by Abort", False)],
        id="a world that was prepared",
    ),
    pytest.param(status(world=world()), status(world=world()), [], id="the same world"),
    pytest.param(
        status(interruptions=interruptions(1)),
        status(interruptions=interruptions(3)),
        [(Reason.RECLAIMED, "worker 4 on node n1 was taken away, and 1 more", True)],
        id="interruptions",
    ),
    pytest.param(
        status(),
        status(
            restarts=Restarts(failures=1, last_reason="OOMKilled", last_exit_code=137, retry_at=NOW)
        ),
        [(Reason.OOM_KILLED, f"failure 1, exit code 137; the next attempt is at {WHEN}", True)],
        id="a failure",
    ),
    pytest.param(
        status(restarts=Restarts(failures=1, counted_since=NOW)),
        status(restarts=held_back(1, 10, failures=1, counted_since=NOW), decisions=HOLD_BACK),
        [
            (
                Reason.OOM_KILLED,
                f"worker 3 failed; the next attempt is at {Time.of(later(10))}",
                True,
            )
        ],
        id="a joining worker that fails is none of the failures",
    ),
    pytest.param(
        status(restarts=held_back(1, 10)),
        status(restarts=held_back(2, 10), decisions=HOLD_BACK),
        [],
        id="another joining worker in the same pause",
    ),
    pytest.param(
        status(restarts=held_back(7, 10)),
        status(restarts=held_back(8, 400), decisions=HOLD_BACK),
        [],
        id="joining workers that fail for hours",
    ),
    pytest.param(
        status(),
        status(rejections=rejections(1)),
        [(Reason.REJECTED, "OutOfcpu: no", True)],
        id="a rejection",
    ),
    pytest.param(
        status(rejections=rejections(1)),
        status(rejections=rejections(2)),
        [],
        id="others in the same pause",
    ),
    pytest.param(
        status(),
        status(conditions=(REFUSED,)),
        [(Reason.TEMPLATE_REFUSED, "exceeded quota", True)],
        id="a refusal",
    ),
    pytest.param(
        status(conditions=(REFUSED,)),
        status(conditions=(replace(REFUSED, message="exceeded quota again"),)),
        [],
        id="a refusal in other words",
    ),
    pytest.param(
        status(),
        status(suspended_by=(SuspendedBy.SCHEDULE,), conditions=(SUSPENDED,)),
        [(Reason.OUTSIDE_SCHEDULE, "Schedule: not before 20:00", False)],
        id="a suspension",
    ),
    pytest.param(
        status(suspended_by=(SuspendedBy.USER,)),
        status(),
        [(Reason.TRAINING, "the job continues", False)],
        id="its end",
    ),
    pytest.param(
        status(phase=Phase.RUNNING),
        status(phase=Phase.RECOVERING, reason="WaitingForCapacity", message="0 of 2"),
        [(Reason.WAITING_FOR_CAPACITY, "0 of 2", True)],
        id="too few are left",
    ),
    pytest.param(
        status(phase=Phase.RUNNING),
        status(phase=Phase.SUCCEEDED, reason="Completed", message="done"),
        [(Reason.COMPLETED, "done", False)],
        id="success",
    ),
    pytest.param(
        status(phase=Phase.RUNNING),
        status(
            phase=Phase.FAILED,
            reason="TooManyRestarts",
            message="four times",
            restarts=Restarts(failures=4),
        ),
        [(Reason.TOO_MANY_RESTARTS, "four times", True)],
        id="failure, said once",
    ),
    pytest.param(
        status(phase=Phase.RUNNING),
        status(phase=Phase.FAILED, reason="OfTomorrow", message="?"),
        [(Reason.EXIT_CODE, "?", True)],
        id="a reason that this operator does not know",
    ),
]


@pytest.mark.parametrize(("old", "new", "reported"), CHANGES)
def test_what_is_told(
    old: JobState, new: JobState, reported: list[tuple[Reason, str, bool]]
) -> None:
    assert announcements(old, new) == tuple(Announce(*one) for one in reported)


def test_a_placement_is_told_once_with_its_prices() -> None:
    words = "spot g5.xlarge a $0.40/h, expected $0.42 with interruptions"
    after = status(decisions=(RecordedDecision(WHEN.datetime, what="Placed", why=words),))
    assert announcements(status(), after) == (Announce(Reason.PLACED, words),)
    assert announcements(after, after) == ()


def test_a_deadline_that_cannot_be_met_is_told_once() -> None:
    late = status(conditions=(condition("OnSchedule", False, "DeadlineAtRisk", "2 h late"),))
    reported = Announce(Reason.DEADLINE_AT_RISK, "2 h late", is_warning=True)
    assert announcements(status(), late) == (reported,)
    assert announcements(late, late) == ()


def test_both_sides_of_a_preemption_are_told() -> None:
    words = "job ns/high of priority 9 lacks nodes for 1 workers"
    gives = decided(Reason.GIVES_WAY, words)
    assert announcements(JobState(), gives) == (Announce(Reason.GIVES_WAY, words),)
    assert announcements(gives, gives) == ()
    made = "1 workers lack nodes, and jobs of lower priority give way: ns/low is suspended"
    takes = decided(Reason.MAKES_ROOM, made)
    assert announcements(JobState(), takes) == (Announce(Reason.MAKES_ROOM, made),)


def test_of_a_job_that_is_suspended_to_give_way_its_suspension_tells() -> None:
    held = replace(
        decided(Reason.GIVES_WAY, "why"),
        suspended_by=(SuspendedBy.PREEMPTION,),
        conditions=(
            condition("Suspended", True, "GivesWay", "Preemption: job ns/high comes first"),
        ),
    )
    assert announcements(JobState(), held) == (
        Announce(Reason.GIVES_WAY, "Preemption: job ns/high comes first"),
    )


def decided(what: Reason, why: str) -> JobState:
    return JobState(decisions=(RecordedDecision(time=NOW, what=what.value, why=why, numbers={}),))
