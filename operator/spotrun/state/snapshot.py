"""All facts that a decision may use: gathered beforehand, frozen, and not extensible."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property

from spotrun.api.capacitypool import Capacity
from spotrun.api.names import ConditionType, Reason
from spotrun.api.spec.workers import Workers
from spotrun.api.trainingjob import TrainingJobSpec
from spotrun.money.other_costs.storage_prices import StoragePrice
from spotrun.money.price_history import PriceHistory
from spotrun.money.price_rows import Offering
from spotrun.money.shares import Resources
from spotrun.money.units import Usd, UsdPerHour
from spotrun.state.job_state import JobState
from spotrun.state.market import Market
from spotrun.state.queue import Queue
from spotrun.state.sizes import NO_PRECEDENCE, Precedence, allowed
from spotrun.wire import LastWords, Report, Utilization

_GRACE_SECONDS = 120  # the least time that a worker has to end


class PodPhase(StrEnum):
    """The phase of a pod, with Kubernetes' names."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True)
class PodEnd:
    """The end of a pod's trainer container, or the reason why the pod ended without it."""

    exit_code: int | None = None
    container_reason: str = ""  # OOMKilled, Error, Completed
    pod_reason: str = ""  # Terminated, Evicted, NodeLost, ...
    pod_message: str = ""  # from the platform
    container_message: str = (
        ""  # from any program in a container: it may imitate the platform's words
    )
    words: LastWords | None = None

    @property
    def message(self) -> str:
        """The reason for the end, the platform's if it gave one."""
        return self.pod_message or self.container_message


@dataclass(frozen=True)
class Pod:
    """A worker's pod."""

    worker_id: int
    name: str
    uid: str
    version: str
    template: str  # the hash of the template it was created from
    phase: PodPhase = PodPhase.PENDING
    node: str | None = None
    address: str | None = None
    deleting: bool = False
    killed_at: datetime | None = None  # while deleting: the end of its grace; it may run until then
    is_forced: bool = False  # it was deleted with no grace period, to give it up
    metered: bool = True  # our finalizer is still there
    disrupted: str | None = None  # reason of its DisruptionTarget condition
    end: PodEnd | None = None
    unschedulable: str = ""  # the scheduler's message, while it finds no node
    is_nominated: bool = False  # the scheduler preempts pods of lower priority for it
    stuck: str = ""  # Kubernetes' message, while it cannot start a container
    created_at: datetime | None = None
    scheduled_at: datetime | None = None  # when it was bound to its node
    ended_at: datetime | None = None  # when the last of its containers ended
    end_is_guessed: bool = False  # `ended_at` is when it was found; it may have ended long before
    disrupted_at: datetime | None = None  # since when it has its DisruptionTarget condition
    requests: Resources = field(default_factory=Resources)
    asked: Capacity | None = None  # the capacity type that was requested; None: any
    pools: tuple[str, ...] = ()  # the names of the requested pools; none: any node
    zone: str = ""  # the only requested zone; "": any
    avoids: tuple[str, ...] = ()  # the host names of nodes that it avoids
    injected: str = ""  # the image that supplied the package; "": none
    slot: int = 0  # which part of a copy of the model it holds
    replica: int | None = None  # the replica beside which it was placed; None: none
    lent: bool = False  # pods of higher priority may take its place
    interruption_usd: Usd | None = None  # what its annotation says that its loss would cost

    @cached_property
    def is_over(self) -> bool:
        """Whether all its containers have ended."""
        return self.phase in {PodPhase.SUCCEEDED, PodPhase.FAILED}


@dataclass(frozen=True)
class Node:
    """The node of a worker."""

    name: str
    gone: bool = False  # the Node object no longer exists
    ready: bool = True
    capacity: Capacity = Capacity.ON_DEMAND
    zone: str = ""
    leaves_at: datetime | None = None  # it has a notice: it leaves then, or at once if in the past
    hostname: str = ""  # the label by which pods can avoid it
    pool: str = ""  # the CapacityPool it belongs to; "": none
    instance_type: str = ""
    region: str = ""
    created_at: datetime | None = None
    stated_price: str | None = None  # its own annotation, readable or not
    allocatable: Resources | None = None
    gone_at: datetime | None = None  # when it was first missed
    unreachable_at: datetime | None = None  # since when its kubelet is silent
    ready_at: datetime | None = None  # since when its kubelet reports it ready
    # For the whole node, from the first source that knows it.
    prices: PriceHistory = field(default_factory=PriceHistory)
    on_demand_usd_per_hour: UsdPerHour | None = None  # of the same node on demand
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def offering(self) -> Offering:
        """The key for a search in price tables."""
        return Offering(
            instance_type=self.instance_type,
            capacity=self.capacity,
            region=self.region,
            zone=self.zone,
            node=self.name,
        )


