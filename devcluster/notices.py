"""Notices that a node will go away, in each platform's form, as API writes. Pure.

Emulated: these are the writes that the documentation of each component describes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Literal

from devcluster.client import MERGE, at
from devcluster.kubelet.records import rfc3339

Manifest = dict[str, Any]

TERMINATION_FINALIZER = "karpenter.sh/termination"
TERMINATION_TIME = "karpenter.sh/nodeclaim-termination-timestamp"
NTH = "aws-node-termination-handler"


class Dialect(StrEnum):
    """The marks of a node that will go away, named by the component that sets them."""

    CORDON = "cordon"  # kubectl drain, node upgrades, the termination handler by default
    KARPENTER_DISRUPTED = "karpenter-disrupted"  # the taint, with the final deadline as annotation
    KARPENTER_SPOT = "karpenter-spot"  # the same, and Event SpotInterrupted
    KARPENTER_REBALANCE = "karpenter-rebalance"  # Event SpotRebalanceRecommendation, a hint
    KARPENTER_DELETION = "karpenter-deletion"  # the Node has a deletionTimestamp: final
    NTH_SPOT = "nth-spot-itn"
    NTH_MAINTENANCE = "nth-scheduled-maintenance"
    NTH_ASG = "nth-asg-lifecycle-termination"
    NTH_REBALANCE = "nth-rebalance-recommendation"
    AUTOSCALER = "cluster-autoscaler"
    AUTOSCALER_CANDIDATE = "cluster-autoscaler-candidate"  # only a candidate so far
    GKE_IMPENDING = "gke-impending-termination"
    CLOUD_SHUTDOWN = "cloud-provider-shutdown"  # the machine is already off
    OUT_OF_SERVICE = "out-of-service"  # NoExecute: its pods are deleted by force


@dataclass(frozen=True)
class Write:
    """One request to the API server."""

    method: Literal["POST", "PATCH", "DELETE"]
    path: str
    body: Manifest
    content_type: str = "application/json"


@dataclass(frozen=True)
class Marks:
    """The changes that a dialect makes to a node."""

    taints: tuple[Manifest, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    is_cordoned: bool = False
    event: tuple[str, str, str] | None = None  # type, reason, message
    is_deleted: bool = False


def marks(dialect: Dialect, deadline: datetime, now: datetime) -> Marks:
    """Return the changes that a dialect makes to a node that ends at `deadline`."""
    if dialect.startswith("nth-"):
        return _termination_handler(dialect.removeprefix("nth-"), deadline)
    interrupted = ("Warning", "SpotInterrupted", "A spot interruption warning was triggered")
    hint = (
        "Normal",
        "SpotRebalanceRecommendation",
        "A spot rebalance recommendation was triggered",
    )
    disrupted = Marks(
        taints=(_taint("karpenter.sh/disrupted"),),
        annotations={TERMINATION_TIME: rfc3339(deadline)},
    )
    return {
        Dialect.CORDON: Marks(is_cordoned=True),
        Dialect.KARPENTER_DISRUPTED: disrupted,
        Dialect.KARPENTER_SPOT: replace(disrupted, event=interrupted),
        Dialect.KARPENTER_DELETION: replace(disrupted, is_deleted=True),
        Dialect.KARPENTER_REBALANCE: Marks(event=hint),
        Dialect.AUTOSCALER: _tainted("ToBeDeletedByClusterAutoscaler", _unix(now)),
        Dialect.AUTOSCALER_CANDIDATE: _tainted(
            "DeletionCandidateOfClusterAutoscaler", _unix(now), "PreferNoSchedule"
        ),
        Dialect.GKE_IMPENDING: _tainted("cloud.google.com/impending-node-termination"),
        Dialect.CLOUD_SHUTDOWN: _tainted("node.cloudprovider.kubernetes.io/shutdown"),
        Dialect.OUT_OF_SERVICE: _tainted(
            "node.kubernetes.io/out-of-service", "nodeshutdown", "NoExecute"
        ),
    }[dialect]


def notice(dialect: Dialect, node: Manifest, deadline: datetime, now: datetime) -> list[Write]:
    """Return the writes that announce that a node ends at `deadline`.

    A patch names the node's resourceVersion, because taints can only be replaced as a whole.
    """
    left = marks(dialect, deadline, now)
    keys = {t["key"] for t in left.taints}
    taints = [t for t in node["spec"].get("taints", []) if t["key"] not in keys]
    meta: Manifest = {}
    if left.labels:
        meta["labels"] = dict(left.labels)
    if left.annotations:
        meta["annotations"] = dict(left.annotations)
    if left.is_deleted:
        finalizers = node["metadata"].get("finalizers", [])
        meta["finalizers"] = [*finalizers, TERMINATION_FINALIZER]
    spec: Manifest = {"taints": [*taints, *left.taints]} if left.taints else {}
    if left.is_cordoned:
        spec["unschedulable"] = True
    writes = [_patch(node, meta, spec)] if meta or spec else []
    if left.event is not None:
        # The first write, as on a real platform: the event comes before the change to the node.
        writes.insert(0, _event(node, *left.event, now))
    if left.is_deleted:
        writes.append(Write("DELETE", _path(node), {"kind": "DeleteOptions", "apiVersion": "v1"}))
    return writes


def take_back(dialect: Dialect, node: Manifest) -> list[Write]:
    """Return the writes that undo a notice; events stay, as on a real platform."""
    left = marks(dialect, datetime.now(UTC), datetime.now(UTC))
    if left.is_deleted:
        raise ValueError("a deletion cannot be taken back: end it with `vanish(delete_node=True)`")
    keys = {t["key"] for t in left.taints}
    meta: Manifest = {}
    if left.labels:
        meta["labels"] = dict.fromkeys(left.labels)
    if left.annotations:
        meta["annotations"] = dict.fromkeys(left.annotations)
    spec: Manifest = {}
    if left.taints:
        spec["taints"] = [t for t in node["spec"].get("taints", []) if t["key"] not in keys] or None
    if left.is_cordoned:
        spec["unschedulable"] = None
    return [_patch(node, meta, spec)] if meta or spec else []


def _termination_handler(kind: str, deadline: datetime) -> Marks:
    event_id = f"{kind}-0123456789abcdef"
    return Marks(
        taints=(_taint(f"{NTH}/{kind}", event_id),),
        labels={
            f"{NTH}/action": "cordon-and-drain",
            f"{NTH}/action-time": _unix(deadline),
            f"{NTH}/event-id": event_id,
        },
        is_cordoned=True,
    )


def _taint(key: str, value: str = "", effect: str = "NoSchedule") -> Manifest:
    return {"key": key, "effect": effect} | ({"value": value} if value else {})


def _tainted(key: str, value: str = "", effect: str = "NoSchedule") -> Marks:
    return Marks(taints=(_taint(key, value, effect),))


def _unix(moment: datetime) -> str:
    return str(int(moment.timestamp()))


def _path(node: Manifest) -> str:
    return at("nodes", None, node["metadata"]["name"])


def _patch(node: Manifest, meta: Manifest, spec: Manifest) -> Write:
    meta = meta | {"resourceVersion": node["metadata"]["resourceVersion"]}
    body: Manifest = {"metadata": meta} | ({"spec": spec} if spec else {})
    return Write("PATCH", _path(node), body, MERGE)


def _event(node: Manifest, kind: str, reason: str, message: str, now: datetime) -> Write:
    meta = node["metadata"]
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{meta['name']}.", "namespace": "default"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Node",
            "name": meta["name"],
            "uid": meta["uid"],
        },
        "type": kind,
        "reason": reason,
        "message": f"Node {meta['name']} event: {message} for the node",
        "source": {"component": "karpenter"},
        "firstTimestamp": rfc3339(now),
        "lastTimestamp": rfc3339(now),
        "count": 1,
    }
    return Write("POST", at("events", "default"), body)
