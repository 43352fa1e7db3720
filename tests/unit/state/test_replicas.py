"""Jobs whose workers hold a copy of the model together: only whole copies train."""

from typing import Any

import pytest

from spotrun.api.names import ConditionType, Reason
from spotrun.api.status import Entry
from spotrun.policies.placement.plan import retiring
from spotrun.state.actions import Create, Remove, Withdraw
from spotrun.state.conditions import state
from spotrun.state.replicas import in_rank_order, new_parts, whole
from spotrun.state.sizes import SizeLimit
from spotrun.state.snapshot import Node
from spotrun.state.stored.training import Progress
from spotrun.wire import Failure
from tests.support.jobs.builders import (
    ON_CLAIM,
    JobBuilder,
    a_job,
    a_spec,
    a_spot_node,
    a_worker,
    ago,
    decided_world,
)
from tests.support.money.pool_builders import a_node_of, a_spot_pool, an_on_demand_pool, on_market

SPEC = {"min": 2, "max": 8, "perReplica": 2}
WORKERS = a_spec(4, **SPEC).workers


def pairs(workers: int = 4, **spec: Any) -> JobBuilder:
    """A job of copies in two parts each."""
    return a_job(workers, min=2, max=8, perReplica=2, **spec)


def training(job: JobBuilder, *worker_ids: int, **worker: Any) -> JobBuilder:
    """Workers with even numbers hold the first part, those with odd ones the second."""
    job = job.training(*worker_ids)
    for worker_id in worker_ids:
        job = job.with_worker(worker_id, ready=True, arrived=1, slot=worker_id % 2, **worker)
    return job


def lost(job: JobBuilder, *worker_ids: int) -> JobBuilder:
    for worker_id in worker_ids:
        job = job.with_worker(worker_id, node=Node("n", gone=True), slot=worker_id % 2)
    return job.with_facts(lost_seconds=dict.fromkeys(worker_ids, 0.3))


@pytest.mark.parametrize(
    ("slots", "members"),
    [
        ({0: 0, 1: 1, 2: 0, 3: 1}, "0-3"),
        ({0: 0, 1: 0, 2: 1, 3: 1}, "0,2,1,3"),
        ({0: 1, 1: 0, 2: 1, 3: 0}, "1,0,3,2"),
    ],
)
def test_neighbouring_ranks_hold_one_copy_part_by_part(slots: dict[int, int], members: str) -> None:
    job = pairs()
    for worker_id, slot in slots.items():
        job = job.with_worker(worker_id, ready=True, slot=slot)
    assert decided_world(job) == (1, members, True, Entry.RESTART, None)


