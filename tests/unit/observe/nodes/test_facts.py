from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from devcluster.notices import Dialect, marks
from devcluster.platforms import Platform, pool_labels
from spotrun.api.capacitypool import Capacity
from spotrun.observe.kube_objects import NodeObject
from spotrun.observe.nodes import facts
from spotrun.observe.nodes.cloud_labels import capacity_of
from spotrun.observe.nodes.facts import (
    CALM_SECONDS,
    MISSING_SECONDS,
    QUARREL_SECONDS,
    Nodes,
    node_facts,
)
from spotrun.observe.nodes.interruption_notices import (
    REBALANCE,
    SHUTDOWN,
    WARNING,
    EventTimes,
    has_notice,
    is_reclaimed,
)
from spotrun.state.snapshot import Node

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
DEADLINE = NOW + timedelta(seconds=90)
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
SPOT = {"karpenter.sh/capacity-type": "spot"}


def node(
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    deleted: str | None = None,
    conditions: list[dict[str, Any]] | None = None,
    uid: str = "node-uid",
    **spec: Any,
) -> NodeObject:
    meta = {
        "name": "n1",
        "uid": uid,
        "resourceVersion": "1",
        "labels": labels or {},
        "annotations": annotations or {},
        **({"deletionTimestamp": deleted} if deleted else {}),
    }
    status = {"conditions": [READY] if conditions is None else conditions}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status}, NodeObject)


def noticed(dialect: Dialect, labels: dict[str, str]) -> NodeObject:
    """A node as the dialect leaves it."""
    left = marks(dialect, DEADLINE, NOW)
    return node(
        labels={**labels, **left.labels},
        annotations=dict(left.annotations),
        taints=list(left.taints),
        unschedulable=left.is_cordoned,
        deleted="2026-03-02T12:00:00Z" if left.is_deleted else None,
    )


# When a node ends that was given notice NOW; for AWS's handler and Karpenter the machine's time.
NOTICES = {
    Dialect.CORDON: NOW + WARNING,
    Dialect.KARPENTER_DISRUPTED: DEADLINE,
    Dialect.KARPENTER_SPOT: DEADLINE,
    Dialect.KARPENTER_REBALANCE: None,  # an event only
    Dialect.KARPENTER_DELETION: DEADLINE,
    Dialect.NTH_SPOT: DEADLINE,
    Dialect.NTH_MAINTENANCE: DEADLINE,
    Dialect.NTH_ASG: DEADLINE,
    Dialect.NTH_REBALANCE: DEADLINE,
    Dialect.AUTOSCALER: NOW + WARNING,
    Dialect.AUTOSCALER_CANDIDATE: None,
    Dialect.GKE_IMPENDING: NOW + SHUTDOWN,
    Dialect.CLOUD_SHUTDOWN: NOW,
    Dialect.OUT_OF_SERVICE: NOW,
}


@pytest.mark.parametrize("labels", [{}, SPOT], ids=["on-demand", "spot"])
@pytest.mark.parametrize("dialect", Dialect)
def test_every_dialect_of_going_away(dialect: Dialect, labels: dict[str, str]) -> None:
    seen = noticed(dialect, labels)
    assert node_facts(seen, "n1", NOW).leaves_at == NOTICES[dialect]
    assert has_notice(seen) == (NOTICES[dialect] is not None)


def test_a_handlers_label_that_says_when_it_was_set_is_no_deadline() -> None:
    taints = [{"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"}]
    set_at = str(int(NOW.timestamp()) - 1)
    labels = {"aws-node-termination-handler/action-time": set_at}
    seen = node(labels=labels, taints=taints, unschedulable=True)
    assert node_facts(seen, "n1", NOW).leaves_at == NOW + WARNING


def test_a_recommendation_leaves_more_time_than_the_cordon_that_comes_with_it() -> None:
    key = "aws-node-termination-handler/rebalance-recommendation"
    seen = node(taints=[{"key": key, "effect": "NoSchedule"}], unschedulable=True)
    assert node_facts(seen, "n1", NOW).leaves_at == NOW + REBALANCE


@pytest.mark.parametrize(
    ("event", "lead"),
    [
        ("spot-itn-0123", WARNING),
        ("rebalance-recommendation-0123", REBALANCE),
        ("0123", WARNING),
    ],
)
def test_a_handler_that_sets_no_taint_tells_by_its_labels_what_its_cordon_is_about(
    event: str, lead: timedelta
) -> None:
    labels = {"aws-node-termination-handler/event-id": event}
    assert node_facts(node(labels=labels, unschedulable=True), "n1", NOW).leaves_at == NOW + lead
    assert node_facts(node(labels=labels), "n1", NOW).leaves_at is None


def test_events_are_notices_too() -> None:
    interrupted, hinted = NOW - timedelta(seconds=30), NOW - timedelta(minutes=1)
    hint = node_facts(node(), "n1", NOW, EventTimes(rebalanced_at=hinted))
    assert hint.leaves_at == hinted + REBALANCE
    both = node_facts(node(), "n1", NOW, EventTimes(interrupted, hinted))
    assert both.leaves_at == interrupted + WARNING


