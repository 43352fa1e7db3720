"""A TrainingJob for the screens: only the fields that they read are decoded.

msgspec decodes 500 jobs in milliseconds, and its import takes no longer; the import of `api`'s
pydantic models takes 0.2 s. Amounts stay text, as the API server has them.
"""

import msgspec

from spotrun.kube.resource import Meta


class Part(msgspec.Struct, frozen=True, rename="camel"):
    """Fields are read by their names in the API; all may be missing."""


class ObjectMeta(Meta, frozen=True, rename="camel"):
    """The metadata of an object."""

    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class WorkersSpec(Part, frozen=True):
    """The wanted workers."""

    min: int = 1
    max: int = 1
    replicas: int = 1
    sizes: tuple[int, ...] = ()
    per_replica: int = 1
    template: dict[str, object] = msgspec.field(default_factory=dict)


class ScalingSpec(Part, frozen=True):
    """The way in which the size follows what is measured."""

    mode: str | None = None


class PlacementSpec(Part, frozen=True):
    """The capacity that is allowed."""

    capacity: str = "Mixed"
    fallback_after: str | None = None


class Deadline(Part, frozen=True):
    """The time by which it should be finished."""

    finish_within: str | None = None
    finish_before: str | None = None


class Budget(Part, frozen=True):
    """The money it may cost."""

    max_cost_usd: str | None = None
    max_usd_per_hour: str | None = None


class Spec(Part, frozen=True):
    """The wanted state."""

    workers: WorkersSpec = WorkersSpec()
    managed_by: str | None = None  # by another controller than the operator
    suspend: bool = False
    priority: int = 0
    scaling: ScalingSpec = ScalingSpec()
    placement: PlacementSpec = PlacementSpec()
    deadline: Deadline | None = None
    budget: Budget | None = None
    checkpoint: dict[str, object] | None = None
    stages: tuple[dict[str, object], ...] = ()

    @property
    def is_auto(self) -> bool:
        """Whether the operator chooses the size."""
        if self.scaling.mode is not None:
            return self.scaling.mode == "Auto"
        return self.workers.min < self.workers.max


class Allowed(Part, frozen=True):
    """The largest size at present."""

    size: int
    reason: str


class WorkersStatus(Part, frozen=True):
    """The present workers."""

    summary: str | None = None
    running: int | None = None
    spot: int | None = None
    on_demand: int | None = None
    allowed: Allowed | None = None


class World(Part, frozen=True):
    """The workers that train together."""

    number: int = 0
    members: str = ""
    active: bool = False
    entry: str = ""
    restore: str | None = None
    formed_at: str | None = None


class Progress(Part, frozen=True):
    """The steps done."""

    step: int | None = None
    total_steps: int | None = None
    percent: str | None = None
    samples_per_second: str | None = None
    eta: str | None = None


class Metric(Part, frozen=True):
    """The newest value of a metric of the script; NaN and infinity are words."""

    value: str
    step: int


class Stage(Part, frozen=True):
    """The stage that trains."""

    name: str
    index: int
    since_step: int
    why: str | None = None


class Checkpoint(Part, frozen=True):
    """The newest checkpoint."""

    name: str
    step: int
    time: str
    orders: int | None = None  # that it answers


class LocalCheckpoint(Part, frozen=True):
    """The newest step in the workers' memory or on their disks."""

    step: int
    time: str


class Orders(Part, frozen=True):
    """The requests to save."""

    checkpoint: int = 0
    time: str = ""


class Pace(Part, frozen=True):
    """The measured duration of a step."""

    step_seconds: str | None = None
    workers: int | None = None


class Interruption(Part, frozen=True):
    """A worker that was taken away."""

    time: str
    worker: int
    reason: str
    pool: str | None = None
    node: str | None = None


class Interruptions(Part, frozen=True):
    """Workers taken away."""

    count: int = 0
    lost_steps: int = 0
    last: Interruption | None = None


class Restarts(Part, frozen=True):
    """Failures."""

    failures: int = 0
    retry_at: str | None = None
    last_reason: str | None = None
    last_message: str | None = None


class Scaling(Part, frozen=True):
    """The reason for the size."""

    size: int | None = None
    reason: str | None = None
    utilization: dict[str, str] = msgspec.field(default_factory=dict)
    efficiency: dict[str, str] = msgspec.field(default_factory=dict)


class PoolCost(Part, frozen=True):
    """The cost in a pool."""

    pool: str
    usd: str


class Cost(Part, frozen=True):
    """The money."""

    usd: str | None = None
    usd_per_hour: str | None = None
    spot_usd: str | None = None
    by_pool: tuple[PoolCost, ...] = ()
    on_demand_usd: str | None = None
    saved_usd: str | None = None
    lost_work_usd: str | None = None
    idle_usd: str | None = None
    waste: dict[str, str] = msgspec.field(default_factory=dict)
    goodput: str | None = None
    usd_per_step: str | None = None
    forecast_usd: str | None = None
    forecast_low_usd: str | None = None
    forecast_high_usd: str | None = None
    budget_used_percent: str | None = None
    pricing: str | None = None
    as_of: str | None = None


class Decision(Part, frozen=True):
    """A decision of the operator."""

    time: str
    what: str
    why: str
    numbers: dict[str, str] = msgspec.field(default_factory=dict)


class Condition(Part, frozen=True):
    """An aspect of the job's state."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""


class Rate(Part, frozen=True):
    """The price of some workers."""

    workers: str
    usd_per_hour: str
    is_spot: bool | None = None
    pool: str | None = None


class Accumulators(Part, frozen=True):
    """The part of the ledger that has the price of each worker."""

    rates: tuple[Rate, ...] = ()


class Status(Part, frozen=True):
    """The observed state."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    suspended_by: tuple[str, ...] = ()
    workers: WorkersStatus = WorkersStatus()
    world: World | None = None
    progress: Progress = Progress()
    metrics: dict[str, Metric] = msgspec.field(default_factory=dict)
    stage: Stage | None = None
    checkpoint: Checkpoint | None = None
    local_checkpoint: LocalCheckpoint | None = None
    orders: Orders = Orders()
    pace: Pace = Pace()
    interruptions: Interruptions = Interruptions()
    restarts: Restarts = Restarts()
    scaling: Scaling | None = None
    cost: Cost = Cost()
    decisions: tuple[Decision, ...] = ()
    conditions: tuple[Condition, ...] = ()
    accumulators: Accumulators = Accumulators()

    def condition(self, kind: str) -> Condition | None:
        """Return a condition; None if it was never set."""
        return next((one for one in self.conditions if one.type == kind), None)


class Job(msgspec.Struct, frozen=True):
    """A TrainingJob."""

    metadata: ObjectMeta
    spec: Spec = Spec()
    status: Status = Status()
