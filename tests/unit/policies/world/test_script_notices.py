"""Notices to scripts that follow no orders: each is told in time to save, whoever comes instead."""

from typing import Any

import pytest

from spotrun.policies.world.join_timeout import arrival_wake_after_seconds
from spotrun.policies.world.resize import SCRIPT_LEAD_SECONDS
from spotrun.state.job_state import World
from spotrun.wire import Progress
from tests.support.jobs.builders import ON_CLAIM, JobBuilder, a_job

PLAIN: dict[str, Any] = {"in_process": False, "saves_on_order": False}
JOINING_WORKERS: dict[str, dict[str, Any]] = {
    "unready": {"ready": False},
    "ready": {"ready": True, "ready_for": 5},
}
TRAINER = {"name": "trainer", "image": "your-registry/train:1"}
SHORT_SECONDS = (SCRIPT_LEAD_SECONDS - 1, 25.0, 20.0, 15.0, 10.0, 5.0, 1.0)
"""A script has to be told before its node ends, for it saves only then."""


def a_plain_job(workers: range, least: int, joining: str | None, **spec: Any) -> JobBuilder:
    """Workers of a script that train, and one that joins: ready, not yet ready, or not there."""
    job = a_job(len(workers), min=least, **spec).training(*workers, **PLAIN)
    return job.with_worker(len(workers), **JOINING_WORKERS[joining], **PLAIN) if joining else job


def leaving(job: JobBuilder, *worker_ids: int, seconds: float) -> World:
    """The next world if the nodes of these workers end in so many seconds."""
    for worker_id in worker_ids:
        job = job.with_worker(worker_id, ready=False, arrived=1, leaves_in=seconds, **PLAIN)
    return job.decide().status.world


@pytest.mark.parametrize(
    ("size_and_least", "worker_ids", "joining", "expected"),
    [
        ((1, 1), (0,), None, ()),
        ((1, 1), (0,), "unready", ()),
        ((1, 1), (0,), "ready", (1,)),
        ((2, 1), (0, 1), None, ()),
        ((2, 1), (0, 1), "unready", ()),
        ((2, 1), (0, 1), "ready", (2,)),
        ((2, 1), (1,), "unready", (0,)),
        ((2, 2), (1,), None, ()),
        ((2, 2), (1,), "unready", ()),
        ((2, 2), (1,), "ready", (0, 2)),
    ],
)
def test_it_is_told_before_its_node_ends(
    size_and_least: tuple[int, int],
    worker_ids: tuple[int, ...],
    joining: str | None,
    expected: tuple[int, ...],
) -> None:
    size, least = size_and_least
    job = a_plain_job(range(size), least, joining, checkpoint=ON_CLAIM)
    for seconds in SHORT_SECONDS:
        world = leaving(job, *worker_ids, seconds=seconds)
        decided = (world.members, world.is_active, world.is_planned)
        assert decided == (expected, bool(expected), True), seconds


@pytest.mark.parametrize("joining", [None, "unready"])
@pytest.mark.parametrize("size", [1, 2])
def test_until_then_it_trains_where_the_others_are_too_few(size: int, joining: str | None) -> None:
    job = a_plain_job(range(size), size, joining, checkpoint=ON_CLAIM)
    world = leaving(job, size - 1, seconds=SCRIPT_LEAD_SECONDS + 1)
    trains = world.members if world.is_active else world.state_holders
    assert trains == tuple(range(size))


@pytest.mark.parametrize("progress", [None, Progress(1, 100, step_seconds=1.0)])
@pytest.mark.parametrize("spec", [{}, {"checkpoint": ON_CLAIM}])
@pytest.mark.parametrize("seconds", [100.0, *SHORT_SECONDS])
def test_it_goes_over_to_its_replacement_wherever_it_saves(
    seconds: float, spec: dict[str, Any], progress: Progress | None
) -> None:
    job = a_job(1, **spec).training(0, **PLAIN)
    leaver = {"ready": False, "arrived": 1, "progress": progress, "leaves_in": seconds}
    job = job.with_worker(0, **leaver, **PLAIN)
    world = job.with_worker(1, **JOINING_WORKERS["ready"], **PLAIN).decide().status.world
    assert (world.members, world.is_active, world.is_planned) == ((1,), True, True)


@pytest.mark.parametrize(("saves_on_order", "late_seconds"), [(True, 120.0), (False, 120.0 + 3600)])
def test_only_scripts_that_save_at_their_end_are_waited_for_longer(
    saves_on_order: bool, late_seconds: float
) -> None:
    follows = {"in_process": False, "saves_on_order": saves_on_order}
    template = {"spec": {"terminationGracePeriodSeconds": 3600, "containers": [TRAINER]}}
    job = a_job(2, template=template).training(0, 1, **follows)
    job = job.with_worker(1, ready=True, arrived=1, leaves_in=120, **follows)
    job = job.with_worker(2, ready=True, ready_for=5, **follows)
    entered = job.with_status(world=job.decide().status.world)
    assert entered.status.world.members == (0, 2)
    came = entered.with_worker(0, ready=False, arrived=2, arrived_for=0.0, **follows)
    assert arrival_wake_after_seconds(came.view(), came.status) == late_seconds
