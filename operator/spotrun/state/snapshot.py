"""Everything a decision may know: gathered beforehand, frozen, without a way to ask for more."""

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

_GRACE_SECONDS = 120  # that every worker has at least, to end


class PodPhase(StrEnum):
    """The phase of a pod, in Kubernetes' words."""

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
    pod_message: str = ""  # by the platform
    container_message: str = (
        ""  # by whatever ran in a container: the platform's words prove nothing
    )
    words: LastWords | None = None

    @property
    def message(self) -> str:
        """The reason of the end, by the platform if it gave one."""
        return self.pod_message or self.container_message


@dataclass(frozen=True)
class Pod:
    """A worker's pod."""

    worker_id: int
    name: str
    uid: str
    version: str
    template: str  # the hash of the template it was made from
    phase: PodPhase = PodPhase.PENDING
    node: str | None = None
    address: str | None = None
    deleting: bool = False
    killed_at: datetime | None = None  # while deleting: the end of its grace, until then it may run
    is_forced: bool = False  # it was deleted without any grace, as who gives it up does
    metered: bool = True  # our finalizer is still there
    disrupted: str | None = None  # reason of its DisruptionTarget condition
    end: PodEnd | None = None
    unschedulable: str = ""  # the scheduler's words, while it finds no node
    is_nominated: bool = False  # the scheduler makes room for it: pods of lower priority go
    stuck: str = ""  # Kubernetes' words, while it cannot start a container
    created_at: datetime | None = None
    scheduled_at: datetime | None = None  # when it was bound to its node
    ended_at: datetime | None = None  # when the last of its containers ended
    end_is_guessed: bool = False  # it was found ended: that is when, and it may have been long over
    disrupted_at: datetime | None = None  # since when it has its DisruptionTarget condition
    requests: Resources = field(default_factory=Resources)
    asked: Capacity | None = None  # the capacity it was asked from; None: any that will do
    pools: tuple[str, ...] = ()  # the names of the pools it was asked from; none: any node
    zone: str = ""  # the only one it was asked from; "": any
    avoids: tuple[str, ...] = ()  # the host names of nodes that it keeps away from
    injected: str = ""  # the image that brought the package; "": none did
    slot: int = 0  # which part of a copy of the model it holds
    replica: int | None = None  # beside whose workers it was placed; None: nobody's
    lent: bool = False  # pods of higher priority may take its place
    interruption_usd: Usd | None = None  # what its annotation says that its loss would cost

    @cached_property
    def is_over(self) -> bool:
        """Whether it has ended with all its containers."""
        return self.phase in {PodPhase.SUCCEEDED, PodPhase.FAILED}


@dataclass(frozen=True)
class Node:
    """The node of a worker."""

    name: str
    gone: bool = False  # the Node object is no more
    ready: bool = True
    capacity: Capacity = Capacity.ON_DEMAND
    zone: str = ""
    leaves_at: datetime | None = None  # a notice was given: then, or at once if in the past
    hostname: str = ""  # the label by which pods can keep away from it
    pool: str = ""  # the CapacityPool it belongs to; "": none
    instance_type: str = ""
    region: str = ""
    created_at: datetime | None = None
    stated_price: str | None = None  # as its own annotation has it, readable or not
    allocatable: Resources | None = None
    gone_at: datetime | None = None  # when it was first missed
    unreachable_at: datetime | None = None  # since when Kubernetes hears nothing of its kubelet
    ready_at: datetime | None = None  # since when its kubelet says that it is well
    # Of the whole node, by the first source that knows it.
    prices: PriceHistory = field(default_factory=PriceHistory)
    on_demand_usd_per_hour: UsdPerHour | None = None  # of the like of it on demand
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def offering(self) -> Offering:
        """The question to price tables."""
        return Offering(
            instance_type=self.instance_type,
            capacity=self.capacity,
            region=self.region,
            zone=self.zone,
            node=self.name,
        )


ENOUGH_WINDOWS = 3
"""The number of windows from which something may be concluded."""


@dataclass(frozen=True)
class Reading:
    """Measurements that a worker reports in its world: medians over windows of 20 steps."""

    world_number: int
    windows: int = 0  # that do not overlap; the first steps after a change are in none
    step_seconds: float | None = None
    samples_per_step: float | None = None
    # Shares of a step, whose sum is 1; None: it does not say.
    compute: float | None = None
    data: float | None = None
    communicate: float | None = None
    utilization: Utilization = field(default_factory=Utilization)

    @property
    def is_enough(self) -> bool:
        """Whether something may be concluded from it."""
        return self.windows >= ENOUGH_WINDOWS


@dataclass(frozen=True)
class Agent:
    """The newest report of a worker; ages are measured on the operator's own clock."""

    report: Report
    # Since the last sign of life. A held poll is one for as long as it is open; of a worker that is
    # `in_doubt` it is answered at once, and silence counts from then.
    heard_seconds: float
    ready_seconds: float | None = None  # since it first said that it is ready
    arrived_seconds: float | None = None  # since it first said that it arrived where it is now
    progress_seconds: float | None = None  # since it last said anything new of its progress
    reading: Reading | None = None  # None until it trains


