import math
from datetime import timedelta
from typing import Any

import pytest

from spotrun.agents.answers import Answers, Published
from spotrun.api.names import Phase, Reason
from spotrun.policies.lifecycle.suspension import CHECKPOINT_SECONDS
from spotrun.state.codec import read, write
from spotrun.state.stored.training import NO_COURSE, MetricCourse
from spotrun.wire import Metric, Progress
from tests.support.jobs.builders import NOW, ON_CLAIM, JobBuilder, a_job, ago, later

ON_LOSS = {"metric": "loss", "noBetterReports": 2}


def stopping(*, seconds_ago: float = 5.0, **worker: Any) -> JobBuilder:
    """Return a job whose end by its metric was decided and stored."""
    decided = MetricCourse(
        "loss", 1.0, 10, 30, 2, ago(seconds_ago), Reason.NO_IMPROVEMENT.value, "no better"
    )
    job = a_job(1, stopWhen=ON_LOSS, checkpoint=ON_CLAIM).training(0, **worker)
    return job.with_status(stop_when=decided)


def reporting(step: int, loss: float) -> dict[str, Any]:
    return {"progress": Progress(1, step, metrics=(Metric("loss", loss, step),))}


def test_the_state_survives_a_restart_of_the_operator() -> None:
    job = a_job(1, stopWhen=ON_LOSS)
    for step, loss in ((10, 1.0), (20, 2.0), (20, 2.0), (30, math.nan)):
        status = job.training(0, **reporting(step, loss)).decide().status
        job = job.with_state(read(write(status)))
    assert job.status.stop_when.reason == Reason.NO_IMPROVEMENT.value
    assert job.status.phase is not Phase.SUCCEEDED


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        # its trainer ends with the next step: that is waited for
        (stopping().with_checkpoint(30, seconds_ago=1), None),
        (stopping(completed=True).with_checkpoint(31, seconds_ago=1), Reason.NO_IMPROVEMENT),
        # an older trainer does not, but saves from time to time
        (stopping(seconds_ago=CHECKPOINT_SECONDS).with_checkpoint(20, 200.0), None),
        (stopping(seconds_ago=CHECKPOINT_SECONDS).with_checkpoint(35), Reason.NO_IMPROVEMENT),
        (stopping(seconds_ago=CHECKPOINT_SECONDS), None),
        # a framework's loop saves on order
        (stopping(in_process=False, saves_on_order=True).with_checkpoint(20), None),
        (
            stopping(in_process=False, saves_on_order=True).with_checkpoint(30, seconds_ago=1),
            Reason.NO_IMPROVEMENT,
        ),
        # a script that knows nothing of orders saves when it is ended
        (stopping(in_process=False, saves_on_order=False), Reason.NO_IMPROVEMENT),
    ],
)
def test_a_job_ends_well_once_its_last_step_is_saved(
    job: JobBuilder, reason: Reason | None
) -> None:
    status = job.decide().status
    assert (status.phase is Phase.SUCCEEDED) is (reason is not None)
    assert not reason or status.reason == reason.value


def test_a_loop_that_only_saves_on_order_is_asked_to_save() -> None:
    orders = stopping(in_process=False, saves_on_order=True).decide().status.orders
    assert (orders.checkpoint, orders.asked_at) == (1, NOW)
    assert stopping().decide().status.orders.checkpoint == 0


def test_nothing_follows_from_an_end_before_it_is_stored() -> None:
    told = Progress(1, 30, metrics=(Metric("loss", 0.5, 30),))
    job = a_job(1, stopWhen={"metric": "loss", "goal": "1"}, checkpoint=ON_CLAIM)
    job = job.training(0, in_process=False, saves_on_order=False, progress=told)
    status = job.decide().status
    assert (status.stop_when.decided_at, status.phase) == (NOW, Phase.RUNNING)
    assert job.with_state(status).decide().status.phase is Phase.SUCCEEDED


def test_the_trainer_is_told_to_stop_once_that_is_stored() -> None:
    def told(job: JobBuilder) -> int:
        published = Published("ns", "job", "uid", job.status, {}, processes=1)
        return Answers(published, b"key").answer(0).orders.stop

    assert told(stopping()) == 1
    assert told(a_job(1, stopWhen=ON_LOSS).training(0)) == 0


def test_nobody_waits_longer_than_a_checkpoint_takes() -> None:
    job = stopping(seconds_ago=2).with_checkpoint(31, seconds_ago=1)
    assert job.decide().wake_after_seconds <= CHECKPOINT_SECONDS
    now = later(CHECKPOINT_SECONDS) + timedelta(seconds=1)
    assert job.decide(now).status.phase is Phase.SUCCEEDED


def test_a_job_without_a_stop_when_forgets_its_metric() -> None:
    assert stopping().with_spec(1).decide().status.stop_when == NO_COURSE
