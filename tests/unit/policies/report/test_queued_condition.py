"""Since when a job waits for its turn, whatever its reasons are meanwhile."""

from datetime import datetime

import pytest

from spotrun.api.meta import ConditionStatus
from spotrun.api.names import ConditionType, SuspendedBy
from spotrun.state.conditions import find, holds_since
from spotrun.state.job_state import JobState
from spotrun.state.queue import Queue
from tests.support.jobs.builders import NOW, JobBuilder, a_job, later

NO_ROOM = "0/1 nodes are available"


def since(status: JobState) -> datetime | None:
    return holds_since(status, ConditionType.QUEUED)


def lacks_a_node() -> JobBuilder:
    return a_job(1).with_worker(0, node=None, unschedulable=NO_ROOM)


def in_a_queue(**spec: object) -> JobBuilder:
    return a_job(1, **spec).with_facts(queue=Queue("team", "v1beta2"))


@pytest.mark.parametrize(
    "job",
    [
        lacks_a_node(),
        a_job(1).with_facts(may_hold_nodes=False),
        in_a_queue(),
        in_a_queue().with_status(suspended_by=(SuspendedBy.QUEUE, SuspendedBy.PREEMPTION)),
    ],
    ids=["no node", "behind another gang", "in a queue", "gave way, and in a queue"],
)
def test_a_job_that_waits_says_since_when(job: JobBuilder) -> None:
    first = job.decide().status
    assert since(first) == NOW
    assert since(job.with_state(first).decide(later(3600)).status) == NOW


def test_it_waits_on_while_it_asks_again_and_while_the_reason_changes() -> None:
    waits = a_job(1).with_facts(may_hold_nodes=False).decide().status
    asks = a_job(1).with_worker(0, node=None).with_state(waits).decide(later(60)).status
    assert (asks.reason, since(asks)) == ("WaitingForWorkers", NOW)
    lacks = lacks_a_node().with_state(asks).decide(later(90)).status
    assert (lacks.reason, since(lacks)) == ("WaitingForCapacity", NOW)


def test_it_waits_no_more_once_it_has_its_nodes_and_the_next_time_begins_anew() -> None:
    waits = lacks_a_node().decide().status
    placed = a_job(1).with_worker(0).with_state(waits).decide(later(60)).status
    stated = find(placed, ConditionType.QUEUED)
    assert stated is not None
    assert stated.status is ConditionStatus.FALSE
    assert since(lacks_a_node().with_state(placed).decide(later(90)).status) == later(90)


def test_a_job_that_its_user_suspends_waits_for_nobody() -> None:
    waits = in_a_queue().decide().status
    assert since(in_a_queue(suspend=True).with_state(waits).decide(later(60)).status) is None


def test_nothing_is_said_of_a_job_that_never_waited() -> None:
    for job in (a_job(1), a_job(1).with_worker(0), a_job(1).training(0)):
        assert find(job.decide().status, ConditionType.QUEUED) is None
