from dataclasses import replace
from typing import Any

import pytest

from spotrun.api.names import Phase, Reason
from spotrun.state.snapshot import Node
from spotrun.state.stored.failures import NO_RESTARTS, Restarts
from spotrun.wire import FAULTY_DEVICE, Ending, Failure
from tests.support.jobs.builders import NOW, ON_CLAIM, JobBuilder, a_job, ago, an_end, later


def failing(before: int = 0, since: float = 60.0, message: str = "boom", **spec: Any) -> JobBuilder:
    job = a_job(2, min=2, **spec).training(0, 1, world_number=5, failed=Failure(5, 3, message))
    restarts = Restarts(failures=before, counted_since=ago(since), last_world=4)
    return job.with_status(restarts=restarts)


def test_peers_failures_are_one() -> None:
    restarts = failing(1).decide().status.restarts
    assert restarts == Restarts(
        failures=2,
        counted_since=NOW,
        retry_at=later(20),
        last_world=5,
        last_reason="ExitCode",
        last_exit_code=3,
        last_message="boom",
        blamed=("node-0",),
    )
    assert failing(1).with_status(restarts=restarts).decide(later(30)).status.restarts == restarts


def test_an_exit_code_says_nothing_of_the_script_if_a_device_failed() -> None:
    job = failing(message=f"GPU-1: {FAULTY_DEVICE}: Xid 79", failures={"fatalExitCodes": [3]})
    status = job.decide().status
    assert status.restarts.last_reason == Reason.FAULTY_DEVICE
    assert job.with_state(status).decide(later(5)).status.phase is not Phase.FAILED


def test_an_hour_of_durable_progress_forgives() -> None:
    job = failing(3, since=4000).with_checkpoint(seconds_ago=400)
    restarts = job.decide().status.restarts
    assert restarts.failures == 1


@pytest.mark.parametrize(
    ("failures", "spec", "reason"),
    [
        (0, {"failures": {"maxRestarts": 0}}, Reason.TOO_MANY_RESTARTS),
        (3, {}, Reason.TOO_MANY_RESTARTS),
        (0, {"failures": {"fatalExitCodes": [3]}}, Reason.FATAL_EXIT_CODE),
        (2, {}, None),
    ],
)
def test_one_failure_too_many_ends_the_job_once_it_is_known_to_be_one(
    failures: int, spec: dict[str, Any], reason: Reason | None
) -> None:
    job = failing(failures, **spec)
    decision = job.decide()
    assert decision.status.phase is not Phase.FAILED
    assert reason is None or decision.wake_after_seconds == 5
    after = job.with_state(decision.status).decide(later(5)).status
    assert (after.phase is Phase.FAILED) is (reason is not None)
    assert reason is None or after.reason == reason


def test_an_image_that_can_never_train_ends_the_job_with_its_own_words() -> None:
    job = a_job(2, min=2).with_worker(0, **an_end(Ending.UNUSABLE, 64, "the image has no torch"))
    job = job.with_worker(1)
    counted = job.with_state(job.decide().status)
    ended = counted.decide(later(5)).status
    assert (ended.phase, ended.reason, ended.message) == (
        Phase.FAILED,
        "UnusableImage",
        "the image has no torch",
    )


def test_an_image_that_has_started_is_not_blamed_for_a_node() -> None:
    job = a_job(2, min=2).with_world("1-2", world_number=3, is_active=False)
    job = job.with_workers(1, 2, ready=True, arrived=3)
    job = job.with_worker(0, **an_end(Ending.UNUSABLE, 64, "the image has no torch"))
    counted = job.decide().status
    assert (counted.restarts.failures, counted.restarts.blamed) == (1, ("node-0",))
    assert counted.restarts.last_message == "the image has no torch"
    ended = job.with_state(counted).decide(later(5)).status
    assert ended.phase is not Phase.FAILED
    often = replace(counted, restarts=replace(counted.restarts, failures=4))
    ended = job.with_state(often).decide(later(5)).status
    assert (ended.phase, ended.reason) == (Phase.FAILED, "TooManyRestarts")


def test_a_failure_that_followed_from_a_lost_node_is_taken_back() -> None:
    job = failing(0, failures={"maxRestarts": 0})
    counted = job.with_state(job.decide().status)
    lost = counted.with_worker(1, node=Node("n", gone=True)).decide(later(4)).status
    assert (lost.restarts.failures, lost.restarts.retry_at) == (0, None)
    assert lost.restarts.last_reason == "NodeLost"
    assert lost.phase is not Phase.FAILED


BROKEN_OFF = Failure(1, 1, "rank 1 ended with exit code 1: connection closed by peer")
DELETING = {"deleting": True, "killed_at": later(20)}


@pytest.mark.parametrize(
    ("status", "pods", "failures"),
    [
        ({}, {}, 1),
        ({"suspended_by": ("User",)}, {}, 0),
        ({}, {1: DELETING}, 0),
        ({}, {0: DELETING}, 0),
        ({}, {0: DELETING, 1: DELETING}, 0),
        ({}, {2: DELETING}, 1),
    ],
    ids=[
        "nobody is told to end",
        "the job is suspended",
        "its own pod is deleted",
        "a peer's pod is deleted",
        "the suspension is over, and the pods have time left",
        "a pod outside of the world is deleted",
    ],
)
def test_what_breaks_off_because_processes_are_told_to_end_is_no_failure(
    status: dict[str, Any], pods: dict[int, dict[str, Any]], failures: int
) -> None:
    job = a_job(2, checkpoint=ON_CLAIM).training(0, 1, in_process=False).with_status(**status)
    reported: dict[int, dict[str, Any]] = {
        0: {"ready": True, "arrived": 1},
        1: {"ready": False, "arrived": 1, "failed": BROKEN_OFF},
        2: {"ready": True},
    }
    for worker_id, worker in reported.items():
        job = job.with_worker(worker_id, in_process=False, **worker, **pods.get(worker_id, {}))
    assert (job.decide().status.restarts.failures or 0) == failures


def test_what_breaks_off_while_a_job_is_suspended_is_no_failure() -> None:
    job = a_job(2, suspend=True, checkpoint=ON_CLAIM).training(0, 1, in_process=False)
    job = job.with_state(job.decide().status)
    failed = Failure(1, 1, "rank 1 ended with exit code 1: connection closed by peer")
    broken = job.with_worker(1, ready=False, arrived=1, in_process=False, failed=failed)
    assert broken.decide().status.restarts == NO_RESTARTS
