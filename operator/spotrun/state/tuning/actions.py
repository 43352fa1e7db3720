"""Actions on the trials of a search, each with its reason."""

from dataclasses import dataclass

from spotrun.api.tuning.words import TuningReason
from spotrun.money.units import Usd
from spotrun.search.space import Values
from spotrun.state.tuning.tuning_state import TuningState


@dataclass(frozen=True)
class CreateTrial:
    """Make the TrainingJob of a trial; its name is a function of search and number."""

    number: int
    values: Values
    cap_usd: Usd | None


@dataclass(frozen=True)
class SuspendTrial:
    """Take the workers of a trial away, after a checkpoint, or let it go on."""

    number: int
    uid: str
    suspend: bool
    why: str


@dataclass(frozen=True)
class DeleteTrial:
    """Delete the TrainingJob of a trial that has ended, if it is still this one."""

    number: int
    uid: str
    why: str


TuningAction = CreateTrial | SuspendTrial | DeleteTrial


@dataclass(frozen=True)
class TuningNews:
    """An event on the search, for people."""

    reason: TuningReason
    message: str
    is_warning: bool = False


@dataclass(frozen=True)
class TuningDecision:
    """The next status, and what may be done as soon as it is stored."""

    status: TuningState
    actions: tuple[TuningAction, ...] = ()
    news: tuple[TuningNews, ...] = ()
    num_wanted: int = 0  # trials that could begin now, if their values were known
    wake_after_seconds: float = float("inf")
