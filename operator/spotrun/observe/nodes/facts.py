"""Facts about a node, with the times since which it is missing or under notice."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from spotrun.api.capacitypool import Capacity
from spotrun.api.names import ANNOTATION_NODE_USD_PER_HOUR, HOST_LABEL
from spotrun.kube.lru_map import LruMap
from spotrun.observe.kube_objects import NodeObject
from spotrun.observe.nodes.cloud_labels import (
    capacity_of,
    instance_type_of,
    region_of,
    zone_of,
)
from spotrun.observe.nodes.interruption_notices import NO_EVENTS, EventTimes, has_notice, leaves_at
from spotrun.observe.resources import resources_of
from spotrun.state.snapshot import Node

MISSING_SECONDS = 10.0
"""A node that was never seen may not be in the cache yet: for this long it does not count as
gone."""
CALM_SECONDS = 60.0
"""A notice that was taken back returns within minutes if two programs disagree about a node (for
example a drain and an autoscaler). From its second return on, a notice is forgotten only after this
pause: otherwise the job would create and remove a replacement each time."""
QUARREL_SECONDS = 600.0
MOST_NODES = 20_000
_MOST_PRICE = 64  # characters of a stated price

Place = Callable[[NodeObject], tuple[str, Capacity] | None]
"""The pool of a node, and the capacity that it has there."""


def node_facts(
    node: NodeObject | None, name: str, seen_at: datetime, events: EventTimes = NO_EVENTS
) -> Node:
    """Return the facts about a node whose notice, if any, was first seen at `seen_at`."""
    if node is None:
        return Node(name=name, gone=True, ready=False)
    labels = node.metadata.labels
    capacity = capacity_of(labels)
    return Node(
        name=name,
        ready=is_ready(node),
        capacity=capacity,
        zone=zone_of(labels),
        hostname=labels.get(HOST_LABEL, ""),
        leaves_at=leaves_at(node, seen_at, is_spot=capacity is Capacity.SPOT, events=events),
        instance_type=instance_type_of(labels),
        region=region_of(labels),
        created_at=created_at(node),
        unreachable_at=_ready_is(node, "Unknown"),
        ready_at=_ready_is(node, "True"),
        stated_price=_stated_price(node),
        allocatable=resources_of(node.status.allocatable) if node.status.allocatable else None,
        labels=labels,
    )


def is_ready(node: NodeObject) -> bool:
    """Whether its kubelet reports it ready."""
    return any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)


def _ready_is(node: NodeObject, status: str) -> datetime | None:
    """Return the time since which the condition Ready has that status."""
    found = (c for c in node.status.conditions if c.type == "Ready" and c.status == status)
    text = next((c.last_transition_time for c in found), None)
    return datetime.fromisoformat(text) if text else None


def created_at(node: NodeObject) -> datetime | None:
    """Return the time when it joined the cluster."""
    text = node.metadata.creation_timestamp
    return datetime.fromisoformat(text) if text else None


def _stated_price(node: NodeObject) -> str | None:
    text = node.metadata.annotations.get(ANNOTATION_NODE_USD_PER_HOUR)
    return None if text is None else text[:_MOST_PRICE]


@dataclass
class _Known:
    uid: str | None = None  # None: never seen
    noticed_at: datetime | None = None
    leaves_at: datetime | None = None  # as the notice said
    taken_back_at: float | None = None  # when the notice was taken back
    believed_at: float | None = None  # when the operator last believed that
    missing_since: float = 0.0
    is_gone: bool = False  # and was reported as gone
    read: tuple[NodeObject, EventTimes, Node] | None = None  # the last reading, and its sources
    last: Node | None = None


class Nodes:
    """Remembers since when each node is missing or under notice; for all jobs together."""

    def __init__(
        self,
        find: Callable[[str], NodeObject | None],
        *,
        clock: Callable[[], float],
        wall: Callable[[], datetime],
        place: Place = lambda _: None,
        events: Callable[[NodeObject], EventTimes] = lambda _: NO_EVENTS,
    ) -> None:
        self._find = find
        self._clock = clock
        self._wall = wall
        self._place = place
        self._events_of = events
        self._known = LruMap[str, _Known](MOST_NODES)

    def look(self, name: str) -> Node:
        """Return the facts about a node that a pod is bound to."""
        node = self._find(name)
        known = self._remembered(name)
        if node is None:
            return self._missing(name, known)
        if known.uid != node.metadata.uid:
            self._known[name] = known = _Known(uid=node.metadata.uid)
        seen = self._read(node, known)
        known.last = self._placed(node, self._remember_notice(seen, known))
        return known.last

    def wake_after_seconds(self, name: str) -> float:
        """Return the seconds until a node's facts change by time alone; infinity if they do not."""
        known = self._known.get(name)
        if known is None:
            return float("inf")
        if known.uid is None:
            if known.is_gone:
                return float("inf")
            return max(known.missing_since + MISSING_SECONDS - self._clock(), 0.0)
        if known.taken_back_at is not None and not known.is_gone:
            return max(known.taken_back_at + CALM_SECONDS - self._clock(), 0.0)
        return float("inf")

    def _read(self, node: NodeObject, known: _Known) -> Node:
        """Read a node only if it changed: a job of thousands asks for all its nodes each time."""
        events = self._events_of(node)
        if known.read is not None and known.read[0] is node and known.read[1] == events:
            return known.read[2]
        if has_notice(node):
            known.noticed_at = known.noticed_at or self._wall()
        seen = node_facts(node, node.metadata.name, known.noticed_at or self._wall(), events)
        known.read = (node, events, seen)
        return seen

    def _remember_notice(self, seen: Node, known: _Known) -> Node:
        """Forget a notice that was taken back; if it keeps returning, only after a pause."""
        if seen.leaves_at is not None:
            known.leaves_at, known.taken_back_at = seen.leaves_at, None
            return seen
        if known.leaves_at is None:
            return seen
        now = self._clock()
        known.taken_back_at = now if known.taken_back_at is None else known.taken_back_at
        quarrels = known.believed_at is not None and now - known.believed_at < QUARREL_SECONDS
        if quarrels and now - known.taken_back_at < CALM_SECONDS:
            return replace(seen, leaves_at=known.leaves_at)
        known.noticed_at = known.leaves_at = known.taken_back_at = None
        known.believed_at = now
        return seen

    def _placed(self, node: NodeObject, seen: Node) -> Node:
        place = self._place(node)
        return seen if place is None else replace(seen, pool=place[0], capacity=place[1])

    def _missing(self, name: str, known: _Known) -> Node:
        was_seen = known.uid is not None
        if was_seen or self._clock() - known.missing_since >= MISSING_SECONDS:
            known.is_gone = True
            # Its last facts are still needed: the pool it was taken from, and what it cost.
            last = known.last or Node(name)
            return replace(last, gone=True, ready=False, leaves_at=None)
        return Node(name=name)

    def _remembered(self, name: str) -> _Known:
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = _Known(missing_since=self._clock())
        return known
