from dataclasses import fields, replace

from hypothesis import given, settings

from spotrun.api.names import Phase
from spotrun.api.status import TrainingJobStatus
from spotrun.state.codec import read, read_said, write
from spotrun.state.job_state import JobState
from tests.support.api.status_strategies import statuses
from tests.support.jobs.stored_state import stored


@given(statuses())
def test_what_was_read_is_written_as_it_was(status: TrainingJobStatus) -> None:
    assert write(read(status)).manifest() == status.manifest()


@settings(max_examples=50)
@given(statuses())
def test_what_was_written_is_read_as_it_was(status: TrainingJobStatus) -> None:
    state = read(status)
    assert stored(state) == state


@given(statuses())
def test_of_a_status_that_cannot_be_true_only_what_is_said_changes(
    status: TrainingJobStatus,
) -> None:
    said = replace(read_said(status), phase=Phase.PENDING, reason="LedgerRefused", message="no")
    changed = {"phase": "Pending", "reason": "LedgerRefused", "message": "no"}
    assert write(said).manifest() == status.manifest() | changed


def test_every_field_that_is_stored_has_a_place_in_the_state() -> None:
    assert {one.name for one in fields(JobState)} == {*TrainingJobStatus.model_fields, "unread"}
