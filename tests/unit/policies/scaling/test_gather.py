"""What a choice of size is told of a job."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from spotrun.api.names import ScalingReason
from spotrun.money.shares import Resources
from spotrun.policies.scaling.facts import Cap
from spotrun.policies.scaling.gather import needed_in_seconds, step_times
from spotrun.policies.scaling.policy import scaling_wake_after_seconds
from spotrun.policies.workers.capacity_condition import check_capacity
from spotrun.state.snapshot import Reading
from spotrun.state.stored.scaling import ScalingState
from spotrun.state.stored.training import Pace, Progress
from spotrun.wire import Progress as Told
from tests.support.jobs.builders import NOW, a_job, ago, later
from tests.support.jobs.sized_jobs import READING, a_member, facts, with_readings
from tests.support.money.pool_builders import a_node_of, a_spot_pool, an_on_demand_pool, on_market
from tests.support.money.priced_nodes import a_node, at_work


def test_a_step_is_the_median_of_what_all_members_tell() -> None:
    members = [a_member(n, replace(READING, step_seconds=s)) for n, s in enumerate((1.9, 2.0, 2.4))]
    found = step_times(members, present=1)
    assert found is not None
    assert (found.workers, found.seconds, found.samples) == (3, 2.0, 64.0)
    assert found.compute == pytest.approx(0.75)
    assert found.data == pytest.approx(0.15)
    assert found.communicate == pytest.approx(0.1)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replace(READING, windows=2), id="too little of it"),
        pytest.param(replace(READING, world_number=0), id="of another world"),
    ],
)
def test_nothing_is_concluded_before_all_have_told_enough(other: Reading) -> None:
    assert step_times([a_member(0), a_member(1, other)], present=1) is None


@pytest.mark.parametrize(
    "reading",
    [
        None,
        replace(READING, step_seconds=None),
        replace(READING, step_seconds=0.0),
        replace(READING, samples_per_step=None),
    ],
)
def test_a_script_that_tells_no_steps_has_none(reading: Reading | None) -> None:
    assert step_times([a_member(0, reading), a_member(1, reading)], present=1) is None


def test_what_a_slow_node_makes_the_others_wait_is_taken_off() -> None:
    """It computes for 1.9 of 2 seconds, the others for 1.5: without it a step took 1.6."""
    slow = replace(READING, compute=0.95, data=0.0, communicate=0.05)
    found = step_times([a_member(0), a_member(1), a_member(2, slow)], present=1)
    assert found is not None
    assert found.seconds == pytest.approx(1.6)
    assert found.compute == pytest.approx(1.5 / 1.6)


def test_agents_that_tell_no_parts_tell_the_length_of_a_step() -> None:
    bare = replace(READING, compute=None, data=None, communicate=None)
    found = step_times([a_member(0, bare), a_member(1, bare)], present=1)
    assert found is not None
    assert (found.seconds, found.compute) == (2.0, None)


def test_microbatches_and_who_they_are_dealt_to() -> None:
    job = with_readings(a_job(2, max=8).with_facts(requests=Resources(gpus=4)), READING, READING)
    reported = a_member(0, progress=Told(1, 100, microbatches=64))
    found = facts(replace(job, workers={**job.workers, 0: reported}))
    assert (found.microbatches, found.processes) == (64, 4)


def test_several_workers_that_hold_one_copy_share_its_microbatches() -> None:
    job = a_job(4, min=2, max=8, perReplica=2).with_facts(requests=Resources(gpus=4))
    job = with_readings(job, *[READING] * 4)
    reported = a_member(0, progress=Told(1, 100, microbatches=64))
    found = facts(replace(job, workers={**job.workers, 0: reported}))
    assert (found.microbatches, found.processes) == (128, 1)


def test_what_is_left_of_the_training() -> None:
    job = with_readings(a_job(2, max=8), READING, READING)
    job = job.with_status(progress=Progress(step=100, total_steps=1000))
    assert facts(job).remaining_samples == 900 * 64
    assert facts(job.with_status(progress=Progress(step=100))).remaining_samples is None


def test_the_throughput_that_the_deadline_needs() -> None:
    """An hour is left, a minute of it kept; all of a thousand steps are still to be saved."""
    job = a_job(2, max=8, deadline={"finishWithin": "1h"})
    job = with_readings(job.with_facts(created_at=NOW), READING, READING).with_status(
        progress=Progress(step=0, total_steps=1000),
        pace=Pace(step_seconds=Decimal(2), workers=2, changeovers=(0,)),
    )
    needed = facts(job).needed_samples_per_second
    assert needed == pytest.approx(1000 * 64 / (3600 - 60), rel=0.01)
    assert facts(with_readings(a_job(2, max=8), READING)).needed_samples_per_second is None


def test_when_the_deadline_needs_more_workers_it_is_looked_at_a_job_again() -> None:
    """An hour is left, a minute of it kept; a thousand steps take 2000 s."""
    job = a_job(2, max=8, deadline={"finishWithin": "1h"})
    job = with_readings(job.with_facts(created_at=NOW), READING, READING).with_status(
        progress=Progress(step=0, total_steps=1000),
        pace=Pace(step_seconds=Decimal(2), workers=2, changeovers=(0,)),
    )
    view = job.view()
    assert needed_in_seconds(view, job.status) == pytest.approx(3600 - 60 - 2000)
    scaled = job.with_status(scaling=ScalingState(size=2))
    assert scaling_wake_after_seconds(view, scaled.status) == pytest.approx(3600 - 60 - 2000)
    late = job.view(later(3600 - 60 - 2000 - 10))
    assert scaling_wake_after_seconds(late, scaled.status) == 60, (
        "no oftener than its status is written"
    )
    assert scaling_wake_after_seconds(job.view(later(3000)), scaled.status) is None, (
        "it needs them now"
    )


def test_the_time_until_the_deadline_is_that_in_which_the_job_may_run() -> None:
    job = a_job(2, max=8, deadline={"finishWithin": "3h"}).with_facts(created_at=ago(3600))
    assert facts(job).deadline_seconds == 2 * 3600
    assert facts(a_job(2, max=8)).deadline_seconds is None


def test_what_a_worker_costs() -> None:
    job = with_readings(a_job(2, max=8), READING, READING)
    assert facts(job).usd_per_hour is None
    paid = at_work(a_job(2, max=8), 0, 1, node=a_node(usd_per_hour="4"))
    assert facts(replace(paid, status=paid.decide().status)).usd_per_hour == pytest.approx(1.0)


def test_how_long_a_change_may_be_enjoyed() -> None:
    pool = a_spot_pool(interruptions_24h=48, node_hours_24h=24.0)
    job = on_market(with_readings(a_job(2, max=8), READING, READING), pool, an_on_demand_pool())
    assert facts(job).life_seconds is None
    member = a_member(0, node=a_node_of(pool, 0))
    life = facts(replace(job, workers={**job.workers, 0: member})).life_seconds
    assert life is not None
    assert 0.25 * 3600 < life < 3600


@pytest.mark.parametrize(
    ("pools", "free"),
    [
        pytest.param((), None, id="a cluster that knows no pool"),
        pytest.param((an_on_demand_pool(free_slots=3),), 3, id="nodes that are there"),
        pytest.param((an_on_demand_pool(declared=True),), None, id="an admin declared it"),
        pytest.param((an_on_demand_pool(provision_seconds=90.0),), None, id="nodes are made"),
        pytest.param(
            (an_on_demand_pool(declared=True, retry_at=later(60)),), 0, id="it is dry at present"
        ),
        pytest.param(
            (an_on_demand_pool(declared=True, retry_at=ago(60)),), None, id="it was dry before"
        ),
    ],
)
def test_how_many_more_there_may_be_room_for(pools: Any, free: int | None) -> None:
    assert facts(on_market(with_readings(a_job(2, max=8), READING), *pools)).free == free


def test_the_market_is_a_limit_where_all_pools_are_known_to_be_dry() -> None:
    dry = a_spot_pool(retry_at=later(600)), an_on_demand_pool(retry_at=later(60))
    job = with_readings(a_job(2, max=8), READING, READING)
    assert facts(on_market(job, *dry)).caps == (Cap(2, ScalingReason.NO_CAPACITY),)
    assert facts(on_market(job, dry[0], an_on_demand_pool())).caps == ()


@pytest.mark.parametrize(
    ("seconds", "is_limit"),
    [pytest.param(60, False, id="a node is being made"), pytest.param(200, True, id="in vain")],
)
def test_workers_that_wait_for_a_node_are_a_limit_after_a_while(
    seconds: float, is_limit: bool
) -> None:
    pool = an_on_demand_pool(provision_seconds=180.0)
    waiting: dict[str, Any] = {
        "node": None,
        "created_at": ago(seconds),
        "unschedulable": "0/2 nodes are available",
        "pools": (pool.name,),
    }
    job = on_market(with_readings(a_job(4, max=8), READING, READING), pool)
    job = job.with_workers(2, 3, **waiting)
    job = replace(job, status=check_capacity(job.view(), job.status))
    assert facts(job).caps == ((Cap(2, ScalingReason.NO_CAPACITY),) if is_limit else ())


def test_what_an_hour_may_cost_is_a_limit() -> None:
    budget = {"maxUsdPerHour": "3.5", "unpriced": "Allow"}
    paid = at_work(a_job(2, max=8, budget=budget), 0, 1, node=a_node(usd_per_hour="4"))
    paid = replace(paid, status=paid.decide().status)
    assert facts(paid).caps == (Cap(3, ScalingReason.BUDGET_LIMIT),)
    assert Decimal(facts(paid).usd_per_hour or 0) == 1
