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
    is_required: bool = False  # whether no other nodes are allowed


@dataclass(frozen=True)
class Placed:
    """The pools from which a new worker is requested: a set, so that autoscalers can choose."""

    required: tuple[str, ...] = ()  # names of pools, the best first; none: any node
    preferred: tuple[tuple[str, int], ...] = ()  # (name, weight from 1 to 100)
    pinned: bool = False  # to a pool whose existing nodes have room
    capacity: Capacity | None = None  # of those pools; None: as the job's placement says
    zone: str = ""  # the only allowed zone of pools that span several; "": any of theirs
    near: Near | None = None  # None: no other worker of its replica has a node


@dataclass(frozen=True)
class Create:
    """Create the worker of this id; its name is a function of job and id."""

    worker_id: int
    avoid_nodes: tuple[str, ...] = ()  # host names
    place: Placed = Placed()
    slot: int = 0  # which part of a copy of the model it will hold
    replica: int | None = None  # the replica that it joins; None: every worker holds a whole copy
    lent: bool = False  # pods of higher priority may take its place


@dataclass(frozen=True)
class Remove:
    """Delete a worker's pod, if it is still the same pod."""

    worker_id: int
    uid: str
    reason: Reason
    why: str


@dataclass(frozen=True)
class Withdraw:
    """Delete a worker that has no node yet; done only if it still has none."""

    worker_id: int
    uid: str
    version: str
    reason: Reason
    why: str


@dataclass(frozen=True)
class Release:
    """Remove our finalizer from the pod of a settled worker."""

    worker_id: int
    uid: str


@dataclass(frozen=True)
class PriceWorker:
    """Write on a worker's pod what its loss would cost, for programs that remove nodes."""

    worker_id: int
    uid: str
    usd: Usd


@dataclass(frozen=True)
class Annotate:
    """Write the job's cost into its annotations, for tools that do not read the status."""

    annotations: Mapping[str, str]


@dataclass(frozen=True)
class KeepReport:
    """Keep the report of a finished job in a ConfigMap that outlives it."""


@dataclass(frozen=True)
class DeleteJob:
    """Delete a finished job whose retention time is over."""

    why: str


@dataclass(frozen=True)
class Resize:
    """Write another number of replicas, if the job has not changed since the decision."""

    replicas: int
    why: str


@dataclass(frozen=True)
class AskQueue:
    """Ask the queue for workers, by a new Workload or by a new count in a waiting one."""

    number: int
    count: int
    least: int | None = None
    waiting: Workload | None = None  # the one to change; None: a new one


@dataclass(frozen=True)
class AdoptRequest:
    """Make the job own a Workload that another cluster's Kueue created for it."""

    request: Workload


@dataclass(frozen=True)
class ReturnQuota:
    """Give back the quota of workers that are gone, as Kueue's reclaimable pods."""

    request: Workload
    count: int  # the total number given back so far


@dataclass(frozen=True)
class LeaveQueue:
    """Delete a Workload, and so give its quota back."""

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
    """Write on a Workload what the price of an interruption adds to its priority."""

    request: Workload
    boost: int


@dataclass(frozen=True)
class TellReady:
    """Write on a Workload whether its workers are ready."""

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
    """An event on the job, for people to read."""

    reason: Reason | ScalingReason
    message: str
    is_warning: bool = False


@dataclass(frozen=True)
class Decision:
    """The next status, and the actions that may follow as soon as it is stored."""

    status: JobState
    actions: tuple[Action, ...] = ()
    announcements: tuple[Announce, ...] = ()
    wake_after_seconds: float = float("inf")  # decide again then, even if nothing happens
