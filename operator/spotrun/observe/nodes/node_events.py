"""Events that announce the end of a node: Karpenter's, which come before any taint.

A rebalance recommendation is only an event: Karpenter itself does not act on it. It counts until
the time that it announces is over; after that it is ignored.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from typing_extensions import override

from spotrun.kube.rest.client import Client, Selection
from spotrun.kube.watch.reflector import Reflector
from spotrun.kube.watch.reflector_owner import ReflectorOwner
from spotrun.observe.kube_objects import EVENTS, EventObject, NodeObject
from spotrun.observe.nodes.facts import created_at
from spotrun.observe.nodes.interruption_notices import (
    INTERRUPTED,
    NO_EVENTS,
    REBALANCE,
    REBALANCED,
    WARNING,
    EventTimes,
    written_recently,
)

NAMESPACE = "default"
"""The namespace in which Kubernetes keeps the events of objects without one."""
_OVERDUE = timedelta(minutes=10)
"""An event still counts this long after the end that it announced: the machine may still exist."""


class NodeEvents(ReflectorOwner):
    """The events, followed in an `async with` block; `on_event` gets the names of nodes."""

    def __init__(
        self, client: Client, on_event: Callable[[str], None], wall: Callable[[], datetime]
    ) -> None:
        self._on_event = on_event
        self._wall = wall
        # Selected by reason in the API server: a large cluster has thousands of other events.
        self._by_reason: dict[str, Reflector[EventObject]] = {
            reason: Reflector(
                client,
                Selection(EVENTS, NAMESPACE, field_selector=f"reason={reason}"),
                EventObject,
                self._changed,
                indices={"node": _of_node},
            )
            for reason in (INTERRUPTED, REBALANCED)
        }

    @property
    @override
    def reflectors(self) -> dict[str, Reflector[EventObject]]:
        """The reflectors of these events, by reason."""
        return self._by_reason

    def about(self, node: NodeObject) -> EventTimes:
        """Return the announcements that are valid for a node now."""
        interrupted = self._last(INTERRUPTED, node, WARNING + _OVERDUE)
        rebalanced = self._last(REBALANCED, node, REBALANCE)
        if interrupted is None and rebalanced is None:
            return NO_EVENTS
        return EventTimes(interrupted, rebalanced)

    def _last(self, reason: str, node: NodeObject, good_for: timedelta) -> datetime | None:
        """Return the last such event of this machine; an earlier machine may have had its name."""
        events = self._by_reason[reason].by_index("node", node.metadata.name)
        if not events:
            return None
        born_at, now = created_at(node), self._wall()
        moments = (written_recently(event, now, good_for) for event in events)
        return max(
            (at for at in moments if at is not None and (born_at is None or at >= born_at)),
            default=None,
        )

    def _changed(self, _: EventObject | None, new: EventObject | None) -> None:
        if new is not None and new.regarding.kind == "Node":
            self._on_event(new.regarding.name)


def _of_node(event: EventObject) -> Iterable[str]:
    return (event.regarding.name,) if event.regarding.kind == "Node" else ()
