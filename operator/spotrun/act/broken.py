"""The status of a job that cannot be decided: as it was, with the reason. Pure."""

from datetime import datetime

from spotrun.api.meta import Condition, ConditionStatus, ReasonText
from spotrun.api.names import ConditionType, Phase, Reason
from spotrun.api.status import TrainingJobStatus
from spotrun.api.values import Time
from spotrun.observe.snapshot import BrokenJob


def broken_status(broken: BrokenJob, now: datetime) -> TrainingJobStatus:
    """Say what is wrong and touch nothing else: numbers and money must not be forgotten."""
    assert broken.status is not None, "a status that cannot be read is not written"
    kind, reason = ConditionType.TEMPLATE_ACCEPTED.value, Reason.TEMPLATE_REFUSED.value
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
