"""The operator's memory of a job's sizes, as decisions carry it: which were faster, which not.

It is stored, so an operator that restarts does not measure or try a size again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Measured:
    """The speed of a world of some size; shares are those of a step."""

    workers: int
    step_seconds: Decimal
    samples_per_second: Decimal
    time: datetime
    compute: Decimal | None = None
    data: Decimal | None = None
    accelerator: str = ""


@dataclass(frozen=True, slots=True)
class Rejected:
    """An increase of the size that was reverted."""

    workers: int  # this size and larger ones are not tried
    until: datetime
    efficiency: Decimal | None = None


@dataclass(frozen=True, slots=True)
class SizeChange:
    """A change of the wanted size."""

    time: datetime
    before: int
    after: int
    reason: str


@dataclass(frozen=True, slots=True)
class ScalingState:
    """The reason for the size of a job in mode Auto; each field is explained in the CRD."""

    size: int | None = None
    replaces: int | None = None
    reason: str | None = None
    utilization: Mapping[str, Decimal] = field(default_factory=dict)
    more_since: datetime | None = None
    fewer_since: datetime | None = None
    efficiency: Mapping[str, Decimal] = field(default_factory=dict)
    measured: tuple[Measured, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    last: SizeChange | None = None
    decisions: Mapping[str, int] = field(default_factory=dict)


NO_SCALING = ScalingState()
"""The state before anything was decided about the size, as always in mode Manual."""