ENOUGH_WINDOWS = 3
"""The number of windows that is enough for a conclusion."""


@dataclass(frozen=True)
class Reading:
    """Measurements that a worker reports in its world: medians over windows of 20 steps."""

    world_number: int
    windows: int = 0  # without overlap, and without the first steps after a change
    ever_enough: bool = False  # it was enough for a conclusion in this world, or an earlier one
    step_seconds: float | None = None
    samples_per_step: float | None = None
    # Shares of a step, whose sum is 1; None: not reported.
    compute: float | None = None
    data: float | None = None
    communicate: float | None = None
    utilization: Utilization = field(default_factory=Utilization)

    @property
    def is_enough(self) -> bool:
        """Whether it is enough for a conclusion."""
        return self.windows >= ENOUGH_WINDOWS


@dataclass(frozen=True)
class Agent:
    """The newest report of a worker; ages are measured on the operator's own clock."""

    report: Report
    # Since the last sign of life. An open poll counts as one. The poll of a worker that is
    # `in_doubt` is answered at once, and the time of silence starts then.
    heard_seconds: float
    ready_seconds: float | None = None  # since it first said that it is ready
    arrived_seconds: float | None = None  # since it first reported the world in which it is now
    progress_seconds: float | None = None  # since its reported progress last changed
    reading: Reading | None = None  # None until it trains


@dataclass(frozen=True)
class Worker:
    """One worker, with its pod, node and agent."""

    pod: Pod
    node: Node | None = None  # None while it is not scheduled
    agent: Agent | None = None  # None until it has reported
    speaks_old_wire: bool = False  # its reports are refused: their version is no longer served
    # From metrics.k8s.io, smoothed; only for jobs whose workers report no steps.
    used: Utilization | None = None

    @cached_property
    def worker_id(self) -> int:
        """The worker's number in the job, which never changes."""
        return self.pod.worker_id

    @property
    def is_ready(self) -> bool:
        """Whether it could enter a world now."""
        return self.agent is not None and self.agent.report.ready


@dataclass(frozen=True)
class Refusal:
    """Kubernetes refused a pod of ours; the message is its own."""

    reason: str
    message: str


@dataclass(frozen=True)
class Undone:
    """A write that has failed several times in a row."""

    what: str  # should be written
    words: str  # from the API server, or a webhook


@dataclass(frozen=True)
class Broken:
    """Why a job cannot be decided; the operator only releases what it has."""

    message: str
    kind: ConditionType = ConditionType.TEMPLATE_ACCEPTED  # the condition that is not true
    reason: Reason = Reason.TEMPLATE_REFUSED
    has_ledger: bool = True  # False: its status cannot be read, or is impossible
    may_be_said: bool = True  # False: its status must not be written
    has_template: bool = True  # False: the template of its workers is unknown


