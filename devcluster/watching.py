"""The known objects of a watch, so that a relist can find out which changes were missed."""

from dataclasses import dataclass
from typing import Any, Literal

Manifest = dict[str, Any]
EventType = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True)
class WatchEvent:
    """One change; a DELETED found by a relist has only the object's identity."""

    type: EventType
    object: Manifest
    is_listed: bool = False  # found by a list: changes before it may have been missed


def _identity(item: Manifest) -> Manifest:
    meta = item["metadata"]
    kept = {k: meta[k] for k in ("name", "namespace", "uid", "resourceVersion") if k in meta}
    return {"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": kept}


def remember(known: dict[str, Manifest], event: WatchEvent) -> None:
    """Update `known` (identities by UID) with an event."""
    uid = event.object["metadata"]["uid"]
    if event.type == "DELETED":
        known.pop(uid, None)
    else:
        known[uid] = _identity(event.object)


def difference(known: dict[str, Manifest], items: list[Manifest]) -> list[WatchEvent]:
    """Update `known` with a new list, and return the changes since the last update."""
    present = {item["metadata"]["uid"] for item in items}
    events = [WatchEvent("DELETED", known[uid], is_listed=True) for uid in known.keys() - present]
    for item in items:
        before = known.get(item["metadata"]["uid"])
        if before is None:
            events.append(WatchEvent("ADDED", item, is_listed=True))
        elif before["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
            events.append(WatchEvent("MODIFIED", item, is_listed=True))
    for event in events:
        remember(known, event)
    return events
