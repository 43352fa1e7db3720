"""Writes to Kubernetes that keep failing: reported with the API server's answer."""

from spotrun.api.field_types.bounded import MAX_MESSAGE_CHARS
from spotrun.api.names import ConditionType, Reason
from spotrun.policies.policy import Policy
from spotrun.state.conditions import state, unsay
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import JobSnapshot
from spotrun.state.view import View


def check_writes(view: View, status: JobState) -> JobState:
    """State that a decision cannot be carried out; clear this silently once it can."""
    words, kind = why_undone(view.job), ConditionType.WRITTEN
    if words is None:
        return unsay(status, kind)
    return state(view, status, kind, Reason.WRITE_FAILED, words, holds=False)


def why_undone(job: JobSnapshot) -> str | None:
    """Return which write keeps failing, and the answer; None if no write does.

    The number of attempts is left out: otherwise each attempt would change the status.
    """
    if job.undone is None:
        return None
    return f"{job.undone.what} keeps failing: {job.undone.words}"[:MAX_MESSAGE_CHARS]


WRITE_FAILURES = Policy(check_writes)
