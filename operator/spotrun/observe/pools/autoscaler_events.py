"""Events of autoscalers about workers without a node: one is being created, or will not be.

Without these events, a pool is known to be dry only after the time that its nodes usually take to
come. Anyone who may write events in a namespace can write such events, so they only count for the
worker there whose UID they name, while it waits, and not for long.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta

from typing_extensions import override

from spotrun.kube.resource import Key
from spotrun.kube.rest.client import Client, Selection
from spotrun.kube.watch.reflector import Reflector
from spotrun.kube.watch.reflector_owner import ReflectorOwner
from spotrun.observe.kube_objects import EVENTS, EventObject
from spotrun.observe.messages import bounded
from spotrun.observe.nodes.interruption_notices import written_recently

CLUSTER_AUTOSCALER = "cluster-autoscaler"
AUTOSCALERS = (CLUSTER_AUTOSCALER, "karpenter", "eks-auto-mode/compute")
"""The names with which autoscalers sign their events; the last is Karpenter as EKS runs it."""
GOOD_FOR = timedelta(minutes=10)
"""An autoscaler that still creates no node repeats its event within five minutes: Karpenter by
design, the cluster autoscaler because its client library drops further events after 25."""

_REFUSALS = frozenset({"NotTriggerScaleUp", "FailedScheduling"})
_PROMISES = frozenset({"TriggeredScaleUp", "Nominated"})
_REPEATED = "(combined from similar events): "
_NEXT_REASON = re.compile(r", (?=\d)")

OnEvent = Callable[[Key, str], None]
"""Called with the name and the UID of a pod that has a new event."""


class Autoscalers(ReflectorOwner):
    """The events of autoscalers, followed in an `async with` block."""

    def __init__(
        self, client: Client, namespace: str | None, on_event: OnEvent, wall: Callable[[], datetime]
    ) -> None:
        self._on_event = on_event
        self._wall = wall
        # Selected by autoscaler in the API server: pods have far more other events.
        self._by_name: dict[str, Reflector[EventObject]] = {
            name: Reflector(
                client,
                Selection(
                    EVENTS,
                    namespace,
                    field_selector=f"regarding.kind=Pod,reportingController={name}",
                ),
                EventObject,
                self._changed,
                indices={"pod": _of_pod},
            )
            for name in AUTOSCALERS
        }

    @property
    @override
    def reflectors(self) -> dict[str, Reflector[EventObject]]:
        """The reflectors, by their names in the metric of caches' age."""
        return {f"{name} events": reflector for name, reflector in self._by_name.items()}

    def refusal_of(self, namespace: str, uid: str) -> str:
        """Return which autoscaler creates no node for a pod, and why; empty if none refuses.

        Each autoscaler's last event counts, because a promised machine may turn out to be
        unavailable. The result is also empty while a node is promised.
        """
        last = dict(self._last_events(namespace, uid))
        if any(event.reason in _PROMISES for event in last.values()):
            return ""
        return next((_words(name, event) for name, event in last.items()), "")

    def _last_events(self, namespace: str, uid: str) -> Iterator[tuple[str, EventObject]]:
        now = self._wall()
        for name, reflector in self._by_name.items():
            recent = [
                (at, event.reason in _PROMISES, event)
                for event in reflector.by_index("pod", (namespace, uid))
                if event.reason in _REFUSALS | _PROMISES
                if (at := written_recently(event, now, GOOD_FOR)) is not None
            ]
            if recent:
                # Times are whole seconds: within one second a promise counts more than a refusal.
                yield name, max(recent, key=lambda one: one[:2])[2]

    def _changed(self, _: EventObject | None, new: EventObject | None) -> None:
        if new is not None:
            about = new.regarding
            self._on_event(Key(new.metadata.namespace, about.name), about.uid)


def _of_pod(event: EventObject) -> Iterable[tuple[str, str]]:
    # An event in another namespace is ignored: its writer may have no rights in the pod's own.
    return ((event.metadata.namespace, event.regarding.uid),)


def _words(name: str, event: EventObject) -> str:
    """Return a message that stays equal when the event repeats: each change of it is a write."""
    message = event.note.removeprefix(_REPEATED)
    if name == CLUSTER_AUTOSCALER:  # it lists its reasons in a different order each time
        start, colon, reasons = message.partition(": ")
        message = start + colon + ", ".join(sorted(_NEXT_REASON.split(reasons)))
    return bounded(f"{name}: {message}")
