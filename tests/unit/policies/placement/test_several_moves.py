"""Several replicas that lack capacity at once, and such beside workers of an older version."""

from cProfile import Profile
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from spotrun.api.field_types.bounded import MAX_MESSAGE_CHARS
from spotrun.api.names import ConditionType
from spotrun.money.charges import Charge, Charges
from spotrun.money.units import UsdPerHour
from spotrun.state.conditions import find
from tests.support.jobs.broken_replicas import (
    DRY,
    ZONE,
    A,
    B,
    a_member,
    broken,
    late,
    let_go,
    made,
    said,
)
from tests.support.jobs.builders import JobBuilder, a_job, ago
from tests.support.jobs.placed_workers import NO_NODE
from tests.support.money.pool_builders import on_market

ZONES = tuple(enumerate("cdefgh", 1))


def unnamed(job: JobBuilder, *worker_ids: int) -> JobBuilder:
    """The same of pods of an older version, which name no replica."""
    workers = {
        name: replace(one, pod=replace(one.pod, replica=None)) if name in worker_ids else one
        for name, one in job.workers.items()
    }
    return replace(job, workers=workers)


def all_settled(job: JobBuilder) -> JobBuilder:
    last = max(job.workers) + 1
    settled = type(job.status.settled)().union(set(range(last)) - job.workers.keys())
    return job.with_status(next_worker_id=last, settled=settled)


# the target of a move lacks capacity as well ----------------------------------------------------


def second_copy(*, is_late: bool, **spec: object) -> JobBuilder:
    """A replica moves to zone b, and only one of its nodes came there."""
    job = broken(A, B, **spec)
    job = late(job) if is_late else broken(DRY, B, **spec)
    job = a_member(job, 6, B, replica=6, ready=True, ready_for=600)
    return all_settled(a_member(job, 7, None, replica=6, pools=("b",)))


@pytest.mark.parametrize("is_late", [False, True])
def test_the_target_of_a_move_does_not_move_on(is_late: bool) -> None:
    job = second_copy(is_late=is_late, placement={"replicaTopology": {"required": ZONE}})
    assert (made(job), let_go(job)) == ([], []), "no third copy keeps its nodes"


def test_what_it_lacks_comes_from_elsewhere_where_it_may() -> None:
    job = second_copy(is_late=True)
    assert (made(job), let_go(job)) == ([(1, 6, ("a",))], [7])


def test_it_waits_where_nowhere_else_is_capacity() -> None:
    job = second_copy(is_late=False)
    assert (made(job), let_go(job)) == ([], [])


# workers of an older version --------------------------------------------------------------------


def test_a_move_ends_though_others_name_no_replica() -> None:
    job = unnamed(late(broken(A, B)), 0, 1)
    for worker_id in (6, 7):
        job = a_member(job, worker_id, B, replica=6, ready=True, ready_for=600)
    job = all_settled(job)
    assert (made(job), let_go(job)) == ([], [2, 4])


def test_a_worker_that_completed_an_unnamed_replica_does_not_move() -> None:
    job = a_member(broken(DRY, B), 3, A, replica=3, ready=True, ready_for=600)
    job = all_settled(unnamed(job, 0, 1, 2))
    assert (made(job), let_go(job)) == ([], [])


# thousands --------------------------------------------------------------------------------------


def stuck_replicas(number: int, stuck: int, **spec: object) -> JobBuilder:
    """A job of so many replicas of two, of which the last each lack a worker in their zone."""
    size = 2 * number
    job = on_market(a_job(size, min=2, max=size, perReplica=2, **spec), DRY, B)
    inside = range(size - 2 * stuck)
    job = job.with_checkpoint().training(*inside)
    for worker_id in range(size):
        replica, is_lost = worker_id // 2 * 2, worker_id not in inside and worker_id % 2
        pool, ready = (None if is_lost else A), not is_lost
        facts: dict[str, Any] = (
            {"arrived": 1} if worker_id in inside else {"ready_for": 600 if ready else None}
        )
        facts |= NO_NODE if is_lost else {}
        job = a_member(job, worker_id, pool, replica=replica, ready=ready, **facts)
    return all_settled(job)


def test_what_is_said_of_hundreds_that_move_is_short() -> None:
    job = stuck_replicas(150, 50)
    decision = job.decide()
    stated = find(decision.status, ConditionType.CAPACITY_AVAILABLE)
    assert stated is not None
    assert "the whole replica moves to" in stated.message
    assert len(stated.message) <= MAX_MESSAGE_CHARS


def test_four_reasons_are_named() -> None:
    dry = [replace(DRY, name=f"dry-{n}", zones=(f"us-east-1{zone}",)) for n, zone in ZONES]
    job = on_market(a_job(14, min=2, max=14, perReplica=2), A, *dry, B)
    job = job.with_checkpoint().training(0, 1)
    for worker_id in (0, 1):
        job = a_member(job, worker_id, A, replica=0, ready=True, arrived=1)
    for (n, _), pool in zip(ZONES, dry, strict=True):
        job = a_member(job, 2 * n, pool, replica=2 * n, ready=True, ready_for=600)
    why = said(all_settled(job))[1]
    assert why.count("has no capacity for 1 of the 2 workers of a replica") == 4
    assert why.endswith("; and 2 more reasons")


def test_what_is_said_of_capacity_is_cut() -> None:
    job = stuck_replicas(2, 1)
    pod = replace(job.workers[3].pod, unschedulable="0/2 nodes are available. " * 500)
    job = replace(job, workers={**job.workers, 3: replace(job.workers[3], pod=pod)})
    stated = find(job.decide().status, ConditionType.CAPACITY_AVAILABLE)
    assert stated is not None
    assert len(stated.message) == MAX_MESSAGE_CHARS


def calls(number: int) -> int:
    """Return how many functions one decision calls where half of so many replicas are stuck."""
    job, profile = stuck_replicas(number, number // 2), Profile()
    profile.runcall(job.decide)
    return sum(entry.callcount for entry in profile.getstats())


def test_a_decision_of_twice_as_many_replicas_takes_about_twice_as_long() -> None:
    assert calls(200) < 2.5 * calls(100)


# money ------------------------------------------------------------------------------------------


BESIDE_4, BESIDE_6 = (1, 4, ("b",)), (1, 6, ("b",))


@pytest.mark.parametrize(
    ("limit", "replicas"),
    [
        ("3.6", [(slot, new, ("b",)) for new in (7, 9) for slot in (0, 1)]),
        ("3.5", [BESIDE_6, (0, 8, ("b",)), (1, 8, ("b",))]),
        ("3.3", [BESIDE_6, (0, 8, ("b",)), (1, 8, ("b",))]),
        ("3.2", [BESIDE_4, BESIDE_6]),
    ],
)
def test_as_many_move_at_once_as_the_budget_pays_for(
    limit: str, replicas: list[tuple[int, int, tuple[str, ...]]]
) -> None:
    job = stuck_replicas(4, 2, budget={"maxUsdPerHour": limit})
    job = all_settled(job.without(5).without(7))
    rate = UsdPerHour(Decimal("0.4"))
    book = {n: Charges([Charge(ago(3600), rate, is_spot=True)]) for n in job.workers}
    job = job.with_status(accumulators=replace(job.status.accumulators, rates=book))
    assert (made(job), let_go(job)) == (replicas, [])
