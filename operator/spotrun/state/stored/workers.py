"""The workers of a job, as decisions carry their part of the status: counts and losses.

Each field is explained at its name in the CRD.
"""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Allowed:
    """The largest size the job may have now, and what limits it."""

    size: int
    reason: str


@dataclass(frozen=True, slots=True)
class WorkerCounts:
    """The numbers of workers, as `kubectl get` shows them."""

    summary: str | None = None
    running: int | None = None
    spot: int | None = None
    on_demand: int | None = None
    allowed: Allowed | None = None
    selector: str | None = None


NO_COUNTS = WorkerCounts()
"""The state before workers were counted."""


@dataclass(frozen=True, slots=True)
class Interruption:
    """One worker taken away by its platform."""

    time: datetime
    worker: int
    reason: str
    pool: str | None = None
    node: str | None = None


@dataclass(frozen=True, slots=True)
class Interruptions:
    """Workers taken away by the platform, which is not a failure."""

    count: int = 0
    lost_steps: int = 0  # steps that were done again because of them
    last: Interruption | None = None


NO_INTERRUPTIONS = Interruptions()
"""The state while no worker was taken away."""


@dataclass(frozen=True, slots=True)
class GivenWay:
    """The room that a job gave, or gives, to one of higher priority."""

    to: str
    uid: str
    workers: int  # the most that it keeps; 0: it is suspended
    since: datetime
    until: datetime | None = None  # when it got its room back
