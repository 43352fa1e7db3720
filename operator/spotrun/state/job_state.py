"""The state of a job, as decisions carry it from one pass to the next.

It is stored in `TrainingJobStatus`, in the names and formats of the CRD: `codec.py` reads it from
there and writes it back. Policies change it with `dataclasses.replace`, which mypy checks.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from spotrun.api.field_types.intervals import NO_NUMBERS, Ranges
from spotrun.api.names import Phase, SuspendedBy
from spotrun.api.status import Entry
from spotrun.state.stored.cost import NO_COST, NO_SUMS, Accumulators, Cost
from spotrun.state.stored.failures import NO_RESTARTS, Rejections, Restarts
from spotrun.state.stored.scaling import NO_SCALING, ScalingState
from spotrun.state.stored.statements import Condition, RecordedDecision
from spotrun.state.stored.training import (
    NO_COURSE,
    NO_PACE,
    NO_PROGRESS,
    AcknowledgedCheckpoint,
    BatchChange,
    LocalCheckpoint,
    MetricCourse,
    Pace,
    Progress,
    SavingPlan,
    StageState,
)
from spotrun.state.stored.workers import (
    NO_COUNTS,
    NO_INTERRUPTIONS,
    GivenWay,
    Interruptions,
    WorkerCounts,
)
from spotrun.wire import Metric


@dataclass(frozen=True)
class World:
    """The workers that train together, in rank order; worlds of a job are numbered from 1."""

    number: int = 0
    members: tuple[int, ...] = ()
    is_active: bool = False  # False while it is prepared; its members must enter it once True
    entry: Entry = Entry.RESTART
    store: str | None = None
    # The members of the last world that trained: only they have the state, and they continue to
    # train while the world is prepared.
    state_holders: tuple[int, ...] = ()
    used_stores: tuple[str, ...] = ()
    restore: str | None = None  # the checkpoint it starts from if no worker has newer state
    formed_at: datetime | None = None
    training_number: int | None = None  # the world that trains while this one is prepared
    late_workers: tuple[
        int, ...
    ] = ()  # ascending; a worker is listed once for each time it was left out
    joining_workers: tuple[int, ...] = ()  # the members that did not train before it
    breaks: int = 0  # worlds in a row that broke although no worker was lost
    stage: int = 0  # the place of its stage in spec.stages
    is_planned: bool = False  # whether processes end before it although no worker was lost

    @cached_property
    def member_set(self) -> frozenset[int]:
        """The members, unordered."""
        return frozenset(self.members)

    @cached_property
    def holder_set(self) -> frozenset[int]:
        """The state holders, unordered."""
        return frozenset(self.state_holders)

    @cached_property
    def joining_set(self) -> frozenset[int]:
        """The joining members, unordered."""
        return frozenset(self.joining_workers)


NO_WORLD = World()
"""The state before the first world."""


@dataclass(frozen=True, slots=True)
class Orders:
    """Requests to the workers besides training."""

    checkpoint: int = 0  # the number of extra checkpoints requested so far; it only grows
    asked_at: datetime | None = None  # when the last one was requested


NO_ORDERS = Orders()
"""The state before any checkpoint was requested."""


@dataclass(frozen=True, slots=True)
class Unused:
    """Nodes that were given back, because too few came for any allowed size."""

    count: int = 0  # how often in a row
    size: int = 0  # the number of workers that the job keeps until `retry_at`
    room: int = 0  # more workers that seemed to have nodes; it asks again if there is more room
    retry_at: datetime | None = None
    retried_at: datetime | None = None  # when all workers were last requested again


NOTHING_UNUSED = Unused()
"""The state while no nodes were given back."""


@dataclass(frozen=True, slots=True)
class JobState:
    """Everything that is stored about a job; each field is explained at its name in the CRD."""

    phase: Phase | None = None
    reason: str | None = None
    message: str | None = None
    observed_generation: int | None = None
    suspended_by: tuple[SuspendedBy, ...] | None = None
    workers: WorkerCounts = NO_COUNTS
    world: World = NO_WORLD
    progress: Progress = NO_PROGRESS
    metrics: tuple[Metric, ...] = ()  # by name, each with its step
    stage: StageState | None = None  # None: the job has no stages, or no pass has examined it yet
    stop_when: MetricCourse = NO_COURSE
    checkpoint: AcknowledgedCheckpoint | None = None
    local_checkpoint: LocalCheckpoint | None = None
    saving: SavingPlan | None = None
    pace: Pace = NO_PACE
    scaling: ScalingState = NO_SCALING
    orders: Orders = NO_ORDERS
    interruptions: Interruptions = NO_INTERRUPTIONS
    restarts: Restarts = NO_RESTARTS
    batch_change: BatchChange | None = None
    rejections: Rejections | None = None
    unused: Unused = NOTHING_UNUSED
    gives_way: GivenWay | None = None
    cost: Cost = NO_COST
    decisions: tuple[RecordedDecision, ...] = ()
    conditions: tuple[Condition, ...] = ()
    next_worker_id: int | None = None
    settled: Ranges = NO_NUMBERS
    lost: frozenset[int] = frozenset()
    failed: frozenset[int] = frozenset()
    accumulators: Accumulators = NO_SUMS
    # The JSON of a status that no operator can have written: it stays as it is, except for phase,
    # message and conditions.
    unread: str | None = None
