"""A node as a decision sees it, and what one look at it cannot know: since when."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from spotrun.api.capacitypool import Capacity
from spotrun.decide.snapshot import Node
from spotrun.observe.notices import has_notice, leaves_at
from spotrun.observe.objects import NodeObject

MISSING_SECONDS = 10.0
"""A node that was never seen may only not have come through yet: so long it is not called gone."""
MOST_NODES = 20_000

ZONE_LABELS = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")

# In this order the first label that is there decides (platforms overlap: Karpenter runs on EKS).
CAPACITY_LABELS: tuple[tuple[str, Mapping[str, Capacity]], ...] = (
    (
        "karpenter.sh/capacity-type",
        {
            "spot": Capacity.SPOT,
            "on-demand": Capacity.ON_DEMAND,
            "reserved": Capacity.RESERVED,
        },
    ),
    (
        "eks.amazonaws.com/capacityType",
        {
            "SPOT": Capacity.SPOT,
            "ON_DEMAND": Capacity.ON_DEMAND,
            "CAPACITY_BLOCK": Capacity.RESERVED,
        },
    ),
    ("cloud.google.com/gke-spot", {"true": Capacity.SPOT}),
    (
        "cloud.google.com/gke-provisioning",
        {
            "spot": Capacity.SPOT,
            "preemptible": Capacity.SPOT,
            "standard": Capacity.ON_DEMAND,
            "reservation": Capacity.RESERVED,
        },
    ),
    ("cloud.google.com/gke-preemptible", {"true": Capacity.SPOT}),
    ("kubernetes.azure.com/scalesetpriority", {"spot": Capacity.SPOT}),
    ("kops.k8s.io/instancegroup", {"spotinstance-nodes": Capacity.SPOT}),
)


def node_facts(node: NodeObject | None, name: str, seen_at: datetime) -> Node:
    """What is to be known of a node, whose notice (if it has one) was first seen at `seen_at`."""
    if node is None:
        return Node(name=name, gone=True, ready=False)
    labels = node.metadata.labels
    capacity = capacity_of(labels)
    return Node(
        name=name,
        ready=any(c.type == "Ready" and c.status == "True" for c in node.status.conditions),
        capacity=capacity,
        zone=next((labels[label] for label in ZONE_LABELS if label in labels), ""),
        leaves_at=leaves_at(node, seen_at, is_spot=capacity is Capacity.SPOT),
    )


def capacity_of(labels: Mapping[str, str]) -> Capacity:
    """How a node is had, as its labels say in one of the platforms' dialects."""
    for label, values in CAPACITY_LABELS:
        if labels.get(label) in values:
            return values[labels[label]]
    return Capacity.ON_DEMAND


@dataclass
class _Known:
    uid: str | None = None  # None: never seen
    noticed_at: datetime | None = None
    missing_since: float = 0.0
    is_gone: bool = False  # and that was said


class Nodes:
    """Remembers since when a node is missing or under notice; for all jobs together."""

    def __init__(
        self,
        find: Callable[[str], NodeObject | None],
        *,
        clock: Callable[[], float],
        wall: Callable[[], datetime],
    ) -> None:
        self._find = find
        self._clock = clock
        self._wall = wall
        self._known: dict[str, _Known] = {}

    def look(self, name: str) -> Node:
        """A node of which a pod says that it is there."""
        node = self._find(name)
        known = self._remembered(name)
        if node is None:
            return self._missing(name, known)
        if known.uid != node.metadata.uid:
            self._known[name] = known = _Known(uid=node.metadata.uid)
        if not has_notice(node):
            known.noticed_at = None  # a notice that was taken back is forgotten
        elif known.noticed_at is None:
            known.noticed_at = self._wall()
        return node_facts(node, name, known.noticed_at or self._wall())

    def again_seconds(self, name: str) -> float:
        """When to look again at a node that has not been there yet; infinity: no need to."""
        known = self._known.get(name)
        if known is None or known.uid is not None or known.is_gone:
            return float("inf")
        return max(known.missing_since + MISSING_SECONDS - self._clock(), 0.0)

    def _missing(self, name: str, known: _Known) -> Node:
        was_seen = known.uid is not None
        if was_seen or self._clock() - known.missing_since >= MISSING_SECONDS:
            known.is_gone = True
            return node_facts(None, name, self._wall())
        return Node(name=name)

    def _remembered(self, name: str) -> _Known:
        known = self._known.get(name)
        if known is None:
            if len(self._known) >= MOST_NODES:
                del self._known[next(iter(self._known))]
            known = self._known[name] = _Known(missing_since=self._clock())
        return known
