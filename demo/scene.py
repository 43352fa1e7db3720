"""The cluster as its user sees it at one moment, read from its objects. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from demo.market import USD_PER_HOUR, NodeRequirement

Manifest = Mapping[str, Any]

_CAPACITY = "karpenter.sh/capacity-type"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_ZONE = "topology.kubernetes.io/zone"
_WORKER_ID = "spotrun.dev/worker-id"
_DISRUPTED = "karpenter.sh/disrupted"
_ENDS_AT = "karpenter.sh/nodeclaim-termination-timestamp"
# A line of run.log, and of most training loops that print.
_STEP = re.compile(r"^\s*step\W{0,3}(\d+)\b(?:.*?\bloss\W{1,3}(\d\S*))?", re.IGNORECASE)


@dataclass(frozen=True)
class Node:
    """A node as its object shows it."""

    name: str
    zone: str = ""
    capacity: str = ""
    usd_per_hour: str = ""  # the annotation's text
    is_ready: bool = True
    is_leaving: bool = False  # its object has a notice
    ends_at: datetime | None = None


@dataclass(frozen=True)
class Worker:
    """A worker's pod, and its place in the world."""

    worker_id: int
    pod: str
    phase: str
    node: str | None = None
    rank: int | None = None  # its rank in the world that trains now
    is_removed: bool = False
    message: str = ""
    terms: tuple[tuple[NodeRequirement, ...], ...] = ()  # requirements for its node


@dataclass(frozen=True)
class Step:
    """A line of the training's log."""

    number: int
    loss: float | None = None


@dataclass(frozen=True)
class ClusterEvent:
    """An event: of the operator about the job, or of the platform about a node."""

    seconds: float  # when it was seen
    about: str  # the kind of object
    text: str


@dataclass(frozen=True)
class Scene:
    """Everything that the demo shows at one moment."""

    seconds: float  # since the job was applied
    phase: str = ""
    reason: str = ""
    message: str = ""
    wanted: int = 0
    total_steps: int | None = None
    step: Step | None = None
    world: int = 0  # the number of the world that trains
    members: tuple[int, ...] = ()  # their worker ids, in rank order
    why: str = ""  # the operator's reason for that world
    prepared: int | None = None  # the number of the world that is being prepared meanwhile
    checkpoint: str | None = None
    usd: str | None = None  # None: not metered
    usd_per_hour: str | None = None
    saved_usd: str | None = None
    interruptions: int = 0
    workers: tuple[Worker, ...] = ()
    nodes: tuple[Node, ...] = ()
    events: tuple[ClusterEvent, ...] = ()  # oldest first

    @property
    def is_over(self) -> bool:
        """Whether the job has ended."""
        return self.phase in {"Succeeded", "Failed"}

    @property
    def is_complete(self) -> bool:
        """Whether all wanted workers train."""
        return len(self.members) == self.wanted > 0

    def node(self, name: str | None) -> Node | None:
        """Return the node with that name, if it exists."""
        return next((node for node in self.nodes if node.name == name), None)

    def workers_on(self, node: str) -> tuple[Worker, ...]:
        """Return the workers of a node, including ended ones until their pods are removed."""
        return tuple(worker for worker in self.workers if worker.node == node)


@dataclass
class Seen:
    """The newest objects and log lines."""

    job: Manifest = field(default_factory=dict)
    pods: dict[str, Manifest] = field(default_factory=dict)
    nodes: dict[str, Manifest] = field(default_factory=dict)
    events: list[ClusterEvent] = field(default_factory=list)
    step: Step | None = None
    total_steps: int | None = None  # the last known: a trainer that starts does not report it


def compose(seen: Seen, seconds: float) -> Scene:
    """Read a scene from objects."""
    spec, status = seen.job.get("spec") or {}, seen.job.get("status") or {}
    progress, cost = status.get("progress") or {}, status.get("cost") or {}
    number, members, prepared = read_world(status.get("world") or {})
    return Scene(
        seconds=seconds,
        phase=status.get("phase", ""),
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        wanted=((spec.get("workers") or {}).get("replicas")) or 0,
        total_steps=progress.get("totalSteps") or seen.total_steps,
        step=seen.step,
        world=number,
        members=members,
        why=_why(status.get("decisions") or (), number),
        prepared=prepared,
        checkpoint=(status.get("checkpoint") or {}).get("name"),
        usd=cost.get("usd"),
        usd_per_hour=cost.get("usdPerHour"),
        saved_usd=cost.get("savedUsd"),
        interruptions=(status.get("interruptions") or {}).get("count") or 0,
        workers=tuple(_workers(seen.pods.values(), members)),
        nodes=tuple(sorted(map(read_node, seen.nodes.values()), key=lambda node: node.name)),
        events=tuple(seen.events),
    )


