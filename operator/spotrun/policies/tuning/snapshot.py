"""A search and its trials' TrainingJobs, as known at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from spotrun.api.tuning.tuningjob import TuningJobSpec
from spotrun.money.units import UsdPerHour
from spotrun.policies.tuning.state import NOTHING_TRIED, TuningState
from spotrun.search.trial import Report
from spotrun.state.job_state import JobState

MetricValues = Mapping[str, tuple[int, float]]
"""The newest value of each reported metric with its step."""


@dataclass(frozen=True, slots=True)
class Child:
    """The TrainingJob of a trial."""

    name: str
    uid: str
    version: str
    state: JobState
    folder: str  # of its checkpoints
    metrics: MetricValues = field(default_factory=dict)
    is_suspended: bool = False  # spec.suspend
    is_current: bool = False  # whether the state was concluded from the present spec
    is_deleting: bool = False


@dataclass(frozen=True)
class TuningSnapshot:
    """A search and what is known of its trials."""

    namespace: str
    name: str
    uid: str
    version: str
    generation: int
    created_at: datetime
    spec: TuningJobSpec
    status: TuningState = NOTHING_TRIED
    children: Mapping[int, Child] = field(default_factory=dict)  # by the number of the trial
    gone: frozenset[int] = frozenset()  # trials whose job the API server does not find
    taken: frozenset[int] = frozenset()  # trials whose name is taken by another job
    refused: Mapping[int, str] = field(default_factory=dict)  # by trial: the API server's words
    over_quota: Mapping[int, str] = field(default_factory=dict)  # by trial: a quota's words
    is_deleting: bool = False
    usd_per_hour: UsdPerHour | None = None  # the market's price of a whole trial, if it is known
    unwritten: Mapping[int, tuple[Report, ...]] = field(default_factory=dict)
    """Reports by trial that were seen since the status was written, its own last ones included."""
    free_workers: int = 0  # that fit on existing nodes, counting only spotrun's own pods
    written_seconds: float = float("inf")  # since the status was last written

    def job_name(self, number: int) -> str:
        """The name of a trial's TrainingJob: a function of the search and the number alone."""
        return f"{self.name}-{number}"
