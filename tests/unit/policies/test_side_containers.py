"""A trainer that fails while containers beside it run on: its end is seen for long, and is one."""

from dataclasses import replace
from typing import Any

import pytest

from spotrun.api.field_types.text_values import WorkerIds
from spotrun.api.names import Phase
from spotrun.state.actions import Remove
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Node, PodEnd, PodPhase
from spotrun.state.stored.failures import Restarts
from spotrun.wire import Ending, LastWords
from tests.support.jobs.builders import NOW, JobBuilder, a_job, ago, later

OOM = PodEnd(exit_code=137, container_reason="OOMKilled")
ERROR = PodEnd(exit_code=1, container_reason="Error")


def training_job(end: PodEnd = ERROR, **pod: Any) -> JobBuilder:
    """Of two that train one has failed; its log shipper runs on."""
    job = a_job(2, min=1).training(0, 1)
    return job.with_worker(1, ready=True, arrived=1, end=end, **pod)


def after(job: JobBuilder, seconds: float = 0.0) -> JobState:
    return job.decide(later(seconds)).status


def counted(seconds_ago: float, **status: Any) -> JobBuilder:
    """Its failure is known; its pod is being deleted, for which it has two minutes."""
    restarts = Restarts(
        failures=1,
        counted_since=ago(seconds_ago),
        retry_at=later(10 - seconds_ago),
        last_world=1,
        last_reason="ExitCode",
    )
    job = training_job(deleting=True, killed_at=later(120 - seconds_ago))
    return job.with_status(restarts=restarts, failed=frozenset({1}), **status)


def failures(status: JobState) -> int | None:
    return status.restarts.failures


@pytest.mark.parametrize("end", [OOM, ERROR])
def test_it_is_counted_and_remembered_before_its_pod_is_deleted(end: PodEnd) -> None:
    decision = training_job(end).decide()
    assert (failures(decision.status), decision.status.failed) == (1, frozenset({1}))
    assert not decision.status.settled.size, "it costs on"
    assert [one.worker_id for one in decision.actions if isinstance(one, Remove)] == [1]


@pytest.mark.parametrize("end", [OOM, ERROR])
@pytest.mark.parametrize("seconds", [10, 30, 119])
def test_it_is_not_counted_again_in_the_worlds_that_follow(end: PodEnd, seconds: int) -> None:
    job = counted(seconds).training(0, world_number=2)
    ended = replace(job.workers[1], pod=replace(job.workers[1].pod, end=end))
    status = after(replace(job, workers={**job.workers, 1: ended}))
    assert (failures(status), status.failed) == (1, frozenset({1}))


def test_that_its_pod_is_deleted_does_not_make_it_one_that_was_taken() -> None:
    status = after(counted(0.02))
    assert (failures(status), status.restarts) == (1, counted(0.02).status.restarts)


def test_nor_that_its_pod_has_gone_while_the_others_wait_for_their_turn() -> None:
    job = counted(3, settled=WorkerIds("1").ranges).without(1).with_facts(restart_seconds=5.0)
    status = after(job)
    assert (failures(status), status.failed) == (1, frozenset({1}))


def test_that_its_node_is_lost_does() -> None:
    gone = counted(4).with_worker(
        1, ready=True, arrived=1, end=ERROR, disrupted="DeletionByPodGC", deleting=True
    )
    assert failures(after(gone)) == 0


def test_nor_is_another_one_forgotten_that_was_taken_beside_it() -> None:
    lost = counted(4).with_worker(0, node=Node("node-0", gone=True))
    assert failures(after(lost)) == 0


def test_it_is_forgotten_when_its_pod_is_over_and_others_train() -> None:
    job = counted(60).training(0, world_number=2)
    over = replace(job.workers[1].pod, phase=PodPhase.FAILED, ended_at=NOW)
    ended = replace(job, workers={**job.workers, 1: replace(job.workers[1], pod=over)})
    status = after(ended)
    assert (failures(status), status.failed, str(status.settled)) == (1, frozenset(), "1")
    vanished = after(job.without(1))
    assert not vanished.failed, "its number may be made again"


def test_its_peers_errors_are_not_counted_later() -> None:
    job = counted(5).training(0, 2, world_number=1).with_world("0-2")
    peers = job.with_worker(2, ready=True, arrived=1, end=ERROR)
    status = after(peers)
    assert (failures(status), status.failed) == (1, frozenset({1, 2}))
    later_on = peers.with_state(status).with_world("0", 2)
    assert failures(after(later_on, 30)) == 1


def test_nobody_is_deleted_of_whom_it_is_not_stored_that_it_has_failed() -> None:
    """What is no news to anybody is stored a little later."""
    job = counted(5).with_worker(2, ready=True, arrived=1, end=ERROR).with_world("0-2")
    hurried = job.with_state(after(job)).with_status(failed=frozenset({1}))
    decision = hurried.with_facts(written_seconds=0.5).decide()
    assert not any(isinstance(one, Remove) for one in decision.actions)
    assert decision.wake_after_seconds <= 1.5
    stored = hurried.with_facts(written_seconds=2.0).decide()
    assert [one.worker_id for one in stored.actions if isinstance(one, Remove)] == [2]


def test_who_ends_as_it_should_is_not_remembered() -> None:
    assert not after(training_job(PodEnd(exit_code=143), deleting=True)).failed
    over = a_job(2, min=1).training(0).with_worker(1, end=OOM, phase=PodPhase.FAILED)
    assert not after(over).failed


DEPARTED = LastWords(Ending.DEPARTED, message="it was not needed any more")


@pytest.mark.parametrize(
    ("end", "phase", "completes"),
    [
        pytest.param(PodEnd(exit_code=0), PodPhase.SUCCEEDED, True, id="all end well"),
        pytest.param(PodEnd(exit_code=0), PodPhase.RUNNING, True, id="another one runs on"),
        pytest.param(PodEnd(exit_code=0), PodPhase.FAILED, True, id="another one fails"),
        pytest.param(
            PodEnd(exit_code=0, words=DEPARTED), PodPhase.SUCCEEDED, False, id="it departed"
        ),
        pytest.param(PodEnd(), PodPhase.SUCCEEDED, False, id="nobody knows how it ended"),
    ],
)
def test_only_a_trainer_completes_a_job_and_no_other_container_fails_one(
    end: PodEnd, phase: PodPhase, completes: bool
) -> None:
    status = after(training_job(end, phase=phase))
    assert (status.phase is Phase.SUCCEEDED, failures(status)) == (completes, None)