def read_world(world: Manifest) -> tuple[int, tuple[int, ...], int | None]:
    """Return the number of the world that trains, its members by rank, and the next number."""
    if not world:
        return 0, (), None
    if world.get("active"):
        return world["number"], worker_ids(world.get("members") or ""), None
    holders = worker_ids(world.get("stateHolders") or "")
    prepared = world["number"] if world.get("members") else None
    return world.get("trainingNumber") or 0, holders if prepared else (), prepared


def worker_ids(text: str) -> tuple[int, ...]:
    """`0-2,7` -> 0, 1, 2, 7."""
    ends = (part.partition("-") for part in text.split(",") if part)
    return tuple(n for a, _, b in ends for n in range(int(a), int(b or a) + 1))


def read_node(node: Manifest) -> Node:
    """Read a node from its object."""
    meta, labels = node["metadata"], node["metadata"].get("labels") or {}
    annotations = meta.get("annotations") or {}
    ready = [c for c in node["status"].get("conditions") or () if c["type"] == "Ready"]
    taints = {taint["key"] for taint in node["spec"].get("taints") or ()}
    ends_at = annotations.get(_ENDS_AT)
    return Node(
        name=meta["name"],
        zone=labels.get(_ZONE, ""),
        capacity=labels.get(_CAPACITY, ""),
        usd_per_hour=annotations.get(USD_PER_HOUR, ""),
        is_ready=any(c["status"] == "True" for c in ready),
        is_leaving=_DISRUPTED in taints,
        ends_at=datetime.fromisoformat(ends_at) if ends_at else None,
    )


def _why(decisions: Iterable[Manifest], world: int) -> str:
    words = [d["why"] for d in decisions if _number(d, "world") == str(world)]
    return words[-1] if words else ""


def _number(decision: Manifest, name: str) -> str | None:
    numbers: Mapping[str, str] = decision.get("numbers") or {}
    return numbers.get(name)


def _workers(pods: Iterable[Manifest], members: tuple[int, ...]) -> list[Worker]:
    ranks = {worker_id: rank for rank, worker_id in enumerate(members)}
    found = [_worker(pod, ranks) for pod in pods]
    return sorted(found, key=lambda worker: worker.worker_id)


def _worker(pod: Manifest, ranks: Mapping[int, int]) -> Worker:
    meta, status = pod["metadata"], pod.get("status") or {}
    worker_id = int(meta["labels"][_WORKER_ID])
    conditions = status.get("conditions") or ()
    why = (c.get("message", "") for c in conditions if c["type"] == "PodScheduled")
    return Worker(
        worker_id=worker_id,
        pod=meta["name"],
        phase=status.get("phase", "Pending"),
        node=pod["spec"].get("nodeName"),
        rank=ranks.get(worker_id),
        is_removed="deletionTimestamp" in meta,
        message=next(why, ""),
        terms=read_terms(pod["spec"].get("affinity") or {}),
    )


def read_terms(affinity: Manifest) -> tuple[tuple[NodeRequirement, ...], ...]:
    """Read a pod's requirements for its node."""
    of_nodes = affinity.get("nodeAffinity") or {}
    terms = (of_nodes.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    return tuple(
        tuple(
            NodeRequirement(one["key"], one["operator"], tuple(one.get("values") or ()))
            for one in term["matchExpressions"]
        )
        for term in terms
        if term.get("matchExpressions")
    )


def read_step(line: str) -> Step | None:
    """Read a line of a training's log, such as `step 120  loss 3.2`; None for other lines."""
    found = _STEP.match(line)
    if found is None:
        return None
    try:
        return Step(int(found[1]), float(found[2].rstrip(",;")) if found[2] else None)
    except ValueError:
        return Step(int(found[1]))


def read_event(event: Manifest, job: str) -> tuple[str, str] | None:
    """Return the kind of object that an event is about, and its words; None if it is unrelated."""
    regarding = event.get("regarding") or {}
    kind = regarding.get("kind", "")
    if (kind, regarding.get("name")) == ("TrainingJob", job) or (
        kind == "Node" and event.get("reason", "").startswith("Spot")
    ):
        return kind, f"{event['reason']}: {event.get('note', '')}"
    return None
