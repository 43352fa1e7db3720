"""The state of a SpendLimit, as decisions carry it; each field is explained in the CRD."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from spotrun.api.field_types.amounts import Percent
from spotrun.api.names import Choice
from spotrun.money.units import NO_USD, Usd
from spotrun.state.stored.statements import Condition


class SpendCondition(Choice):
    """The conditions of a SpendLimit."""

    WITHIN_LIMIT = "WithinLimit", "less is spent than limitUsd"
    BELOW_WARNING = "BelowWarning", "less is spent than warnAtPercent of limitUsd"
    STARTS_ALLOWED = "StartsAllowed", "no job is held or stopped by this limit"


class SpendReason(StrEnum):
    """The reasons in these conditions."""

    WITHIN = "Within"
    EXCEEDED = "Exceeded"
    WARNING = "Warning"
    HOLDS = "HoldsJobs"


@dataclass(frozen=True, slots=True)
class SpendState:
    """Everything that is stored about a SpendLimit."""

    observed_generation: int | None = None
    message: str | None = None
    period_start: datetime | None = None
    period_end: datetime | None = None
    spent_usd: Usd = NO_USD
    deleted_usd: Usd = NO_USD
    reserved_usd: Usd = NO_USD
    forecast_usd: Usd | None = None
    used_percent: Percent | None = None
    running: int = 0
    held: int = 0
    suspended: int = 0
    held_jobs: tuple[str, ...] = ()
    suspended_jobs: tuple[str, ...] = ()
    closing: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    as_of: datetime | None = None
