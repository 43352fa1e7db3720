"""Jobs that have ended, whose workers may still be there."""

from typing import Any

from spotrun.api.names import ConditionType, Phase, Reason
from spotrun.state.conditions import state
from spotrun.state.job_state import JobState
from tests.support.jobs.builders import JobBuilder, a_job, ago

MEMBER, SPARE = 0, 1


def over(kind: ConditionType, seconds_ago: float, **spec: Any) -> JobBuilder:
    """A job that has ended; one worker trained at last, and another one waited."""
    view = a_job(2, **spec).view(ago(seconds_ago))
    status = state(view, JobState(), kind, Reason.COMPLETED, "", holds=True)
    phase = Phase.SUCCEEDED if kind is ConditionType.COMPLETE else Phase.FAILED
    job = a_job(2, **spec).training(MEMBER).with_worker(SPARE, ready=True)
    return job.with_status(conditions=status.conditions, phase=phase)


def succeeded(seconds_ago: float, **spec: Any) -> JobBuilder:
    return over(ConditionType.COMPLETE, seconds_ago, **spec)