@dataclass(frozen=True)
class Worker:
    """One worker as seen from all sides."""

    pod: Pod
    node: Node | None = None  # None while it is not scheduled
    agent: Agent | None = None  # None until it has called
    speaks_old_wire: bool = False  # its reports are refused: their version is no longer served
    # By metrics.k8s.io, smoothed; asked only of jobs whose workers tell nothing of their steps.
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
    """Kubernetes refused a pod of ours, in its own words."""

    reason: str
    message: str


@dataclass(frozen=True)
class Undone:
    """A write that has failed several times in a row."""

    what: str  # was to be written
    words: str  # the API server's, or a webhook's


@dataclass(frozen=True)
class Broken:
    """Why a job cannot be decided; it is only let go of."""

    message: str
    kind: ConditionType = ConditionType.TEMPLATE_ACCEPTED  # the condition that does not hold
    reason: Reason = Reason.TEMPLATE_REFUSED
    has_ledger: bool = True  # False: its status cannot be read, or cannot be true
    may_be_said: bool = True  # False: its status must not be written
    has_template: bool = True  # False: how its workers are made is not known


@dataclass(frozen=True)
class SpendVerdict:
    """The answer of the namespace's SpendLimits to a job."""

    holds: str = ""  # why it may have no workers, and what to do; "": it may
    code: str = ""  # what that rests on
    workers: int | None = None  # no more than so many; None: any number
    is_granted: bool = False  # money is reserved for it
    numbers: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class JobSnapshot:
    """A job and all that belongs to it."""

    namespace: str
    name: str
    uid: str
    version: str
    generation: int
    created_at: datetime
    spec: TrainingJobSpec
    status: JobState = field(default_factory=JobState)
    template: str = ""  # the hash of the template as it is now
    deleting: bool = False
    workers: tuple[Worker, ...] = ()  # those with a pod of ours, by worker id
    refusal: Refusal | None = None  # of the last attempt, until one succeeds
    undone: Undone | None = None  # the write that has failed most often, once it is no accident
    written_seconds: float = float("inf")  # since status was last written
    is_time_sure: bool = True  # whether what cannot be taken back may follow from the time
    leading_seconds: float = 0.0  # silence says nothing before agents had time to come over
    lost_seconds: Mapping[int, float] = field(default_factory=dict)  # since each loss was seen
    # The workers whose pods are gone without our release, and since when each is missed; None: it
    # went while no operator watched.
    vanished: Mapping[int, datetime | None] = field(default_factory=dict)
    missed_seconds: Mapping[int, float] = field(default_factory=dict)  # by both neighbours
    restart_seconds: float = 0.0  # until worlds may be restarted again: all jobs share an allowance
    may_hold_nodes: bool = True  # False: other gangs come first, this one waits without nodes
    precedence: Precedence = NO_PRECEDENCE  # what jobs of other priorities give it, or take
    queue: Queue | None = None  # of Kueue, which has to admit its workers; None: it names none
    spend: SpendVerdict | None = None  # None: no SpendLimit covers it
    turned_down: Mapping[int, str] = field(default_factory=dict)  # why autoscalers make no node
    volume_is_shared: bool | None = None  # whether several nodes can mount checkpoint.volume
    volume_zones: frozenset[str] | None = None  # where its claims can be mounted; None: anywhere
    storage_price: StoragePrice | None = None  # of checkpoint.uri; None: unknown
    market: Market = field(default_factory=Market)  # the pools that its workers may come from
    # With its cost and its kept report, by earlier writes.
    annotated: Mapping[str, str] = field(default_factory=dict)
    script: Mapping[str, str] = field(default_factory=dict)  # annotations on how to look after it
    cost_labels: Mapping[str, str] = field(default_factory=dict)  # by which costs are grouped
    is_trial: bool = False  # of a TuningJob, which waits for what it measures
    requests: Resources = field(default_factory=Resources)  # of one worker, as its template says
    claimed: int = 0  # devices that each worker is given by claims (DRA)
    claims_uncounted: str = ""  # why it is not known how many those are
    shared_nodes: frozenset[str] = frozenset()  # nodes of its workers that other jobs have as well
    # Of gradients, that all workers add up in a step; None: not measured.
    sync_bytes_per_step: float | None = None
    is_mute: bool = False  # its script does not train through `Run`, so no steps are counted
    use_unknown: str = ""  # why then not even what its workers use is known
    broken: Broken | None = None  # why it cannot be decided; `spec` is what of it can be read

    @property
    def has_ledger(self) -> bool:
        """Whether anything may be concluded from `status`."""
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
        """The only size that its script takes; None where it has refused none that is allowed."""
        known = self.status.restarts.sizes
        if known.held is None or known.template != self.template:
            return None
        return known.held if known.held in allowed(self.spec.workers) else None

    @property
    def effective_workers(self) -> Workers:
        """`spec.workers` as sizes are chosen by it: of a script that refuses others, one is left.

        It is no `SizeLimit`, since it raises the least size as well, and since the gangs of other
        jobs are measured by it, of which there is no view.
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
        """The worker of that number, if it has a pod."""
        return next((worker for worker in self.workers if worker.worker_id == worker_id), None)


def grace_seconds_of(spec: TrainingJobSpec) -> int:
    """Return the seconds that each worker of a job has to end, from SIGTERM to SIGKILL."""
    template = spec.workers.template.spec.model_extra or {}
    given = template.get("terminationGracePeriodSeconds")
    return max(given if isinstance(given, int) else 0, _GRACE_SECONDS)
