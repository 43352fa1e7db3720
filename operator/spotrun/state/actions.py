"""Actions on the cluster, each with its reason."""

from collections.abc import Mapping
from dataclasses import dataclass

from spotrun.api.capacitypool import Capacity
from spotrun.api.names import Reason, ScalingReason
from spotrun.money.units import Usd
from spotrun.state.job_state import JobState
from spotrun.state.queue import Workload


@dataclass(frozen=True)
class Near:
    """The nodes on which the other workers of a replica are."""

    key: str  # of a label of nodes
    value: str
    is_required: bool = False  # whether other nodes will not do


@dataclass(frozen=True)
class Placed:
    """The pools a new worker is asked from: a set, so that autoscalers keep their freedom."""

    required: tuple[str, ...] = ()  # names of pools, the best first; none: any node will do
    preferred: tuple[tuple[str, int], ...] = ()  # (name, weight from 1 to 100)
    pinned: bool = False  # to a pool that has room on nodes which are there
    capacity: Capacity | None = None  # of those pools; None: as the job's placement says
    zone: str = ""  # the only one of pools that span several; "": any of theirs
    near: Near | None = None  # None: no other worker of its replica has a node


@dataclass(frozen=True)
class Create:
    """Make the worker of this number; its name is a function of job and number."""

    worker_id: int
    avoid_nodes: tuple[str, ...] = ()  # host names
    place: Placed = Placed()
    slot: int = 0  # which part of a copy of the model it will hold
    replica: int | None = None  # beside whose workers; None: every worker holds a whole copy
    lent: bool = False  # pods of higher priority may take its place


@dataclass(frozen=True)
class Remove:
    """Delete a worker's pod, if it is still this one."""

    worker_id: int
    uid: str
    reason: Reason
    why: str


@dataclass(frozen=True)
class Withdraw:
    """Take back a worker that has no node yet; done only if it still has none."""

    worker_id: int
    uid: str
    version: str
    reason: Reason
    why: str


@dataclass(frozen=True)
class Release:
    """Take our finalizer off a pod whose number is settled."""

    worker_id: int
    uid: str


@dataclass(frozen=True)
class PriceWorker:
    """Write on a worker's pod what its loss would cost, for those who choose whose node to take."""

    worker_id: int
    uid: str
    usd: Usd


@dataclass(frozen=True)
class Annotate:
    """Write what the job costs on the job itself, for tools that read no status."""

    annotations: Mapping[str, str]


@dataclass(frozen=True)
class KeepReport:
    """Keep the report of a finished job in a ConfigMap that outlives it."""


@dataclass(frozen=True)
class DeleteJob:
    """Delete a finished job whose time is over."""

    why: str


@dataclass(frozen=True)
class Resize:
    """Write another number of replicas, if nobody has changed the job since it was decided."""

    replicas: int
    why: str


@dataclass(frozen=True)
class AskQueue:
    """Ask the queue for workers, by a new Workload or by another count in one that waits."""

    number: int
    count: int
    least: int | None = None
    waiting: Workload | None = None  # the one that is changed; None: a new one


@dataclass(frozen=True)
class AdoptRequest:
    """Make a Workload the job's own: another cluster's Kueue has made it for the job."""

    request: Workload


@dataclass(frozen=True)
class ReturnQuota:
    """Give back the quota of workers that are gone, as Kueue's reclaimable pods."""

    request: Workload
    count: int  # of all that were ever given back of it


@dataclass(frozen=True)
class LeaveQueue:
    """Delete a Workload: with it goes its quota."""

    request: Workload


@dataclass(frozen=True)
class AcceptEviction:
    """Release the quota of an evicted Workload: the workers are gone. Kueue queues it again."""

    request: Workload


@dataclass(frozen=True)
class FinishRequest:
    """Mark a Workload as finished."""

    request: Workload
    has_succeeded: bool
    why: str


@dataclass(frozen=True)
class BoostRequest:
    """Say on a Workload what the price of an interruption adds to its priority."""

    request: Workload
    boost: int


@dataclass(frozen=True)
class TellReady:
    """Say on a Workload whether its workers are ready."""

    request: Workload
    is_ready: bool


QueueAction = (
    AskQueue
    | AdoptRequest
    | BoostRequest
    | ReturnQuota
    | LeaveQueue
    | AcceptEviction
    | FinishRequest
    | TellReady
)
Action = (
    Create
    | Remove
    | Withdraw
    | Release
    | PriceWorker
    | Annotate
    | KeepReport
    | DeleteJob
    | Resize
    | QueueAction
)


@dataclass(frozen=True)
class Announce:
    """An event on the job, for people."""

    reason: Reason | ScalingReason
    message: str
    is_warning: bool = False


@dataclass(frozen=True)
class Decision:
    """The next status, and what may be done as soon as it is stored."""

    status: JobState
    actions: tuple[Action, ...] = ()
    announcements: tuple[Announce, ...] = ()
    wake_after_seconds: float = float("inf")  # look again then, even if nothing happens