@pytest.mark.parametrize("dialect", Dialect)
def test_what_the_cloud_takes_back_is_told_from_what_people_give_back(dialect: Dialect) -> None:
    takes = {
        Dialect.NTH_SPOT,
        Dialect.GKE_IMPENDING,
        Dialect.CLOUD_SHUTDOWN,
        Dialect.OUT_OF_SERVICE,
    }
    assert is_reclaimed(noticed(dialect, SPOT), is_spot=True) is (dialect in takes)
    told = EventTimes(interrupted_at=NOW)
    assert is_reclaimed(noticed(dialect, SPOT), is_spot=True, events=told)


def test_an_on_demand_machine_that_is_off_was_not_reclaimed() -> None:
    seen = noticed(Dialect.CLOUD_SHUTDOWN, {})
    assert not is_reclaimed(seen, is_spot=False)


@pytest.mark.parametrize(
    ("labels", "leaves_at"), [(SPOT, NOW + WARNING), ({}, NOW + timedelta(days=1))]
)
def test_karpenters_patience_is_not_the_clouds(labels: dict[str, str], leaves_at: datetime) -> None:
    end = "2026-03-03T12:00:00Z"
    seen = node(
        labels=labels,
        annotations={"karpenter.sh/nodeclaim-termination-timestamp": end},
        taints=[{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}],
    )
    assert node_facts(seen, "n1", NOW).leaves_at == leaves_at


def test_a_kubelet_that_says_its_node_is_shutting_down() -> None:
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "KubeletNotReady",
        "message": "node is shutting down",
        "lastTransitionTime": "2026-03-02T11:59:55Z",
    }
    facts = node_facts(node(conditions=[condition]), "n1", NOW)
    assert facts.leaves_at == NOW - timedelta(seconds=5) + SHUTDOWN
    assert not facts.ready


