from dataclasses import replace

from spotrun.api.capacitypool import Capacity
from spotrun.state.market import PoolFacts
from tests.support.jobs.builders import ON_CLAIM, JobBuilder, a_job, ago
from tests.support.jobs.placed_workers import DRY, HOUR, OD, SPOT, asked, due, removed, working
from tests.support.money.pool_builders import a_node_of, on_market


def back(job: JobBuilder, *, hours: float = 1.0, pool: PoolFacts = SPOT) -> JobBuilder:
    """One worker on demand since then."""
    return on_market(working(job, OD, 0, hours=hours), pool, OD)


def test_spot_takes_over_from_on_demand_once_its_launch_has_paid_off() -> None:
    # Half of d left / (left - rem) = 10 min x 30 / 5
    assert asked(back(due(30, 25), hours=0.49)) == []
    assert asked(back(due(30, 25), hours=0.51)) == ["Spot"]
    assert asked(back(due(30, 10), pool=DRY)) == []


def test_an_on_demand_worker_trains_until_the_one_from_spot_is_ready() -> None:
    starting = back(due(30, 10)).with_worker(
        1, node=a_node_of(SPOT, 1, ago(60)), created_at=ago(60), asked=Capacity.SPOT
    )
    assert (removed(starting), asked(starting)) == ([], [])
    ready = starting.with_worker(
        1, ready=True, node=a_node_of(SPOT, 1, ago(60)), created_at=ago(60), ready_for=30.0
    )
    world = ready.decide().status.world
    assert (world.members, world.is_active, world.restore) == ((1,), True, f"step-{38 * 3600}.g1")
    after = ready.with_state(ready.decide().status)
    assert removed(after) == [(0, "BackToSpot")]


def by_a_new_leader(job: JobBuilder) -> JobBuilder:
    """The same job, of whose agents nobody has come over yet."""
    workers = {worker_id: replace(worker, agent=None) for worker_id, worker in job.workers.items()}
    return replace(job, workers=workers).with_facts(leading_seconds=5.0)


def test_a_new_leader_goes_on_with_a_return_that_was_begun() -> None:
    begun = back(due(30, 10)).with_status(next_worker_id=2)
    assert asked(by_a_new_leader(begun)) == ["Spot"]


def test_a_new_leader_replaces_nobody_who_trains_as_status_has_it() -> None:
    job = on_market(working(due(10.17, 10), SPOT, 0), SPOT, OD)
    assert asked(by_a_new_leader(job)) == []


def test_what_is_not_saved_is_saved_before_spot_takes_over() -> None:
    job = (
        back(due(30, 10))
        .with_checkpoint(int(37.9 * HOUR))
        .with_worker(
            1, ready=True, node=a_node_of(SPOT, 1, ago(60)), created_at=ago(60), ready_for=30.0
        )
    )
    decision = job.decide()
    assert (decision.status.orders.checkpoint, decision.status.world) == (1, job.status.world)


def test_nobody_is_moved_whose_state_would_be_lost() -> None:
    kept = back(a_job(1, checkpoint=ON_CLAIM))
    assert asked(kept) == ["Spot"]
    assert asked(back(a_job(1))) == []


def test_nobody_is_moved_oftener_than_checkpoints_are_written() -> None:
    every = {**ON_CLAIM, "every": "2h"}
    assert asked(back(a_job(1, checkpoint=every), hours=1.9)) == []
    assert asked(back(a_job(1, checkpoint=every), hours=2.1)) == ["Spot"]


def test_while_a_gang_is_broken_none_of_it_goes_back_to_spot() -> None:
    whole = working(working(a_job(2, min=2, checkpoint=ON_CLAIM), OD, 0), SPOT, 1)
    assert asked(on_market(whole, SPOT, OD)) == ["Spot"]
    broken = on_market(whole.with_world("", 2, is_active=False, state_holders=""), SPOT, OD)
    assert asked(broken) == []


def test_the_base_never_goes_back_to_spot() -> None:
    job = on_market(
        working(a_job(2, checkpoint=ON_CLAIM, placement={"onDemandBase": 1}), OD, 0, 1), SPOT, OD
    )
    assert asked(job) == ["Spot"]


def test_of_several_one_with_the_state_stays_until_the_others_have_it() -> None:
    job = on_market(working(a_job(2, min=2, checkpoint=ON_CLAIM), OD, 0, 1), SPOT, OD)
    assert asked(job) == ["Spot", "Spot"]
    for worker_id in (2, 3):
        node = a_node_of(SPOT, worker_id, ago(60))
        job = job.with_worker(worker_id, ready=True, node=node, ready_for=30.0, created_at=ago(60))
    world = job.decide().status.world
    assert (world.members, world.entry) == ((0, 2), "Boundary")
