"""Where the workers of a replica are asked for: beside the others, or all in one zone."""

from typing import Any

import pytest

from spotrun.state.actions import Create, Near
from spotrun.state.market import PoolFacts
from spotrun.state.snapshot import Node
from tests.support.jobs.builders import JobBuilder, a_job, ago, later
from tests.support.money.pool_builders import a_node_of, a_spot_pool, on_market

ZONE, RACK = "topology.kubernetes.io/zone", "example.com/rack"
A, B = a_spot_pool("a", 0.4), a_spot_pool("b", 0.3)  # b is cheaper


def pairs(workers: int, *pools: PoolFacts, **placement: Any) -> JobBuilder:
    spec = {"min": 2, "max": 8, "perReplica": 2, "placement": placement}
    return on_market(a_job(workers, **spec), *pools)


def placed(
    job: JobBuilder, worker_id: int, replica: int, pool: PoolFacts, **node: Any
) -> JobBuilder:
    """Return the job with a worker of a replica on a node of a pool; its number says its slot."""
    return job.with_worker(
        worker_id,
        node=a_node_of(pool, worker_id, ago(3600), **node),
        slot=worker_id % 2,
        replica=replica,
        asked=pool.capacity,
    )


def asked(job: JobBuilder) -> list[tuple[int, int | None, tuple[str, ...]]]:
    """Return slot, replica and pools of each worker that is made."""
    made = [action for action in job.decide().actions if isinstance(action, Create)]
    return [(one.slot, one.replica, one.place.required) for one in made]


def room(pool: PoolFacts, slots: int) -> PoolFacts:
    return a_spot_pool(pool.name, float(pool.usd_per_hour or 0), free_slots=slots)


@pytest.mark.parametrize("mates_in", [A, B])
def test_a_missing_worker_is_asked_from_the_zone_of_its_mate(mates_in: PoolFacts) -> None:
    job = placed(pairs(2, A, B), 0, 0, mates_in)
    assert asked(job) == [(1, 0, (mates_in.name,))]


def test_each_missing_worker_goes_to_the_replica_that_lacks_it() -> None:
    job = placed(placed(pairs(4, A, B), 0, 0, A), 3, 2, B)
    assert asked(job) == [(0, 2, ("b",)), (1, 0, ("a",))]


def test_it_goes_there_though_a_node_was_just_lost_there() -> None:
    lost = a_spot_pool("a", 0.4, last_interruption_at=ago(60))
    assert asked(placed(pairs(2, lost, B), 0, 0, A)) == [(1, 0, ("a",))]


def test_new_replicas_are_named_by_the_first_of_their_workers() -> None:
    named = [(slot, replica) for slot, replica, _ in asked(pairs(4, A, B))]
    assert named == [(0, 0), (1, 0), (0, 2), (1, 2)]


@pytest.mark.parametrize(
    ("pools", "expected"),
    [
        pytest.param((room(A, 2), room(B, 1)), [("a",), ("a",)], id="room for all in a"),
        pytest.param((room(A, 3), room(B, 2)), [("b",), ("b",)], id="in both: the cheaper one"),
        pytest.param((room(A, 1), B), [("a",), ("a",)], id="room for one: its mate follows it"),
        pytest.param((A, B), [("b", "a"), ("b", "a")], id="no room: autoscalers choose"),
    ],
)
def test_a_new_replica_goes_where_there_is_room_for_all_of_it(
    pools: tuple[PoolFacts, ...], expected: list[tuple[str, ...]]
) -> None:
    assert [names for _, _, names in asked(pairs(2, *pools))] == expected


def test_two_replicas_take_the_room_of_two_zones() -> None:
    job = pairs(4, room(A, 2), room(B, 2))
    assert [names for _, _, names in asked(job)] == [("b",), ("b",), ("a",), ("a",)]


def test_limits_of_zones_count_whole_replicas() -> None:
    job = pairs(4, A, B, maxPercentPerZone=50)
    assert [names for _, _, names in asked(job)] == [("b",), ("b",), ("a",), ("a",)]


def test_of_a_pool_that_spans_zones_one_is_named() -> None:
    wide = a_spot_pool("wide", 0.3, zones=("zone-a", "zone-b"))
    job = placed(pairs(2, wide), 0, 0, A)
    (made,) = (action for action in job.decide().actions if isinstance(action, Create))
    assert (made.place.required, made.place.zone) == (("wide",), "zone-a")


@pytest.mark.parametrize(
    ("topology", "near"),
    [
        ({}, Near(ZONE, "zone-a")),
        ({"required": ZONE}, Near(ZONE, "zone-a", is_required=True)),
        ({"preferred": RACK}, Near(RACK, "r1")),
        ({"required": RACK}, Near(RACK, "r1", is_required=True)),
    ],
)
def test_it_asks_for_nodes_with_the_label_of_its_mates_node(
    topology: dict[str, str], near: Near
) -> None:
    placement = {"replicaTopology": topology} if topology else {}
    job = placed(pairs(2, A, B, **placement), 0, 0, A, labels={RACK: "r1"})
    made = [action for action in job.decide().actions if isinstance(action, Create)]
    assert [(one.place.near, one.place.required) for one in made] == [(near, ("a",))]


def test_also_where_no_pool_is_known() -> None:
    job = a_job(2, min=2, perReplica=2)
    job = job.with_worker(0, node=Node("n", zone="z"), slot=0, replica=0)
    (made,) = (action for action in job.decide().actions if isinstance(action, Create))
    assert (made.replica, made.place.near) == (0, Near(ZONE, "z"))


def test_where_every_worker_holds_a_whole_copy_nobody_has_mates() -> None:
    job = on_market(a_job(2, min=2), room(A, 1), room(B, 1))
    assert asked(job) == [(0, None, ("b",)), (0, None, ("a",))]


def test_replicas_that_are_whole_train_as_they_were_placed() -> None:
    job = pairs(4, A, B)
    for worker_id, replica in {0: 0, 3: 0, 2: 1, 1: 1}.items():
        job = placed(job, worker_id, replica, A)
        job = job.with_worker(
            worker_id, ready=True, node=Node(f"n{worker_id}"), slot=worker_id % 2, replica=replica
        )
    assert job.decide(later(1)).status.world.members == (0, 3, 2, 1)
