"""The state of a search, as decisions use it; the CRD explains each field under its name."""

from dataclasses import dataclass, field
from datetime import datetime

from spotrun.api.tuning.words import TrialPhase, TuningPhase, TuningReason
from spotrun.money.units import NO_USD, Usd
from spotrun.search.space import Values
from spotrun.search.trial import Report
from spotrun.state.stored.statements import Condition

ENDED = frozenset({TrialPhase.SUCCEEDED, TrialPhase.PRUNED, TrialPhase.STOPPED, TrialPhase.FAILED})
"""The phases of trials that cost nothing more."""
OVER = frozenset({TuningPhase.SUCCEEDED, TuningPhase.FAILED})
"""The phases of searches for which no more actions are needed."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial."""

    number: int
    values: Values
    phase: TrialPhase = TrialPhase.PENDING
    value: float | None = None  # NaN and infinities stay what they are
    step: int | None = None
    course: tuple[Report, ...] = ()  # by step, each step once
    rung: int | None = None  # the step of the last rung at which it was compared and continued
    usd: Usd = NO_USD
    cap_usd: Usd | None = None
    expected_usd: Usd | None = None
    reason: TuningReason | None = None
    message: str | None = None
    parent: int | None = None  # the trial from whose checkpoint it began
    checkpoint: str | None = None
    outcome: TrialPhase | None = None  # while it is Stopping; Succeeded: it ends by itself
    begun_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it costs nothing more."""
        return self.phase in ENDED

    @property
    def is_complete(self) -> bool:
        """Whether its training is complete and durable; its workers may still be ending."""
        is_ending = self.phase is TrialPhase.STOPPING and self.outcome is TrialPhase.SUCCEEDED
        return is_ending or self.phase is TrialPhase.SUCCEEDED

    @property
    def trains(self) -> bool:
        """Whether it may still train; one that does not has given its place back."""
        return not (self.has_ended or self.is_complete)


@dataclass(frozen=True, slots=True)
class Best:
    """The best trial so far."""

    trial: int
    name: str
    value: float
    step: int | None
    values: Values
    checkpoint: str | None


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of trials."""

    most: int = 0
    running: int = 0
    succeeded: int = 0
    pruned: int = 0
    stopped: int = 0
    failed: int = 0

    @property
    def ended(self) -> int:
        """The number of trials that cost nothing more."""
        return self.succeeded + self.pruned + self.stopped + self.failed


@dataclass(frozen=True, slots=True)
class TuningCost:
    """The cost of the search."""

    usd: Usd = NO_USD
    reserved_usd: Usd | None = None
    forecast_usd: Usd | None = None
    trial_usd: Usd | None = None
    epoch_usd: Usd | None = None
    saved_by_pruning_usd: Usd | None = None
    budget_used_percent: int | None = None
    as_of: datetime | None = None


NO_TRIALS = Counts()
NO_TUNING_COST = TuningCost()


@dataclass(frozen=True, slots=True)
class TuningState:
    """Everything that is stored about a search."""

    phase: TuningPhase | None = None
    reason: TuningReason | None = None
    message: str | None = None
    observed_generation: int | None = None
    counts: Counts = NO_TRIALS
    best: Best | None = None
    cost: TuningCost = NO_TUNING_COST
    pareto: tuple[int, ...] = ()
    grid_size: int | None = None
    conditions: tuple[Condition, ...] = ()
    trials: tuple[Trial, ...] = field(default=())  # in the order of their numbers
    started_at: datetime | None = None
    ended_at: datetime | None = None


NOTHING_TRIED = TuningState()
"""The state of a search before its first pass."""