def test_unreadable_times_are_no_times() -> None:
    seen = node(
        annotations={"karpenter.sh/nodeclaim-termination-timestamp": "soon"},
        taints=[
            {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"},
            {"key": "ToBeDeletedByClusterAutoscaler", "value": "\N{SUPERSCRIPT TWO}" * 10},
        ],
    )
    assert node_facts(seen, "n1", NOW).leaves_at == NOW + WARNING


@pytest.mark.parametrize("platform", Platform)
def test_capacity_in_every_platforms_dialect(platform: Platform) -> None:
    spot = pool_labels(platform, capacity="spot").labels
    on_demand = pool_labels(platform, capacity="on-demand").labels
    says_it = platform is not Platform.PLAIN
    assert capacity_of(spot) is (Capacity.SPOT if says_it else Capacity.ON_DEMAND)
    assert capacity_of(on_demand) is Capacity.ON_DEMAND


@pytest.mark.parametrize(
    ("labels", "capacity"),
    [
        ({"karpenter.sh/capacity-type": "reserved"}, Capacity.RESERVED),
        ({"eks.amazonaws.com/capacityType": "CAPACITY_BLOCK"}, Capacity.RESERVED),
        ({"cloud.google.com/gke-preemptible": "true"}, Capacity.SPOT),
        ({"cloud.google.com/gke-spot": "false"}, Capacity.ON_DEMAND),
        # Karpenter on EKS: its own label is the truth.
        ({**SPOT, "eks.amazonaws.com/capacityType": "ON_DEMAND"}, Capacity.SPOT),
        ({"karpenter.sh/capacity-type": "of tomorrow"}, Capacity.ON_DEMAND),
        ({}, Capacity.ON_DEMAND),
    ],
)
def test_capacity_by_labels(labels: dict[str, str], capacity: Capacity) -> None:
    assert capacity_of(labels) is capacity


def test_a_node_without_marks() -> None:
    labels = {"failure-domain.beta.kubernetes.io/zone": "a"}
    assert node_facts(node(labels=labels), "n1", NOW) == Node("n1", zone="a", labels=labels)
    assert not node_facts(node(conditions=[]), "n1", NOW).ready
    assert not node_facts(node(conditions=[{**READY, "status": "Unknown"}]), "n1", NOW).ready
    assert node_facts(None, "n1", NOW) == Node("n1", gone=True, ready=False)


@pytest.mark.parametrize(
    ("status", "unreachable_at", "ready_at"),
    [
        pytest.param("True", None, NOW, id="its kubelet says that it is well"),
        pytest.param("False", None, None, id="its kubelet says that it is not"),
        pytest.param("Unknown", NOW, None, id="its kubelet says nothing"),
    ],
)
def test_since_when_nothing_is_heard_of_a_node(
    status: str, unreachable_at: datetime | None, ready_at: datetime | None
) -> None:
    condition = {**READY, "status": status, "lastTransitionTime": "2026-03-02T12:00:00Z"}
    facts = node_facts(node(conditions=[condition]), "n1", NOW)
    assert (facts.unreachable_at, facts.ready_at) == (unreachable_at, ready_at)


class Place:
    """A cache of one node, and time."""

    def __init__(self) -> None:
        self.node: NodeObject | None = None
        self.seconds = 0.0
        self.nodes = Nodes(
            lambda _: self.node,
            clock=lambda: self.seconds,
            wall=lambda: NOW + timedelta(seconds=self.seconds),
        )

    def look(self) -> Node:
        return self.nodes.look("n1")


def test_a_notice_counts_from_its_first_sight_and_is_forgotten_when_taken_back() -> None:
    place = Place()
    place.node = node(unschedulable=True)
    assert place.look().leaves_at == NOW + WARNING
    place.seconds = 60
    assert place.look().leaves_at == NOW + WARNING
    place.node = node()
    assert place.look().leaves_at is None
    place.node = node(unschedulable=True)
    assert place.look().leaves_at == NOW + timedelta(seconds=60) + WARNING
    place.seconds = 100
    place.node = node(unschedulable=True, uid="the next machine of this name")
    assert place.look().leaves_at == NOW + timedelta(seconds=100) + WARNING


def test_a_node_is_read_again_only_when_it_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[NodeObject] = []

    def counted(one: NodeObject, *arguments: Any) -> Node:
        read.append(one)
        return node_facts(one, *arguments)

    monkeypatch.setattr(facts, "node_facts", counted)
    place = Place()
    for changed in (node(), node(unschedulable=True)):
        place.node = changed
        for place.seconds in range(100):
            assert (place.look().leaves_at is None) is not changed.spec.unschedulable
    assert len(read) == 2


def test_a_notice_that_keeps_coming_back_is_forgotten_only_when_it_is_calm() -> None:
    place = Place()
    first, cordoned, free = NOW, node(unschedulable=True), node()
    place.node = cordoned
    place.look()
    place.node = free
    assert place.look().leaves_at is None, "the first time it is believed at once"
    place.seconds, place.node = 20, cordoned
    noticed_at = first + timedelta(seconds=20)
    assert place.look().leaves_at == noticed_at + WARNING
    place.seconds, place.node = 30, free
    assert place.look().leaves_at == noticed_at + WARNING
    assert place.nodes.wake_after_seconds("n1") == CALM_SECONDS
    place.seconds = 30 + CALM_SECONDS - 1
    assert place.look().leaves_at == noticed_at + WARNING
    assert place.nodes.wake_after_seconds("n1") == 1
    place.seconds = 30 + CALM_SECONDS
    assert place.look().leaves_at is None
    assert place.nodes.wake_after_seconds("n1") == float("inf")


def test_notices_that_are_far_apart_are_no_quarrel() -> None:
    place = Place()
    for seconds in (0, QUARREL_SECONDS + 10):
        place.seconds, place.node = seconds, node(unschedulable=True)
        assert place.look().leaves_at is not None
        place.node = node()
        assert place.look().leaves_at is None


def test_what_is_known_of_a_node() -> None:
    labels = {
        "node.kubernetes.io/instance-type": "g5.xlarge",
        "topology.kubernetes.io/region": "us-east-1",
        **SPOT,
    }
    given = {"spotrun.dev/usd-per-hour": "0.42"}
    seen = node_facts(node(labels=labels, annotations=given), "n1", NOW)
    assert (seen.instance_type, seen.region) == ("g5.xlarge", "us-east-1")
    assert seen.stated_price == "0.42"
    unreadable = node(annotations={"spotrun.dev/usd-per-hour": "?" * 1_000})
    assert node_facts(unreadable, "n1", NOW) == Node("n1", stated_price="?" * 64)


def test_a_node_that_was_there_is_gone_at_once_and_remembered_as_it_was() -> None:
    place = Place()
    place.node = node(labels=SPOT, unschedulable=True)
    place.look()
    place.node = None
    there = Node("n1", capacity=Capacity.SPOT, labels=SPOT)
    assert place.look() == replace(there, gone=True, ready=False)


def test_a_node_that_was_never_seen_may_only_be_late() -> None:
    place = Place()
    assert place.look() == Node("n1")
    place.seconds = MISSING_SECONDS - 0.1
    assert not place.look().gone
    place.seconds = MISSING_SECONDS
    assert place.look().gone


def test_it_is_looked_again_when_a_node_that_was_never_seen_turns_out_gone() -> None:
    seconds = [100.0]
    nodes = Nodes(lambda _: None, clock=lambda: seconds[0], wall=lambda: NOW)
    assert nodes.wake_after_seconds("n1") == float("inf")
    nodes.look("n1")
    seconds[0] += 4.0
    assert nodes.wake_after_seconds("n1") == MISSING_SECONDS - 4.0
    seconds[0] += MISSING_SECONDS
    assert nodes.wake_after_seconds("n1") == 0.0, "not said yet"
    assert nodes.look("n1").gone
    assert nodes.wake_after_seconds("n1") == float("inf")


def test_not_more_nodes_are_remembered_than_a_cluster_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spotrun.observe.nodes.facts.MOST_NODES", 3)
    place = Place()
    for number in range(10):
        place.nodes.look(f"n{number}")
        place.nodes.look("n0")  # somebody's workers are there
    assert list(place.nodes._known) == ["n8", "n9", "n0"]
