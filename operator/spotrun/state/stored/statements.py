"""The statements of a status, as decisions carry them: conditions, and what was decided and why.

Each field is explained at its name in the CRD.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from spotrun.api.meta import ConditionStatus, ReasonText


@dataclass(frozen=True, slots=True)
class Condition:
    """One aspect of the job's state; other programs may have written conditions of their own."""

    type: ReasonText
    status: ConditionStatus
    last_transition_time: datetime
    reason: ReasonText
    message: str
    observed_generation: int | None = None


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """A decision that people can read later; a decision to change nothing is recorded too."""

    time: datetime
    what: str
    why: str
    numbers: Mapping[str, str] = field(default_factory=dict)
