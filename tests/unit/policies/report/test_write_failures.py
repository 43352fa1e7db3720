"""Writes that keep failing are told of, with the API server's words."""

import pytest

from spotrun.api.names import ConditionType, Phase, Reason
from spotrun.policies.report.events import announcements
from spotrun.state.actions import Announce
from spotrun.state.conditions import find
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import Undone
from tests.support.jobs.builders import JobBuilder, a_job

DOWN = Undone("the creation of workers of template t1", 'failed calling webhook "pods.example.com"')
WORDS = f"{DOWN.what} keeps failing: {DOWN.words}"


def written(status: JobState) -> tuple[str, str, str] | None:
    found = find(status, ConditionType.WRITTEN)
    return (found.status.value, found.reason, found.message) if found is not None else None


@pytest.mark.parametrize(
    ("job", "said"),
    [
        pytest.param(
            a_job(2, min=2), (Phase.PENDING, Reason.WRITE_FAILED, WORDS), id="nobody can be made"
        ),
        pytest.param(
            a_job(3, min=1).training(0, 1),
            (Phase.RUNNING, Reason.TRAINING, f"2 workers train; {WORDS}"),
            id="enough train",
        ),
        pytest.param(
            a_job(1, suspend=True).training(0),
            (
                Phase.SUSPENDED,
                Reason.SUSPENDED_BY_USER,
                f"User: spec.suspend is true; 1 workers are still there; {WORDS}",
            ),
            id="nobody can be removed",
        ),
    ],
)
def test_a_write_that_keeps_failing_is_told_of_in_status_and_events(
    job: JobBuilder, said: tuple[Phase, Reason, str]
) -> None:
    status = job.with_facts(undone=DOWN).decide().status
    assert (status.phase, status.reason, status.message) == (said[0], said[1].value, said[2])
    assert written(status) == ("False", "WriteFailed", WORDS)
    reported = Announce(Reason.WRITE_FAILED, WORDS, is_warning=True)
    assert reported in announcements(job.status, status)
    again = job.with_state(status).with_facts(undone=DOWN).decide().status
    assert reported not in announcements(status, again)


def test_once_it_succeeds_again_nothing_is_said_of_it_any_more() -> None:
    failing = a_job(1).training(0).with_facts(undone=DOWN)
    healed = failing.with_state(failing.decide().status).with_facts(undone=None)
    status = healed.decide().status
    assert written(status) is None
    assert status.message == "1 workers train"


def test_of_writes_that_always_succeeded_nothing_is_said() -> None:
    assert written(a_job(1).training(0).decide().status) is None


def test_why_a_deleted_job_is_still_there_is_said() -> None:
    job = a_job(1).training(0).with_facts(deleting=True)
    assert job.decide().status == job.status
    assert written(job.with_facts(undone=DOWN).decide().status) == ("False", "WriteFailed", WORDS)
