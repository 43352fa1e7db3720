"""The status of a job that cannot be decided: as it was, with the reason. Pure."""

from datetime import datetime

from spotrun.api.meta import Condition, ConditionStatus, ReasonText
from spotrun.api.names import ConditionType, Phase, Reason
from spotrun.api.status import TrainingJobStatus
from spotrun.api.values import Time
from spotrun.decide.snapshot import JobSnapshot
from spotrun.observe.snapshot import BrokenJob

_MOST_WORDS = 500


def undecided(job: JobSnapshot, error: Exception) -> BrokenJob:
    """A job at which a policy fails: a mistake of ours, and of no harm to other jobs."""
    words = f"{type(error).__name__}: {error}"[:_MOST_WORDS]
    return BrokenJob(
        namespace=job.namespace,
        name=job.name,
        uid=job.uid,
        version=job.version,
        generation=job.generation,
        message=f"the operator failed to decide about this job and tries again: {words}",
        status=job.status,
        kind=ConditionType.DECIDED,
        reason=Reason.UNDECIDED,
    )


def broken_status(broken: BrokenJob, now: datetime) -> TrainingJobStatus:
    """Say what is wrong and touch nothing else: numbers and money must not be forgotten."""
    assert broken.status is not None, "a status that cannot be read is not written"
    kind, reason = broken.kind.value, broken.reason.value
    conditions = broken.status.conditions or ()
    old = next((condition for condition in conditions if condition.type == kind), None)
    is_same = old is not None and old.status is ConditionStatus.FALSE
    condition = Condition(
        type=ReasonText(kind),
        status=ConditionStatus.FALSE,
        observed_generation=broken.generation,
        last_transition_time=old.last_transition_time if old and is_same else Time.of(now),
        reason=ReasonText(reason),
        message=broken.message,
    )
    others = tuple(c for c in conditions if c.type != kind)
    return broken.status.model_copy(
        update={
            "phase": broken.status.phase or Phase.PENDING,
            "reason": reason,
            "message": broken.message,
            "conditions": tuple(sorted((*others, condition), key=lambda c: c.type)),
        }
    )
