"""Rights that roles grant, and those that an audit log shows to be used."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Right(NamedTuple):
    """One verb on one resource; no place: everywhere, no name: any."""

    place: str
    group: str
    resource: str
    verb: str
    name: str


def granted(documents: Iterable[Mapping[str, Any]]) -> set[Right]:
    """Every single right that the roles among these manifests give."""
    return {
        Right(role["metadata"].get("namespace", ""), group, resource, verb, name)
        for role in documents
        if role["kind"] in {"Role", "ClusterRole"}
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def used(events: Iterable[Mapping[str, Any]]) -> set[Right]:
    """Return what was asked for, each with and without its place and its name."""
    found = set()
    for event in events:
        about = event.get("objectRef", {})
        resource = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
        places, names = {"", about.get("namespace", "")}, {"", about.get("name", "")}
        found |= {
            Right(place, about.get("apiGroup", ""), resource, event["verb"], name)
            for place in places
            for name in names
        }
    return found


def denied(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """The requests that RBAC refused."""
    decision = "authorization.k8s.io/decision"
    return [
        f"{event['verb']} {event['requestURI']}"
        for event in events
        if event.get("annotations", {}).get(decision) != "allow"
    ]
