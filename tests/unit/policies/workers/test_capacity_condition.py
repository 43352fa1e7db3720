"""What is said while workers find no node, or cannot start."""

from typing import Any

import pytest

from spotrun.api.names import ConditionType, Phase, Reason
from spotrun.state.conditions import find
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Node
from tests.support.jobs.builders import JobBuilder, a_job

FULL = "0/3 nodes are available: 3 Insufficient cpu."
REFUSED = "cluster-autoscaler: pod didn't trigger scale-up: 1 max node group size reached"
NO_IMAGE = "image x cannot be pulled: not found"
ZONE, IN_BOTH = "topology.kubernetes.io/zone", "workers are in a, b"
LACKING: dict[str, Any] = {"node": None, "unschedulable": FULL}


def said(status: JobState) -> tuple[str, str, str] | None:
    found = find(status, ConditionType.CAPACITY_AVAILABLE)
    return None if found is None else (found.status.value, found.reason, found.message)


def after(job: JobBuilder, then: JobBuilder) -> JobState:
    """The status after two looks."""
    return then.with_state(job.decide().status).decide().status


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (a_job(2), None),
        (a_job(2).with_workers(0, 1, node=None), None),
        (a_job(2).with_workers(0, 1), None),
        (a_job(2).with_workers(0, 1, ready=True), ("True", "Training", "every worker has a node")),
        (
            a_job(3).with_worker(0).with_workers(1, 2, **LACKING),
            ("False", "WaitingForCapacity", f"of 3 workers 2 find no node: {FULL}"),
        ),
        (
            a_job(3, min=2).training(0, 1).with_worker(2, **LACKING),
            ("False", "WaitingForCapacity", f"of 3 workers 1 find no node: {FULL}"),
        ),
        (
            a_job(2).with_workers(0, 1, **LACKING).with_facts(turned_down={1: REFUSED}),
            (
                "False",
                "WaitingForCapacity",
                f"of 2 workers 2 find no node: {FULL}; 1 get none from an autoscaler: {REFUSED}",
            ),
        ),
        (a_job(2, suspend=True).with_workers(0, 1, **LACKING), None),
    ],
)
def test_capacity_is_silent_until_it_is_known(
    job: JobBuilder, expected: tuple[str, str, str] | None
) -> None:
    assert said(job.decide().status) == expected


def test_capacity_that_came_is_said_as_soon_as_all_have_a_node() -> None:
    lacking = a_job(2, min=2).with_worker(0).with_worker(1, **LACKING)
    found = said(after(lacking, a_job(2, min=2).with_workers(0, 1)))
    assert found == ("True", "Training", "every worker has a node")


def test_of_a_job_that_wants_no_workers_any_more_nothing_is_lacking() -> None:
    lacking = a_job(1).with_worker(0, **LACKING)
    found = said(after(lacking, a_job(1, suspend=True)))
    assert found == ("True", "Training", "no workers are wanted")


@pytest.mark.parametrize(
    ("job", "phase", "reason", "message"),
    [
        (
            a_job(2, min=2).with_workers(0, 1, **LACKING),
            Phase.PENDING,
            Reason.WAITING_FOR_CAPACITY,
            f"0 of at least 2 workers are ready, 0 have a node; 2 find no node: {FULL}",
        ),
        (
            a_job(2, min=2).with_workers(0, 1, stuck=NO_IMAGE),
            Phase.STARTING,
            Reason.CANNOT_START,
            f"0 of at least 2 workers are ready, 2 have a node; 2 cannot start: {NO_IMAGE}",
        ),
        (
            a_job(3).training(0).with_worker(1, **LACKING).with_worker(2, stuck=NO_IMAGE),
            Phase.RUNNING,
            Reason.TRAINING,
            f"1 workers train; 1 find no node: {FULL}; 1 cannot start: {NO_IMAGE}",
        ),
    ],
)
def test_the_message_has_kubernetes_words(
    job: JobBuilder, phase: Phase, reason: Reason, message: str
) -> None:
    status = job.decide().status
    assert (status.phase, status.reason, status.message) == (phase, reason, message)


def test_of_several_troubles_the_most_frequent_is_told() -> None:
    job = a_job(3, min=3).with_worker(0, stuck="rare").with_workers(1, 2, stuck="frequent")
    assert (job.decide().status.message or "").endswith("3 cannot start: frequent")


@pytest.mark.parametrize(
    ("zones", "expected"),
    [
        ("aabb", "every worker has a node"),
        ("aaab", f"every worker has a node; 1 of 2 replicas are not in one {ZONE}: {IN_BOTH}"),
    ],
)
def test_replicas_whose_workers_are_apart_are_said(zones: str, expected: str) -> None:
    job = a_job(4, min=2, perReplica=2).training(0, 1, 2, 3)
    for worker_id, zone in enumerate(zones):
        node, slot = Node(f"n{worker_id}", zone=zone), worker_id % 2
        job = job.with_worker(worker_id, ready=True, arrived=1, node=node, slot=slot)
    assert said(job.decide().status) == ("True", "Training", expected)
