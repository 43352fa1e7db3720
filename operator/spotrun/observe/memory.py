"""What is known of a job only as long as the process lives; losing it costs time, never truth."""

from collections import deque
from dataclasses import dataclass, field

from spotrun.decide.snapshot import JobSnapshot, Refusal


@dataclass
class Refused:
    """Kubernetes refuses this job's pods; moments are on the monotonic clock."""

    refusal: Refusal
    template: str  # another template is tried at once
    times: int = 1
    retry_at: float = 0.0


@dataclass
class Memory:
    """One job's; `act` writes what it did, `observe` what it saw."""

    written_at: float = float("-inf")  # when status was last written
    conflicts: int = 0  # writes of status in a row that somebody else's had overtaken
    lost_at: dict[int, float] = field(default_factory=dict)  # when each loss was first seen
    missed_at: dict[int, float] = field(default_factory=dict)  # when both neighbours missed it
    refused: Refused | None = None
    accepted: str | None = None  # the template of which a dry run accepted a pod
    is_restricted: bool = False  # the namespace takes none but pods of Pod Security's `restricted`
    policy_at: float = float("-inf")  # when its NetworkPolicy was last made
    budget_at: float = float("-inf")  # when its PodDisruptionBudget was last made
    last: JobSnapshot | None = None  # as it was stored last, without its workers
    event_times: deque[float] = field(default_factory=deque)
