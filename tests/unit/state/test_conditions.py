from spotrun.api.field_types.bounded import MAX_MESSAGE_CHARS
from spotrun.api.names import ConditionType, Reason
from spotrun.state.conditions import holds_since, record, state
from spotrun.state.job_state import JobState
from tests.support.jobs.builders import a_job, ago
from tests.support.jobs.stored_state import stored


def test_a_condition_remembers_when_it_changed() -> None:
    job, kind = a_job(1), ConditionType.RUNNING
    first = state(job.view(ago(9)), job.status, kind, Reason.TRAINING, "a", holds=True)
    same = state(job.view(), first, kind, Reason.TRAINING, "a", holds=True)
    assert same is first
    reworded = state(job.view(), first, kind, Reason.RESIZING, "b", holds=True)
    assert holds_since(reworded, kind) == ago(9)
    changed = state(job.view(), reworded, kind, Reason.RESIZING, "b", holds=False)
    assert holds_since(changed, kind) is None


def test_the_last_ten_decisions_are_kept() -> None:
    job, status = a_job(1), JobState()
    for number in range(12):
        status = record(job.view(), status, "World", str(number), {})
    assert [decision.why for decision in status.decisions] == [str(n) for n in range(2, 12)]


def test_a_decision_that_is_explained_at_length_is_one_that_can_be_stored() -> None:
    status = record(a_job(1).view(), JobState(), "Grow", "because " * MAX_MESSAGE_CHARS, {})
    assert len(stored(status).decisions[-1].why) == MAX_MESSAGE_CHARS