def test_parts_of_a_copy_are_near_each_other_where_that_can_be() -> None:
    places = ["b", "a", "a", "b"]
    workers = [
        a_worker(worker_id, node=a_spot_node(f"n{worker_id}", zone), slot=worker_id // 2)
        for worker_id, zone in enumerate(places)
    ]
    ordered = in_rank_order(workers, WORKERS)
    assert [worker.worker_id for worker in ordered] == [1, 2, 0, 3]


def test_workers_that_hold_the_same_part_make_up_no_copy() -> None:
    job = pairs()
    for worker_id in range(3):
        job = job.with_worker(worker_id, ready=True, ready_for=60, slot=0)
    assert decided_world(job) is None


@pytest.mark.parametrize(
    ("slots", "chosen"),
    [
        ([], []),
        ([0, 0], []),
        ([0, 1], [0, 1]),
        ([0, 0, 1], [0, 2]),
        ([1, 1, 0, 1, 0], [0, 1, 2, 4]),
        ([0, 1, 0, 1, 0, 1], [0, 1, 2, 3]),  # four are wanted
    ],
)
def test_of_each_part_the_first_come_first(slots: list[int], chosen: list[int]) -> None:
    candidates = [a_worker(worker_id, slot=slot) for worker_id, slot in enumerate(slots)]
    assert [worker.worker_id for worker in whole(a_job(4, **SPEC).view(), candidates)] == chosen


@pytest.mark.parametrize(("limit", "chosen"), [(6, 6), (5, 4), (1, 2)])
def test_a_world_is_no_larger_than_a_limit_leaves_and_no_smaller_than_the_least(
    limit: int, chosen: int
) -> None:
    view = a_job(8, **SPEC).view().limited(SizeLimit(Reason.RATE_LIMITED, limit))
    candidates = [a_worker(worker_id, slot=worker_id % 2) for worker_id in range(8)]
    assert len(whole(view, candidates)) == chosen


@pytest.mark.parametrize(
    ("there", "number", "slots"),
    [([], 4, [0, 1, 0, 1]), ([0, 1, 0], 1, [1]), ([1, 1], 3, [0, 0, 0]), ([0, 1], 1, [0])],
)
def test_new_workers_hold_the_parts_that_fewest_hold(
    there: list[int], number: int, slots: list[int]
) -> None:
    staying = [a_worker(worker_id, slot=slot) for worker_id, slot in enumerate(there)]
    assert [part.slot for part in new_parts(staying, WORKERS, number)] == slots


# loss -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "others", "survivors"),
    [(0, "2,1", "1-3"), (1, "0,3", "0,2-3"), (2, "0-1", "0-1,3"), (3, "0-1", "0-2")],
)
def test_one_copy_goes_on_and_who_is_left_over_waits_for_a_new_mate(
    one: int, others: str, survivors: str
) -> None:
    job = lost(training(pairs(), 0, 1, 2, 3), one)
    assert decided_world(job) == (2, others, True, Entry.ABORT, survivors)
    after = job.with_state(job.decide().status).without(one).decide().actions
    new = [action for action in after if isinstance(action, Create)]
    assert [(action.worker_id, action.slot) for action in new] == [(4, one % 2)]
    assert not [action for action in after if isinstance(action, Remove)]


def test_mates_of_two_lost_workers_make_up_a_copy() -> None:
    job = lost(training(pairs(), 0, 1, 2, 3), 0, 3)
    assert decided_world(job) == (2, "2,1", True, Entry.ABORT, "1-2")


def test_a_warm_spare_completes_the_copy_at_once() -> None:
    job = training(pairs(), 0, 1, 2, 3).with_worker(4, ready=True, slot=1)
    assert decided_world(lost(job, 3)) == (2, "0-2,4", True, Entry.ABORT, "0-2")


def test_a_part_that_nobody_holds_any_more_comes_from_the_checkpoint() -> None:
    job = lost(training(pairs().with_checkpoint(50), 0, 1, 2, 3), 1, 3)
    assert decided_world(job) == (2, "", False, Entry.RESTART, "0,2")
    decision = job.decide()
    assert "a part of the model is lost with them" in str(decision.status.decisions)
    job = job.with_status(world=decision.status.world).without(1).without(3)
    job = job.with_worker(5, ready=True, slot=1).with_worker(7, ready=True, slot=1)
    new = job.decide().status.world
    assert (new.members, new.entry, new.restore) == ((0, 5, 2, 7), Entry.RESTART, "step-50.g1")


def test_who_was_left_out_cannot_stand_in_for_a_part_that_is_lost() -> None:
    job = training(pairs().with_checkpoint(50), 0, 1, 2)
    job = job.with_world("0-1", 2, entry=Entry.ABORT, state_holders="0-2", store="s:1")
    for worker_id in (0, 1):
        job = job.with_worker(worker_id, ready=True, arrived=2, slot=worker_id)
    new = lost(job, 0).decide().status.world
    assert (new.members, new.entry, new.restore) == ((2, 1), Entry.RESTART, "step-50.g1")


def test_who_is_about_to_be_left_out_still_holds_its_part() -> None:
    job = training(pairs(), 0, 1, 2, 3).with_worker(4, ready=False, slot=1)
    job = job.with_world(
        "0-2,4", 2, is_active=False, entry=Entry.BOUNDARY, state_holders="0-3", training_number=1
    )
    assert decided_world(lost(job, 1)) == (3, "0,3", True, Entry.ABORT, "0,2-3")


def test_where_a_process_failed_those_go_on_who_hold_all_parts() -> None:
    job = training(pairs(), 0, 1, 2, 3)
    failure = Failure(1, 1, "boom")
    job = job.with_worker(1, ready=False, arrived=1, failed=failure, slot=1)
    assert decided_world(job) == (2, "0,3", True, Entry.ABORT, "0,2-3")


