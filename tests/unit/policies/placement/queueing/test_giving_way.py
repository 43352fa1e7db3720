"""A job gives way to one of higher priority, keeps to that, and gets its room back."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from spotrun.api.names import Phase, SuspendedBy
from spotrun.money.units import Usd
from spotrun.policies.placement.queueing.giving_way import (
    LONGEST_HOLD,
    REST,
    began_to_give,
    claimed_workers,
    rests,
    waits_for_room,
)
from spotrun.state.actions import Remove
from spotrun.state.market import Market, PoolFacts
from spotrun.state.queue import Queue
from spotrun.state.sizes import Order, Precedence, Preemptor, RoomMade
from spotrun.state.snapshot import Refusal
from spotrun.state.stored.workers import GivenWay
from tests.support.jobs.builders import NOW, ON_CLAIM, JobBuilder, a_job, ago

SHRINK = Order("ns/high", "u", 2, "ns/high lacks nodes for 2 workers", Usd(Decimal("1.5")))
STOP = replace(SHRINK, workers=0)
LOW = a_job(4, min=1, checkpoint=ON_CLAIM).training(0, 1, 2, 3)
FULL = {"node": None, "unschedulable": "0/3 nodes are available"}
HIGH = a_job(2, min=2, priority=1, placement={"preempts": "LowerPriority"})


def told(job: JobBuilder, **facts: object) -> JobBuilder:
    return job.with_facts(precedence=Precedence(**facts))  # type: ignore[arg-type]


def gave(job: JobBuilder, workers: int, seconds_ago: float) -> JobBuilder:
    given = GivenWay("ns/high", "u", workers, ago(seconds_ago))
    by = None if workers else (SuspendedBy.PREEMPTION,)
    return job.with_status(gives_way=given, suspended_by=by)


def test_who_is_to_shrink_keeps_so_many_and_says_why() -> None:
    decision = told(LOW, order=SHRINK).decide()
    status = decision.status
    assert status.gives_way == GivenWay("ns/high", "u", 2, NOW)
    assert not status.suspended_by
    assert len(status.world.members) == 2
    assert status.decisions[0].why == "ns/high lacks nodes for 2 workers"
    assert status.decisions[0].numbers == {"workers": "2", "interruptionUsd": "1.50"}
    assert began_to_give(LOW.snapshot().status, status) == status.gives_way
    assert began_to_give(status, status) is None


def test_who_is_to_give_all_saves_before_its_workers_go() -> None:
    decision = told(LOW, order=STOP).decide()
    status = decision.status
    assert (status.phase, status.suspended_by) == (Phase.SUSPENDED, (SuspendedBy.PREEMPTION,))
    assert status.orders.checkpoint == 1
    assert not any(isinstance(action, Remove) for action in decision.actions)
    assert status.message is not None
    assert "job ns/high of higher priority needs the room" in status.message


def test_an_order_is_told_once() -> None:
    first = told(LOW, order=SHRINK).decide().status
    again = told(LOW.with_state(first), order=SHRINK, preemptor=Preemptor.WAITS).decide().status
    assert again.gives_way == first.gives_way
    assert again.decisions == first.decisions


ROOM = Market((PoolFacts("p", free_slots=2),))


@pytest.mark.parametrize(
    ("preemptor", "seconds", "market", "is_back"),
    [
        (Preemptor.WAITS, 100_000.0, ROOM, False),
        (Preemptor.IS_GONE, REST.seconds - 1.0, ROOM, False),
        (Preemptor.IS_GONE, REST.seconds + 0.0, Market(), True),
        (Preemptor.HAS_ROOM, REST.seconds + 0.0, Market(), False),
        (Preemptor.HAS_ROOM, REST.seconds + 0.0, ROOM, True),
        (Preemptor.HAS_ROOM, LONGEST_HOLD.seconds + 0.0, Market(), True),
    ],
)
@pytest.mark.parametrize("kept", [0, 2])
def test_a_job_gets_its_room_back_when_it_is_there_and_not_too_soon(
    preemptor: Preemptor, seconds: float, market: Market, is_back: bool, kept: int
) -> None:
    job = gave(a_job(4, min=1), kept, seconds).with_facts(market=market)
    status = told(job, preemptor=preemptor).decide().status
    assert status.gives_way is not None
    assert (status.gives_way.until == NOW) is is_back
    assert (status.suspended_by is None) is (is_back or kept > 0)
    assert any("all of its workers again" in one.why for one in status.decisions) is is_back


def test_who_got_its_room_back_keeps_it_for_a_while_and_then_it_is_forgotten() -> None:
    given = GivenWay("ns/high", "u", 2, ago(500), until=ago(REST.seconds - 1.0))
    assert rests(given, NOW)
    assert not rests(given, NOW + timedelta(seconds=1))
    assert not rests(replace(given, until=None), NOW)
    kept = LOW.with_status(gives_way=given)
    assert kept.decide().status.gives_way == given
    old = replace(given, until=ago(REST.seconds + 0.0))
    assert LOW.with_status(gives_way=old).decide().status.gives_way is None


def test_a_job_of_lower_priority_does_not_grow_into_what_becomes_free() -> None:
    job = a_job(4, min=1).training(0, 1)
    assert job.decide().status.next_worker_id == 4
    assert told(job, grows_after="ns/high").decide().status.next_worker_id == 2
    asks = told(job.with_worker(2, **FULL), grows_after="ns/high").decide()
    gone = [action.worker_id for action in asks.actions if isinstance(action, Remove)]
    assert gone == [2], "it would take the node that becomes free"


def test_a_job_claims_what_its_smallest_world_lacks() -> None:
    half = HIGH.with_worker(0).with_worker(1, **FULL)
    assert claimed_workers(half.snapshot()) == 1
    quiet = (
        HIGH.with_workers(0, 1),
        HIGH.with_worker(0).with_worker(1, node=None),
        HIGH.with_worker(0, **FULL).with_worker(1, node=None),
        HIGH.with_worker(0, **FULL),
        HIGH.with_worker(0).with_worker(1, **FULL, is_nominated=True),
        HIGH.with_worker(0, **FULL).with_worker(1, **FULL, is_nominated=True),
        half.with_facts(may_hold_nodes=False),
        half.with_facts(refusal=Refusal("QuotaExceeded", "exceeded quota: few")),
        half.with_spec(2, min=2, priority=1),
        half.with_spec(2, min=2, suspend=True, placement={"preempts": "LowerPriority"}),
    )
    assert [claimed_workers(one.snapshot()) for one in quiet] == [0] * len(quiet)
    assert waits_for_room(HIGH.snapshot()), "its pods may not have been tried yet"


def test_a_job_in_a_queue_is_told_once_that_kueue_decides() -> None:
    queued = HIGH.with_facts(queue=Queue("team", "v1beta2"))
    first = queued.decide().status
    (words,) = [one.why for one in first.decisions if one.what == "MakesRoom"]
    assert "Kueue decides which jobs give way to jobs of queue team" in words
    assert queued.with_state(first).decide().status.decisions == first.decisions
    never = queued.with_spec(2, min=2, priority=1).decide().status
    assert not any(one.what == "MakesRoom" for one in never.decisions)


def test_it_is_told_once_who_makes_room_or_why_nobody_does() -> None:
    made = RoomMade(NOW, "ns/low shrinks", 1)
    half = HIGH.with_worker(0).with_worker(1, **FULL)
    first = told(half, made=made).decide().status
    assert [one.why for one in first.decisions if one.what == "MakesRoom"] == ["ns/low shrinks"]
    assert told(half.with_state(first), made=made).decide().status.decisions == first.decisions
    nobody = told(half, made=RoomMade(NOW, "nobody")).decide().status
    later = RoomMade(NOW + timedelta(seconds=10), "nobody")
    again = told(half.with_state(nobody), made=later).decide().status
    assert again.decisions == nobody.decisions
