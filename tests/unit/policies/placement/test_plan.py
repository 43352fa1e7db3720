"""How much capacity of which kind: counted, and exchanged, by whole replicas."""

from typing import Any

import pytest

from spotrun.api.status import Entry
from spotrun.policies.placement.plan import plan
from spotrun.state.actions import Create
from spotrun.state.market import PoolFacts
from tests.support.jobs.builders import ON_CLAIM, JobBuilder, a_job, ago, decided_world
from tests.support.jobs.placed_workers import HOUR, removed
from tests.support.money.pool_builders import a_node_of, a_spot_pool, an_on_demand_pool, on_market

A, B = a_spot_pool("a", 0.4, zone="zone-a"), a_spot_pool("b", 0.3, zone="zone-b")
OD = an_on_demand_pool("od", zone="zone-a")


def pairs(workers: int, *pools: PoolFacts, **spec: Any) -> JobBuilder:
    sizes = {"min": 2, "max": 8, "perReplica": 2}
    return on_market(a_job(workers, **sizes, checkpoint=ON_CLAIM, **spec), *pools).with_checkpoint()


def working(job: JobBuilder, **pools: PoolFacts) -> JobBuilder:
    """Workers of replicas of two, that train on nodes of these pools for hours: `_0=A, _1=OD`."""
    for name, pool in pools.items():
        worker_id = int(name.removeprefix("_"))
        job = job.with_worker(
            worker_id,
            ready=True,
            arrived=1,
            node=a_node_of(pool, worker_id, ago(3 * HOUR)),
            slot=worker_id % 2,
            replica=worker_id // 2 * 2,
            asked=pool.capacity,
            created_at=ago(3 * HOUR),
        )
    members = ",".join(str(worker_id) for worker_id in sorted(job.workers))
    return job.with_world(members, formed=3 * HOUR, store="s:1")


def swapped(job: JobBuilder) -> set[int]:
    return set(plan(job.view(), job.status, job.view().limited_size).swapped)


def made(job: JobBuilder) -> list[tuple[int, int | None, str | None]]:
    """Return slot, replica and capacity of each worker that is made."""
    new = [action for action in job.decide().actions if isinstance(action, Create)]
    return [(one.slot, one.replica, one.place.capacity) for one in new]


@pytest.mark.parametrize(("base", "stable"), [(0, 0), (1, 2), (2, 2), (3, 4), (4, 4)])
def test_on_demand_workers_are_counted_by_whole_replicas(base: int, stable: int) -> None:
    job = pairs(4, A, OD, placement={"onDemandBase": base})
    capacities = [capacity for _, _, capacity in made(job)]
    assert capacities == ["OnDemand"] * stable + ["Spot"] * (4 - stable)


def test_a_replica_goes_back_to_spot_as_a_whole() -> None:
    job = working(pairs(4, A, OD), _0=OD, _1=OD, _2=OD, _3=OD)
    assert swapped(job) == {0, 1, 2, 3}
    kept = working(pairs(4, A, OD, placement={"onDemandBase": 1}), _0=OD, _1=OD, _2=OD, _3=OD)
    assert swapped(kept) == {0, 1}
    assert made(kept) == [(0, 4, "Spot"), (1, 4, "Spot")]


def test_a_part_of_one_goes_back_only_to_spot_beside_its_mates() -> None:
    job = working(pairs(4, A, OD), _0=A, _1=A, _2=A, _3=OD)
    assert swapped(job) == {3}
    (new,) = (action for action in job.decide().actions if isinstance(action, Create))
    assert (new.slot, new.replica, new.place.required) == (1, 2, ("a",))
    far = working(pairs(4, B, OD), _0=A, _1=A, _2=A, _3=OD)
    assert swapped(far) == set()


def test_on_demand_takes_over_from_whole_replicas_on_spot() -> None:
    job = working(pairs(4, A, OD, placement={"onDemandBase": 1}), _0=A, _1=A, _2=A, _3=A)
    assert swapped(job) == {2, 3}
    assert made(job) == [(0, 4, "OnDemand"), (1, 4, "OnDemand")]


def starting(ready: tuple[bool, bool]) -> JobBuilder:
    job = working(pairs(4, A, OD, placement={"onDemandBase": 1}), _0=A, _1=A, _2=A, _3=A)
    for worker_id, is_ready in zip((4, 5), ready, strict=True):
        job = job.with_worker(
            worker_id,
            ready=is_ready,
            ready_for=600.0,
            node=a_node_of(OD, worker_id, ago(700)),
            slot=worker_id % 2,
            replica=4,
            asked=OD.capacity,
            created_at=ago(700),
        )
    return job


@pytest.mark.parametrize("ready", [(False, False), (True, False), (False, True)])
def test_no_world_has_a_half_of_the_old_replica_and_a_half_of_the_new_one(
    ready: tuple[bool, bool],
) -> None:
    job = starting(ready)
    prepared = (2, "4-5,0-1", False, "Boundary", "0-3")
    assert decided_world(job) == prepared
    job = job.with_world(
        "4-5,0-1", 2, is_active=False, entry=Entry.BOUNDARY, state_holders="0-3", training_number=1,
        formed=3600, store="s:2",
    )  # fmt: skip
    assert decided_world(job) == prepared, "also when the one that is ready has waited for long"
    assert removed(job) == []


def test_the_old_replica_goes_once_the_new_one_is_ready() -> None:
    job = starting((True, True))
    after = job.with_state(job.decide().status)
    assert after.status.world.members == (4, 5, 0, 1)
    assert removed(after) == [(2, "Fallback"), (3, "Fallback")]