def test_of_three_replicas_those_go_on_that_are_whole() -> None:
    job = a_job(6, min=2, max=8, perReplica=2).training(*range(6))
    for worker_id in range(6):
        replica, slot = worker_id // 2 * 2, worker_id % 2
        job = job.with_worker(worker_id, ready=True, arrived=1, slot=slot, replica=replica)
    job = job.with_worker(3, node=Node("n", gone=True), slot=1, replica=2)
    new = job.with_facts(lost_seconds={3: 0.3}).decide().status.world
    assert new.members == (0, 1, 4, 5), "worker 2 waits for its new mate"


def test_a_job_starts_with_the_replicas_that_are_whole() -> None:
    job = pairs(2)
    for worker_id, replica, slot in ((0, 0, 0), (2, 2, 0), (3, 2, 1)):
        job = job.with_worker(worker_id, ready=True, slot=slot, replica=replica)
    assert job.decide().status.world.members == (2, 3)


@pytest.mark.parametrize(
    ("zones", "members"),
    [("abbc", [0, 3, 1, 2]), ("abab", [0, 2, 1, 3]), ("abcd", [0, 2, 1, 3])],
)
def test_who_was_placed_beside_nobody_trains_with_those_of_its_zone(
    zones: str, members: list[int]
) -> None:
    workers = [
        a_worker(worker_id, node=a_spot_node(f"n{worker_id}", zone), slot=worker_id // 2)
        for worker_id, zone in enumerate(zones)
    ]
    assert [worker.worker_id for worker in in_rank_order(workers, WORKERS)] == members


# growth -----------------------------------------------------------------------------------------


def test_the_mate_and_its_new_partner_join_together() -> None:
    job = training(pairs(), 0, 1).with_worker(2, ready=True, arrived=0, slot=0, ready_for=60)
    assert decided_world(job) == (1, "0-1", True, Entry.RESTART, None)  # the mate alone is no copy
    job = job.with_worker(4, ready=False, slot=1)
    assert decided_world(job) == (2, "0-2,4", False, Entry.BOUNDARY, "0-1")
    job = job.with_worker(4, ready=True, ready_for=60, slot=1)
    assert decided_world(job) == (2, "0-2,4", True, Entry.BOUNDARY, "0-1")


def test_a_worker_under_notice_is_replaced_by_one_with_the_same_part() -> None:
    leaving = {"ready": True, "arrived": 1, "slot": 1, "leaves_in": 120}
    job = training(pairs(), 0, 1, 2, 3).with_worker(3, **leaving)
    decision = job.decide()
    assert decision.actions == (Create(4, ("node-3",), slot=1, replica=4),)
    job = job.with_state(decision.status)
    job = job.with_worker(4, ready=True, ready_for=60, slot=1)
    assert decided_world(job) == (2, "0-2,4", True, Entry.BOUNDARY, "0-3")


def test_the_only_holder_of_a_part_leaves_once_that_is_saved() -> None:
    leaving = {"ready": True, "arrived": 1, "slot": 1, "leaves_in": 120}
    job = training(pairs(2, checkpoint=ON_CLAIM), 0, 1).with_worker(1, **leaving)
    job = job.with_worker(2, ready=True, ready_for=60, slot=1).with_status(
        progress=Progress(step=100)
    )
    orders = job.decide().status.orders
    assert orders is not None
    assert (decided_world(job), orders.checkpoint) == ((1, "0-1", True, Entry.RESTART, None), 1)
    job = job.with_checkpoint(100, seconds_ago=0)
    assert decided_world(job) == (2, "0,2", True, Entry.RESTART, "0-1")


def test_holders_of_a_part_who_all_leave_hand_it_over_in_two_steps() -> None:
    job = training(pairs(), 0, 1, 2, 3)
    for worker_id in (1, 3):
        job = job.with_worker(worker_id, ready=True, arrived=1, slot=1, leaves_in=120)
    job = job.with_worker(4, ready=True, ready_for=60, slot=1)
    job = job.with_worker(5, ready=True, ready_for=60, slot=1)
    assert decided_world(job) == (2, "0-2,4", True, Entry.BOUNDARY, "0-3")


def test_fewer_are_wanted_of_each_part() -> None:
    job = training(pairs(), 0, 1, 2, 3).with_spec(2, min=2, max=8, perReplica=2)
    assert decided_world(job) == (2, "0-1", True, Entry.BOUNDARY, "0-3")
    job = training(job, 0, 1)
    for worker_id in (2, 3):
        job = job.with_worker(worker_id, ready=True, slot=worker_id % 2)
    removed = [action.worker_id for action in job.decide().actions if isinstance(action, Remove)]
    assert removed == [2, 3]


def test_workers_of_one_part_only_are_replaced_where_others_are_missing() -> None:
    job = training(pairs(), 0, 1)
    for worker_id in (2, 4):
        job = job.with_worker(worker_id, ready=True, slot=0)
    decision = job.decide()
    assert [action for action in decision.actions if isinstance(action, Remove)] == [
        action for action in decision.actions if getattr(action, "worker_id", 0) == 4
    ]


def test_too_many_of_one_part_who_hold_the_state_take_no_place_of_another_part() -> None:
    job = a_job(4, min=4, max=4, perReplica=2)
    for worker_id, slot in {0: 0, 1: 1, 3: 1, 5: 1}.items():
        job = job.with_worker(worker_id, ready=True, arrived=1, slot=slot)
    job = job.with_world("", 2, is_active=False, state_holders="0-1,3,5")
    decision = job.decide()
    assert [(a.worker_id, a.slot) for a in decision.actions if isinstance(a, Create)] == [(2, 0)]
    again = job.with_state(decision.status).decide()
    assert (again.status.settled, again.actions) == (decision.status.settled, decision.actions)


# capacity ---------------------------------------------------------------------------------------

SPOT, OD = a_spot_pool(), an_on_demand_pool()


def test_who_is_asked_from_elsewhere_gets_the_part_of_whom_it_replaces() -> None:
    job = on_market(pairs(4, placement={"fallbackAfter": "1m"}), SPOT, OD)
    for worker_id, slot in ((0, 0), (1, 1), (2, 0)):
        node = a_node_of(SPOT, worker_id, ago(3600))
        job = job.with_worker(worker_id, ready=True, arrived=1, node=node, slot=slot)
    job = job.with_world("0-1", formed=60).with_status(next_worker_id=4)
    job = job.with_worker(
        3, node=None, slot=1, asked=SPOT.capacity, pools=("spot",), created_at=ago(120)
    )
    kind, short = ConditionType.CAPACITY_AVAILABLE, Reason.WAITING_FOR_CAPACITY
    since = state(job.view(ago(120)), job.status, kind, short, "", holds=False)
    job = job.with_status(conditions=since.conditions)

    first = job.decide()

    assert [a.worker_id for a in first.actions if isinstance(a, Withdraw)] == [3]
    made = [a for a in first.actions if isinstance(a, Create)]
    assert [(a.slot, a.place.capacity) for a in made] == [(1, OD.capacity)]


def test_a_joining_worker_that_is_to_be_given_back_takes_no_place() -> None:
    job = on_market(pairs(8, checkpoint=ON_CLAIM).with_checkpoint(), SPOT, OD)
    for worker_id in range(7):
        node = a_node_of(OD, worker_id, ago(7 * 3600))
        job = job.with_worker(
            worker_id,
            ready=True,
            ready_for=6 * 3600,
            arrived=int(worker_id < 6),
            node=node,
            slot=worker_id % 2,
            created_at=ago(7 * 3600),
        )
    job = job.with_world("0-5", formed=3600).with_status(next_worker_id=9)
    for worker_id, slot in ((7, 1), (8, 1)):
        job = job.with_worker(
            worker_id, node=None, slot=slot, asked=SPOT.capacity, pools=("spot",), created_at=ago(5)
        )

    decision = job.decide()

    assert 6 in retiring(job.view(), decision.status, 8)
    world = decision.status.world
    assert (world.number, world.members) == (1, (0, 1, 2, 3, 4, 5))
