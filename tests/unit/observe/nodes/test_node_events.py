"""Events about nodes: for how long they count, and about which machine they are."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
import pytest

from spotrun.observe.kube_objects import EventObject, NodeObject
from spotrun.observe.nodes.interruption_notices import (
    INTERRUPTED,
    NO_EVENTS,
    REBALANCE,
    REBALANCED,
    EventTimes,
)
from spotrun.observe.nodes.node_events import NodeEvents

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


def an_event(reason: str, seconds_ago: float, name: str = "n1", **parts: Any) -> EventObject:
    at = (NOW - timedelta(seconds=seconds_ago)).isoformat()
    content = {
        "metadata": {"name": f"{name}.{seconds_ago}", "uid": "e", "resourceVersion": "1"},
        "regarding": {"kind": "Node", "name": name},
        "reason": reason,
        "deprecatedLastTimestamp": at,
        **parts,
    }
    return msgspec.convert(content, EventObject)


def a_node(age_seconds: float = 3600) -> NodeObject:
    born_at = (NOW - timedelta(seconds=age_seconds)).isoformat()
    meta = {"name": "n1", "uid": "u", "resourceVersion": "1", "creationTimestamp": born_at}
    return msgspec.convert({"metadata": meta}, NodeObject)


def hints(*events: EventObject) -> tuple[NodeEvents, list[str]]:
    told: list[str] = []
    made = NodeEvents(cast("Any", None), told.append, lambda: NOW)
    for event in events:
        reflector = made._by_reason[event.reason]
        reflector._tell(reflector.store.put(event))
    return made, told


def test_the_last_event_of_each_kind_counts() -> None:
    made, told = hints(
        an_event(INTERRUPTED, 50), an_event(INTERRUPTED, 20), an_event(REBALANCED, 90)
    )
    said = made.about(a_node())
    assert said == EventTimes(NOW - timedelta(seconds=20), NOW - timedelta(seconds=90))
    assert told == ["n1"] * 3


@pytest.mark.parametrize(
    "event",
    [
        an_event(REBALANCED, REBALANCE.total_seconds()),
        an_event(INTERRUPTED, 30, name="n2"),
        an_event(INTERRUPTED, 30, regarding={"kind": "NodeClaim", "name": "n1"}),
        an_event(INTERRUPTED, 30, deprecatedLastTimestamp=None),
        an_event(INTERRUPTED, 721),
        an_event(INTERRUPTED, -61),  # nobody knows what is to come
        an_event(INTERRUPTED, 0, deprecatedLastTimestamp="9999-12-31T23:59:59Z"),
        an_event(REBALANCED, 0, deprecatedLastTimestamp="9999-12-31T23:59:59Z"),
        an_event(INTERRUPTED, 0, deprecatedLastTimestamp="0000-01-01T00:00:00Z"),
    ],
    ids=[
        "over",
        "another node",
        "no node",
        "no time",
        "never came",
        "to come",
        "at the end of time",
        "a recommendation at the end of time",
        "before all time",
    ],
)
def test_what_does_not_count(event: EventObject) -> None:
    made, _ = hints(event)
    assert made.about(a_node()) is NO_EVENTS


def test_what_was_said_of_an_earlier_machine_of_that_name_does_not_count() -> None:
    made, _ = hints(an_event(INTERRUPTED, 100))
    assert made.about(a_node(age_seconds=99)) is NO_EVENTS
    assert made.about(a_node(age_seconds=100)) is not NO_EVENTS


def test_an_event_of_the_newer_kind_has_another_time() -> None:
    at = "2026-03-02T11:59:50.000000Z"
    made, _ = hints(an_event(INTERRUPTED, 0, deprecatedLastTimestamp=None, eventTime=at))
    assert made.about(a_node()).interrupted_at == NOW - timedelta(seconds=10)
