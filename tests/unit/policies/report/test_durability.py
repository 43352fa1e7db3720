"""A store that fails is said while it fails, with what is at stake, and clears by itself."""

from datetime import timedelta

from spotrun.api.meta import ConditionStatus
from spotrun.api.names import ConditionType, Phase, Reason
from spotrun.policies.report.events import announcements
from spotrun.state.conditions import find
from spotrun.state.job_state import JobState
from spotrun.state.stored.statements import Condition
from spotrun.state.stored.training import AcknowledgedCheckpoint
from spotrun.wire import Progress
from tests.support.jobs.builders import NOW, JobBuilder, a_job

EXPIRED = "step-20.g1 could not be written to s3://bucket/job: the credentials have expired"
PLACE = {"checkpoint": {"uri": "s3://bucket/prefix"}}


def a_saving_job(*failures: str | None, saved: int | None = None, **spec: object) -> JobBuilder:
    """A job whose workers say this of their saves; the first may have saved a step."""
    job = a_job(len(failures), **(PLACE | spec)).training(*range(len(failures)))
    for worker_id, failure in enumerate(failures):
        told = Progress(1, 20, save_failure=failure)
        committed = f"step-{saved}.g1" if saved and not worker_id else None
        job = job.with_worker(worker_id, ready=True, arrived=1, progress=told, committed=committed)
    return job.with_facts(written_seconds=600.0)


def durable(status: JobState) -> Condition | None:
    return find(status, ConditionType.CHECKPOINTS_DURABLE)


def after(job: JobBuilder, status: JobState, minutes: float) -> JobState:
    return job.with_state(status).decide(NOW + timedelta(minutes=minutes)).status


def test_why_and_since_when_and_how_old_the_newest_checkpoint_is() -> None:
    job = a_saving_job(None, EXPIRED)
    old = AcknowledgedCheckpoint("step-10.g1", 10, NOW - timedelta(minutes=25))
    first = job.with_status(checkpoint=old).decide(NOW)
    stated = durable(first.status)
    assert stated is not None
    assert (stated.status, stated.reason) == (ConditionStatus.FALSE, Reason.SAVE_FAILED.value)
    assert stated.message == f"the newest durable checkpoint, step-10.g1, is 25m old. {EXPIRED}"
    later = durable(after(job, first.status, 60))
    assert later is not None
    assert later.last_transition_time == NOW
    assert "is 1h old" in later.message
    assert first.status.phase is Phase.RUNNING, "training goes on"


def test_one_that_never_saved_anything_says_so() -> None:
    stated = durable(a_saving_job(EXPIRED).decide(NOW).status)
    assert stated is not None
    assert stated.message == f"no checkpoint is durable, and saves fail. {EXPIRED}"


def test_it_clears_with_the_next_durable_checkpoint_and_both_are_events() -> None:
    before = a_saving_job(None, saved=10).decide(NOW).status
    failed = after(a_saving_job(EXPIRED), before, 1)
    gone = after(a_saving_job(None), failed, 2)  # another process, which has saved nothing yet
    stated = durable(gone)
    assert stated is not None
    assert stated.status is ConditionStatus.FALSE
    cleared = after(a_saving_job(None, saved=30), gone, 3)
    stated = durable(cleared)
    assert stated is not None
    assert (stated.status, stated.message) == (
        ConditionStatus.TRUE,
        "step-30.g1 is durable: the store can be written again",
    )
    said = [
        (one.reason, one.is_warning)
        for old, new in ((before, failed), (failed, gone), (gone, cleared))
        for one in announcements(old, new)
        if "durable" in one.message
    ]
    assert said == [(Reason.SAVE_FAILED, True), (Reason.TRAINING, False)]


def test_nothing_is_said_of_saves_that_succeed_or_that_nobody_wants() -> None:
    assert durable(a_saving_job(None, saved=10).decide(NOW).status) is None
    assert durable(a_saving_job(EXPIRED, checkpoint=None).decide(NOW).status) is None
