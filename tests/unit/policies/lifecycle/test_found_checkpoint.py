"""A job that was made anew under its name goes on from what lies in its folder."""

from dataclasses import replace
from typing import Any

import pytest

from spotrun.api.names import Phase
from spotrun.api.status import Entry
from spotrun.policies.cost.goodput.steps import first_step
from spotrun.policies.failures.hang import is_hung
from spotrun.state.job_state import JobState
from spotrun.state.stored.training import AcknowledgedCheckpoint
from spotrun.state.stored.workers import NO_INTERRUPTIONS
from spotrun.wire import Progress
from tests.support.jobs.builders import NOW, ON_CLAIM, JobBuilder, a_job

FOUND = "step-9000.g5"


def going_on(
    step: int = 9000, restored: str | None = FOUND, world_number: int = 1, **worker: Any
) -> JobBuilder:
    """Two workers of a job that knows of no checkpoint; the first says what it went on from."""
    reported = Progress(1, step, total=10_000, step_seconds=1.0, restored=restored)
    job = a_job(2, checkpoint=ON_CLAIM).training(0, 1, world_number=world_number)
    changes = {"committed": FOUND, "arrived": 1, "progress": reported, **worker}
    return job.with_worker(0, ready=True, **changes)


def restores(status: JobState) -> list[str]:
    return [one.why for one in status.decisions if one.what == "Restore"]


def test_what_was_found_is_acknowledged_and_said_once() -> None:
    status = going_on().decide().status
    assert status.checkpoint == AcknowledgedCheckpoint(name=FOUND, step=9000, time=NOW)
    assert status.world.restore == FOUND
    assert restores(status) == [f"training continues from {FOUND}, which was in the job's folder"]
    assert (status.progress.step, status.progress.total_steps) == (9000, 10_000)
    assert status.interruptions == NO_INTERRUPTIONS  # no step was lost
    again = replace(going_on(step=9001), status=status).decide().status
    assert restores(again) == restores(status)


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(going_on(restored=None), id="it was saved here"),
        pytest.param(going_on(restored="step-8500.g5"), id="another one has been saved since"),
        pytest.param(going_on(committed=None), id="nobody says that it is durable"),
        pytest.param(going_on(world_number=2, arrived=2), id="it was said of the world before"),
    ],
)
def test_nothing_was_found(job: JobBuilder) -> None:
    status = job.decide().status
    assert (status.world.restore, restores(status)) == (None, [])


def test_the_steps_before_it_are_not_this_jobs_work() -> None:
    job = going_on(step=9010)
    job = replace(job, status=job.decide().status)
    assert first_step(job.view(), job.status, 9010, seconds=1) == 9000  # type: ignore[arg-type]


def test_loading_it_is_no_step_that_hangs() -> None:
    stands = going_on(progress_for=5_000.0, restored=None)  # it has made its steps here
    assert is_hung(stands.view(), stands.status)
    job = going_on(progress_for=5_000.0)
    assert not is_hung(job.view(), job.status)
    job = replace(job, status=job.decide().status)
    assert not is_hung(job.view(), job.status)
    assert job.status.phase is Phase.RUNNING


def test_the_next_world_is_told_of_it() -> None:
    job = going_on()
    lost = replace(job, status=job.decide().status).without(0).without(1)
    lost = lost.with_facts(lost_seconds={0: 1.0, 1: 1.0})
    for _ in range(3):  # without members, with new ones, and with its store
        lost = replace(lost, status=lost.decide().status).with_workers(2, 3, ready=True)
    world = lost.status.world
    assert (world.members, world.entry, world.restore) == ((2, 3), Entry.RESTART, FOUND)


def test_a_training_that_was_complete_already_says_so() -> None:
    status = going_on(completed=True).decide().status
    assert status.phase is Phase.SUCCEEDED
    assert status.message == (
        f"the training was complete already: it continued from {FOUND}, which was in the job's "
        "folder, and had no step left; to train from the beginning, give the job another name, or "
        "remove that folder"
    )


def test_one_that_went_on_and_came_to_its_end_does_not() -> None:
    status = going_on(step=10_000, committed="step-10000.g1", completed=True).decide().status
    assert status.phase is Phase.SUCCEEDED
    done = "the training is complete and its last checkpoint durable: step-10000.g1"
    assert status.message == done