@dataclass(frozen=True)
class SpendVerdict:
    """The answer of the namespace's SpendLimits to a job."""

    holds: str = ""  # why it may not have workers, and what to do; "": it may
    code: str = ""  # what that depends on
    workers: int | None = None  # at most this many; None: any number
    is_granted: bool = False  # money is reserved for it
    numbers: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class JobSnapshot:
    """A job and all facts that belong to it."""

    namespace: str
    name: str
    uid: str
    version: str
    generation: int
    created_at: datetime
    spec: TrainingJobSpec
    status: JobState = field(default_factory=JobState)
    template: str = ""  # the hash of the present template
    deleting: bool = False
    workers: tuple[Worker, ...] = ()  # those with a pod of ours, by worker id
    refusal: Refusal | None = None  # of the last attempt, until one succeeds
    undone: Undone | None = None  # the write that failed most often, once it is not an accident
    written_seconds: float = float("inf")  # since status was last written
    is_time_sure: bool = True  # whether irreversible decisions may depend on the clock
    leading_seconds: float = 0.0  # silence means nothing until agents had time to reconnect
    lost_seconds: Mapping[int, float] = field(default_factory=dict)  # since each loss was noticed
    # The workers whose pods are gone although the operator did not release them, and since when
    # each is missed; None: it disappeared while no operator watched.
    vanished: Mapping[int, datetime | None] = field(default_factory=dict)
    missed_seconds: Mapping[int, float] = field(default_factory=dict)  # by both neighbours
    restart_seconds: float = 0.0  # until a restart is allowed again: all jobs share a limit
    may_hold_nodes: bool = True  # False: other gangs come first, and this one waits without nodes
    precedence: Precedence = NO_PRECEDENCE  # what jobs of other priorities give it or take from it
    queue: Queue | None = None  # of Kueue, which must admit its workers; None: it names none
    spend: SpendVerdict | None = None  # None: no SpendLimit covers it
    turned_down: Mapping[int, str] = field(default_factory=dict)  # why autoscalers create no node
    volume_is_shared: bool | None = None  # whether several nodes can mount checkpoint.volume
    volume_zones: frozenset[str] | None = None  # where its claims can be mounted; None: in any zone
    storage_price: StoragePrice | None = None  # of checkpoint.uri; None: unknown
    market: Market = field(default_factory=Market)  # the pools that its workers may come from
    # Its annotations on its cost and its kept report, from earlier writes.
    annotated: Mapping[str, str] = field(default_factory=dict)
    script: Mapping[str, str] = field(default_factory=dict)  # annotations on how to treat it
    cost_labels: Mapping[str, str] = field(default_factory=dict)  # by which costs are grouped
    is_trial: bool = False  # of a TuningJob, which waits for its measurements
    requests: Resources = field(default_factory=Resources)  # of one worker, by its template
    claimed: int = 0  # devices that each worker gets by claims (DRA)
    claims_uncounted: str = ""  # why their number is unknown
    shared_nodes: frozenset[str] = frozenset()  # nodes that its workers share with other jobs
    # Of gradients that all workers sum in a step; None: not measured.
    sync_bytes_per_step: float | None = None
    is_mute: bool = False  # its script does not train through `Run`, so no steps are counted
    use_unknown: str = ""  # why not even the usage of its workers is known then
    broken: Broken | None = None  # why it cannot be decided; `spec` is then its readable part

    @property
    def has_ledger(self) -> bool:
        """Whether decisions may be based on `status`."""
        return self.broken is None or self.broken.has_ledger

    @property
    def is_handed_over(self) -> bool:
        """Whether another controller runs it, and writes its status."""
        return self.spec.managed_by is not None

    @property
    def may_be_published(self) -> bool:
        """Whether its workers can be told of their world."""
        if self.is_handed_over:
            return False
        return self.broken is None or (self.broken.has_ledger and self.broken.has_template)

    @property
    def processes(self) -> int:
        """The number of training processes of each worker."""
        return self.spec.workers.processes or self.requests.gpus or self.claimed or 1

    @property
    def held_size(self) -> int | None:
        """The only size that its script accepts; None if it has refused no allowed size."""
        known = self.status.restarts.sizes
        if known.held is None or known.template != self.template:
            return None
        return known.held if known.held in allowed(self.spec.workers) else None

    @property
    def effective_workers(self) -> Workers:
        """`spec.workers` for the choice of sizes: if the script refuses others, only one is left.

        It is not a `SizeLimit`, because it also raises the smallest size, and because the gangs of
        other jobs, which have no view, are measured by it.
        """
        held = self.held_size
        if held is None or self.broken is not None:
            return self.spec.workers
        return self.spec.workers.having(sizes=(held,))

    @property
    def grace_seconds(self) -> int:
        """The seconds that each of its workers has to end, from SIGTERM to SIGKILL."""
        return grace_seconds_of(self.spec)

    def worker(self, worker_id: int) -> Worker | None:
        """The worker of that id, if it has a pod."""
        return next((worker for worker in self.workers if worker.worker_id == worker_id), None)


def grace_seconds_of(spec: TrainingJobSpec) -> int:
    """Return the seconds that each worker of a job has to end, from SIGTERM to SIGKILL."""
    template = spec.workers.template.spec.model_extra or {}
    given = template.get("terminationGracePeriodSeconds")
    return max(given if isinstance(given, int) else 0, _GRACE_SECONDS)
