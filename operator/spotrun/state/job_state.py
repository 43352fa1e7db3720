"""The state of a job, as the decisions carry it from one look to the next.

It is stored in `TrainingJobStatus`, whose words and forms are those of the CRD: `codec.py` reads it
from there and writes it back. Policies change it with `dataclasses.replace`, which mypy checks.
"""

from dataclasses import dataclass

from spotrun.api.cost import Accumulators, Cost
from spotrun.api.field_types.text_values import Intervals, Serials
from spotrun.api.meta import Condition
from spotrun.api.names import Phase, SuspendedBy
from spotrun.api.scaling import ScalingStatus
from spotrun.api.status import (
    CheckpointStatus,
    Decision,
    Interruptions,
    Orders,
    Pace,
    Progress,
    Rejections,
    Restarts,
    TrainingJobStatus,
    Unused,
    WorkersStatus,
    World,
)


@dataclass(frozen=True, slots=True)
class JobState:
    """Everything that is stored about a job; each field is explained at its name in the CRD."""

    phase: Phase | None = None
    reason: str | None = None
    message: str | None = None
    observed_generation: int | None = None
    suspended_by: tuple[SuspendedBy, ...] | None = None
    workers: WorkersStatus | None = None
    world: World | None = None
    progress: Progress | None = None
    checkpoint: CheckpointStatus | None = None
    pace: Pace | None = None
    scaling: ScalingStatus | None = None
    orders: Orders | None = None
    interruptions: Interruptions | None = None
    restarts: Restarts | None = None
    rejections: Rejections | None = None
    unused: Unused | None = None
    cost: Cost | None = None
    decisions: tuple[Decision, ...] | None = None
    conditions: tuple[Condition, ...] | None = None
    next_serial: int | None = None
    settled: Intervals | None = None
    lost: Serials | None = None
    failed: Serials | None = None
    accumulators: Accumulators | None = None
    # A status that no operator can have written: it stays as it is, except for what is said of it.
    unread: TrainingJobStatus | None = None
