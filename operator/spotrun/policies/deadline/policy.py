"""The deadline: once it has passed, the job ends if its spec says so; otherwise it continues."""

from dataclasses import replace
from datetime import datetime

from spotrun.api.names import ConditionType, Phase, Reason
from spotrun.api.spec.limits import Deadline, OnMissed
from spotrun.policies.policy import Policy
from spotrun.state.conditions import state
from spotrun.state.job_state import JobState
from spotrun.state.view import FINISHED, View


def finishes_by(view: View) -> datetime | None:
    """The time by which the job should be finished; None without a deadline."""
    deadline, start = view.job.spec.deadline, view.job.created_at
    if deadline is None:
        return None
    return view.once_unlimited("deadline", (), lambda: _moment(deadline, start))


def keep_deadline(view: View, status: JobState) -> JobState:
    """State that the deadline has passed, and end the job if its spec says so."""
    moment, deadline = finishes_by(view), view.job.spec.deadline
    if moment is None or deadline is None or status.phase in FINISHED or view.now < moment:
        return status
    reason, kind = Reason.DEADLINE_MISSED, ConditionType.ON_SCHEDULE
    message = f"the job did not finish before its deadline, {moment:%Y-%m-%dT%H:%M:%SZ}"
    status = state(view, status, kind, reason, message, holds=False)
    if deadline.on_missed is not OnMissed.FAIL or not view.is_time_sure:
        return status
    status = replace(status, phase=Phase.FAILED, reason=reason.value, message=message)
    return state(view, status, ConditionType.FAILED, reason, message, holds=True)


def deadline_wake_after_seconds(view: View, _status: JobState) -> float | None:
    """Return the seconds until the deadline; None without one."""
    moment = finishes_by(view)
    return None if moment is None else (moment - view.now).total_seconds()


def _moment(deadline: Deadline, created_at: datetime) -> datetime:
    if deadline.finish_before is not None:
        return deadline.finish_before.datetime
    assert deadline.finish_within is not None, "a deadline has one of the two"
    return created_at + deadline.finish_within.timedelta


DEADLINE = Policy(keep_deadline, wake_after_seconds=deadline_wake_after_seconds)
