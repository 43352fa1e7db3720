"""Many at once: joining workers of one job that come together, and restarts of many jobs."""

from dataclasses import replace
from datetime import timedelta

import pytest

from spotrun.api.status import Entry
from spotrun.policies.world.policy import is_restart
from spotrun.policies.world.resize import joining_workers_wake_after_seconds
from spotrun.wire import Failure
from tests.support.jobs.builders import NOW, JobBuilder, a_job

BROKEN = Failure(1, 1, "boom")


def world_number(job: JobBuilder) -> int:
    return job.decide().status.world.number


def crowd(*ready_for: float, wanted: int = 10) -> JobBuilder:
    """One trains, and joining workers have been ready for so long."""
    job = a_job(wanted).training(0)
    for worker_id, seconds in enumerate(ready_for, 1):
        job = job.with_worker(worker_id, ready=True, ready_for=seconds)
    return job


@pytest.mark.parametrize(
    ("job", "grows"),
    [
        (crowd(0.2), False),
        (crowd(1.0), True),
        (crowd(3.0, 0.9), False),
        (crowd(3.0, 1.1), True),
        (crowd(5.0, 0.1), True),
        (crowd(0.0, wanted=2), True),
        (crowd(0.0, 0.0, 0.0, wanted=4), True),
    ],
)
def test_a_world_grows_when_all_are_there_or_nobody_else_has_come_for_a_second(
    job: JobBuilder, grows: bool
) -> None:
    assert world_number(job) == (2 if grows else 1)


def test_it_is_looked_again_when_the_wait_is_over() -> None:
    assert crowd(0.25).decide().wake_after_seconds == 0.75
    assert joining_workers_wake_after_seconds(crowd(4.5, 0.0).view(), crowd(4.5, 0.0).status) == 0.5


def test_five_hundred_that_come_within_a_second_make_few_worlds() -> None:
    workers = 520
    job = a_job(workers).training(*range(10))
    made, now = 0, NOW
    for first in range(10, 510, 10):
        now += timedelta(milliseconds=20)
        for worker_id in range(first, first + 10):
            job = job.with_worker(worker_id, ready=worker_id % 2 == 0)
        decision = job.decide(now)
        made += decision.status.world != job.status.world
        job = job.with_state(decision.status)
    later = now + timedelta(seconds=1)
    for worker_id in range(10, 510):
        job = job.with_worker(worker_id, ready=True, ready_for=1.0)
    status = job.decide(later).status
    assert len(status.world.members) == 510
    assert status.world.is_active
    assert made <= 2


def test_a_world_is_restarted_when_it_is_this_jobs_turn() -> None:
    job = a_job(2).training(0, 1, in_process=False).without(1).with_facts(lost_seconds={1: 1.0})
    waiting = job.with_facts(lost_seconds={1: 1.0}, restart_seconds=0.7)
    assert world_number(job) == 2
    decision = waiting.decide()
    assert (world_number(waiting), decision.wake_after_seconds) == (1, 0.7)


def test_who_goes_on_in_process_waits_for_nobodys_turn() -> None:
    job = a_job(2).training(0, 1).without(1)
    assert world_number(job.with_facts(lost_seconds={1: 1.0}, restart_seconds=9.0)) == 2


def test_a_first_world_is_no_restart() -> None:
    job = a_job(1).with_worker(0, ready=True).with_facts(restart_seconds=9.0)
    status = job.decide().status
    assert status.world.entry is Entry.RESTART
    assert not is_restart(job.status, status)


def test_a_restart_is_one_once() -> None:
    before = a_job(1).training(0).status
    world = before.world
    after = replace(before, world=replace(world, number=2, entry=Entry.RESTART))
    assert is_restart(before, after)
    assert not is_restart(after, after)
    abort = replace(world, number=2, entry=Entry.ABORT)
    assert not is_restart(before, replace(before, world=abort))
