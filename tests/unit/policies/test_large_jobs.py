"""What must hold for jobs of hundreds and thousands of workers as it does for three."""

from typing import Any

import pytest

from spotrun.api.names import Phase
from spotrun.api.status import MOST_AVOIDED, MOST_BLAMED_ONCE, Entry
from spotrun.policies.failures.joining_workers import held_back
from spotrun.policies.failures.node_blame import blamed_with
from spotrun.state.stored.failures import Restarts
from spotrun.state.world_members import training
from spotrun.wire import Failure
from tests.support.jobs.builders import a_job, a_worker, later
from tests.support.jobs.joining_workers import Joining
from tests.support.jobs.large_jobs import (
    FailingJoiningWorkers,
    next_status,
    with_all,
    worlds_until_replaced,
)


@pytest.mark.parametrize("late", [1, 33, 64, 65, 199])
def test_all_who_are_late_twice_are_replaced_however_many_they_are(late: int) -> None:
    assert worlds_until_replaced(200, late) <= 3


def test_joining_workers_that_always_fail_are_tried_ever_more_seldom() -> None:
    life = FailingJoiningWorkers(well=20, bad=70)
    life.live(1500.0)
    assert len([seconds for seconds in life.worlds if seconds > 900.0]) <= 4


@pytest.mark.parametrize("ends_pods", [False, True])
def test_of_broken_nodes_all_are_avoided_however_many_fail_together(ends_pods: bool) -> None:
    bad = {f"node-{n}" for n in range(2, 2 + MOST_AVOIDED)}
    job = a_job(100, min=1).training(0, 1, in_process=True)
    life = Joining(job, crash_seconds=5, bad=bad, ends_pods=ends_pods)
    life.live(600)
    assert len(training(life.job.status)) == 100
    assert bad.isdisjoint(process.node for process in life.processes.values())


def test_where_more_are_broken_than_can_be_avoided_they_are_tried_ever_more_seldom() -> None:
    bad = {f"node-{n}" for n in range(2, 12 + MOST_AVOIDED)}
    life = Joining(a_job(100, min=1).training(0, 1, in_process=True), crash_seconds=5, bad=bad)
    life.live(1800)
    assert len(training(life.job.status)) == 90
    assert len({second for second in life.crashed if second > 900}) <= 2 * 900 / 300


def test_who_is_blamed_once_pushes_out_nobody_who_is_blamed_twice() -> None:
    twice = tuple(f"bad-{n}" for n in range(MOST_AVOIDED))
    known = Restarts(blamed=(*twice, *twice))
    others = [f"node-{n}" for n in range(MOST_BLAMED_ONCE + 10)]
    found = blamed_with(known, others)
    assert found == (*twice, *twice, *others[10:])
    newer = blamed_with(Restarts(blamed=found), others[-1:])
    assert newer == (*twice[1:], *twice[1:], *others[10:], others[-1])


def test_a_joining_worker_that_has_failed_is_not_put_into_the_next_world_however_many_did() -> None:
    trained, failed = range(100), range(100, 200)
    broken = Failure(2, 1, "no device")
    job = with_all(
        a_job(200, min=1).with_status(phase=Phase.RUNNING),
        [
            *(a_worker(n, ready=True, arrived=1, arrived_for=300.0) for n in trained),
            *(a_worker(n, ready=True, ready_for=100.0, failed=broken) for n in failed),
        ],
    )
    world: dict[str, Any] = {
        "is_active": False,
        "entry": Entry.BOUNDARY,
        "training_number": 1,
        "formed": 5.0,
    }
    job = job.with_world("0-199", 2, state_holders="0-99", store="10.0.0.1:1", **world)
    status = job.decide().status
    again = next_status(job, status).decide(later(0.1)).status
    assert held_back(job.view(), again) == frozenset(failed)
    assert again.world == job.status.world
