"""Whole replicas that move, where their place has no capacity for the workers that they lack."""

from dataclasses import replace
from decimal import Decimal

import pytest

from spotrun.api.names import Reason
from spotrun.money.charges import Charge, Charges
from spotrun.money.units import UsdPerHour
from spotrun.state.market import PoolFacts
from tests.support.jobs.broken_replicas import (
    DRY,
    RACK,
    ZONE,
    A,
    B,
    a_member,
    broken,
    late,
    let_go,
    made,
    said,
    sends,
)
from tests.support.jobs.builders import JobBuilder, ago, decided_world, later
from tests.support.jobs.placed_workers import lacking

# where the missing worker comes from ------------------------------------------------------------


def test_while_there_may_be_capacity_it_is_asked_beside_its_mate() -> None:
    job = broken(A, B)
    assert (made(job), let_go(job)) == ([(1, 2, ("a",))], [])
    assert (made(late(job, 30)), let_go(late(job, 30))) == ([], [])


@pytest.mark.parametrize(
    ("is_late", "pool"), [(True, A), (False, DRY), (True, DRY)], ids=["late", "dry", "both"]
)
def test_where_there_is_none_the_whole_replica_moves(is_late: bool, pool: PoolFacts) -> None:
    job = broken(pool, B)
    job = late(job) if is_late else job
    first = 5 if is_late else 4
    assert made(job) == [(0, first, ("b",)), (1, first, ("b",))]
    assert let_go(job) == [], "the old workers stay until the new ones are ready"
    what, why = said(job)
    assert what == Reason.REPLICA_MOVED
    assert why == (
        "us-east-1a has no capacity for 1 of the 2 workers of a replica: the whole replica moves "
        "to spot g5.xlarge us-east-1b, because the traffic between its workers is not measured"
    )


def test_with_little_traffic_only_the_missing_worker_comes_from_elsewhere() -> None:
    dear = replace(B, usd_per_hour=Decimal("0.5"))
    job = sends(broken(DRY, dear), 0.01)
    assert made(job) == [(1, 2, ("b",))]
    assert "new ones come from spot g5.xlarge us-east-1b; a move costs $" in said(job)[1]
    assert made(sends(job, 1)) == [(0, 4, ("b",)), (1, 4, ("b",))]


def test_who_waits_in_vain_is_taken_back_and_made_elsewhere_at_once() -> None:
    dear = replace(B, usd_per_hour=Decimal("0.5"))
    job = late(sends(broken(A, dear), 0.01))
    assert (made(job), let_go(job)) == ([(1, 2, ("b",))], [4])


def test_nobody_moves_where_there_is_no_capacity_elsewhere() -> None:
    dry = replace(B, available=False, retry_at=later(600))
    for job in (broken(DRY, dry), broken(DRY), late(broken(DRY, dry))):
        assert let_go(job) == []
        assert {names for _, _, names in made(job)} <= {("a",)}


@pytest.mark.parametrize("zones", ["Single", "Any", "Auto"])
def test_a_job_of_a_single_zone_leaves_it_with_nobody(zones: str) -> None:
    moved = made(broken(DRY, B, placement={"zones": zones}))
    assert (len(moved) == 2) is (zones != "Single")


@pytest.mark.parametrize(("slots", "moves"), [(2, True), (1, False), (0, False)])
def test_it_moves_soon_where_the_scheduler_found_no_node_and_there_is_room_for_all(
    slots: int, moves: bool
) -> None:
    job = late(broken(A, replace(B, free_slots=slots)), seconds=10)
    pod = replace(job.workers[4].pod, unschedulable="0/3 nodes are available: ...")
    job = replace(job, workers={**job.workers, 4: replace(job.workers[4], pod=pod)})
    job = lacking(job, 10)
    assert made(job) == ([(0, 5, ("b",)), (1, 5, ("b",))] if moves else [])
    assert let_go(job) == []


# a required topology ----------------------------------------------------------------------------


def test_a_required_zone_is_never_left_by_a_part_of_a_replica() -> None:
    dear = replace(B, usd_per_hour=Decimal("0.5"))
    placement = {"replicaTopology": {"required": ZONE}}
    job = sends(broken(DRY, dear, placement=placement), 0.01)
    assert [replica for _, replica, _ in made(job)] == [4, 4]


def test_from_a_required_rack_a_replica_moves_to_another_one_of_its_zone() -> None:
    job = late(broken(A, placement={"replicaTopology": {"required": RACK}}))
    for worker_id in (0, 1, 2):
        worker = job.workers[worker_id]
        assert worker.node is not None
        node = replace(worker.node, labels={RACK: "r1"})
        job = replace(job, workers={**job.workers, worker_id: replace(worker, node=node)})
    assert made(job) == [(0, 5, ("a",)), (1, 5, ("a",))]


# until it has moved -----------------------------------------------------------------------------


def begun(*, ready: tuple[bool, bool], is_late: bool = False) -> JobBuilder:
    """A move whose new workers are there, and ready or not."""
    job = late(broken(A, B)) if is_late else broken(A, B)
    for worker_id, is_ready in zip((6, 7), ready, strict=True):
        job = a_member(job, worker_id, B, replica=6, ready=is_ready, ready_for=600)
    return job.with_status(
        next_worker_id=8, settled=job.status.settled.union([3, 5] if is_late else [3, 4, 5])
    )


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("ready", [(False, False), (True, False), (False, True)])
def test_the_old_workers_stay_until_all_new_ones_are_ready(
    ready: tuple[bool, bool], is_late: bool
) -> None:
    job = begun(ready=ready, is_late=is_late)
    assert (made(job), let_go(job)) == ([], [])
    assert decided_world(job) in {
        (1, "0-1", True, job.status.world.entry, None),
        (2, "0-1,6-7", False, "Boundary", "0-1"),
    }


@pytest.mark.parametrize("is_late", [False, True])
def test_then_they_go(is_late: bool) -> None:
    job = begun(ready=(True, True), is_late=is_late)
    assert let_go(job) == ([2, 4] if is_late else [2])
    assert decided_world(job) == (2, "0-1,6-7", True, "Boundary", "0-1")


def test_a_replica_whose_node_came_after_all_stays() -> None:
    job = a_member(begun(ready=(False, False)), 3, A, replica=2, ready=True, ready_for=600)
    job = job.with_status(settled=type(job.status.settled)().union([4, 5]))
    assert (made(job), let_go(job)) == ([], [6, 7])


def test_a_new_replica_that_lost_a_worker_is_completed() -> None:
    job = begun(ready=(True, True)).without(7)
    job = job.with_status(settled=job.status.settled.union([7]))
    assert made(job) == [(1, 2, ("a",))]  # the older one: both lack one


# money ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "moves"), [("2.0", True), ("1.7", False)])
def test_old_and_new_workers_together_cost_no_more_than_the_budget_allows(
    limit: str, moves: bool
) -> None:
    job = broken(DRY, B, budget={"maxUsdPerHour": limit})
    rate = UsdPerHour(Decimal("0.4"))
    book = {n: Charges([Charge(ago(3600), rate, is_spot=True)]) for n in (0, 1, 2)}
    job = job.with_status(accumulators=replace(job.status.accumulators, rates=book))
    assert (len(made(job)) == 2) is moves
