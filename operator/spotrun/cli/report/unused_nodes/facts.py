"""Nodes that no workload uses, since when, and why their autoscaler keeps them. Pure.

The API server does not say when the last pod left a node. Karpenter does, in its NodeClaim; of
other nodes it is known when they were created, and when pods ended that are still listed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from spotrun.kube.resource import Meta, Resource
from spotrun.observe.kube_objects import NodeObject, PodStatus

NODE_CLAIMS = Resource("karpenter.sh", "v1", "nodeclaims")
NODE_POOLS = Resource("karpenter.sh", "v1", "nodepools")
NODE_POOL = "karpenter.sh/nodepool"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
SCALE_DOWN_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
_OVER = ("Succeeded", "Failed")
_NOT_COUNTED = ("DaemonSet", "Node")  # a static pod is owned by its node
_NEVER = "Never"


class Owner(msgspec.Struct, frozen=True):
    """The kind of an owner."""

    kind: str = ""


class PodMeta(Meta, frozen=True, rename="camel"):
    """A pod's owners."""

    owner_references: tuple[Owner, ...] = ()


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """A pod's node."""

    node_name: str = ""


class Pod(msgspec.Struct, frozen=True):
    """A pod of any workload, decoded as far as it says whether a node is used."""

    metadata: PodMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class NodeClaimStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The node of a NodeClaim, and when a pod last came or went there."""

    node_name: str = ""
    last_pod_event_time: str | None = None


class NodeClaim(msgspec.Struct, frozen=True):
    """Karpenter's object for a node."""

    metadata: Meta
    status: NodeClaimStatus = NodeClaimStatus()


class Disruption(msgspec.Struct, frozen=True, rename="camel"):
    """The pause after which Karpenter removes a node that is not needed."""

    consolidate_after: str = ""


class NodePoolSpec(msgspec.Struct, frozen=True):
    """A NodePool's spec."""

    disruption: Disruption = Disruption()


class NodePool(msgspec.Struct, frozen=True):
    """Karpenter's pool."""

    metadata: Meta
    spec: NodePoolSpec = NodePoolSpec()


@dataclass(frozen=True)
class Kept:
    """The reason why an unused node is still there, and the command that lets it be removed."""

    why: str
    command: str = ""  # "": there is none


@dataclass(frozen=True)
class Unused:
    """A node that no workload uses."""

    name: str
    since: datetime
    is_since_known: bool  # False: it may be empty for a shorter time
    kept: Kept


def unused_nodes(
    nodes: Sequence[NodeObject],
    pods: Iterable[Pod],
    claims: Iterable[NodeClaim],
    pools: Iterable[NodePool],
    *,
    now: datetime,
    at_least: timedelta,
) -> Iterator[Unused]:
    """Yield the nodes that may have been unused for at least `at_least`."""
    held, left = set[str](), dict[str, datetime]()
    for pod in pods:
        where = pod.spec.node_name
        if where and _counts(pod):
            held.add(where)
        for ended in _ends(pod):
            left[where] = max(ended, left.get(where, ended))
    last_event = {
        claim.status.node_name: datetime.fromisoformat(claim.status.last_pod_event_time)
        for claim in claims
        if claim.status.last_pod_event_time
    }
    after = {pool.metadata.name: pool.spec.disruption.consolidate_after for pool in pools}
    for node in nodes:
        name = node.metadata.name
        if name in held or node.metadata.deletion_timestamp is not None:
            continue
        made = datetime.fromisoformat(node.metadata.creation_timestamp)
        since = last_event.get(name) or max(made, left.get(name, made))
        if now - since >= at_least:
            yield Unused(name, since, name in last_event, _kept(node, after))


def _counts(pod: Pod) -> bool:
    """Whether the pod counts as a use of its node."""
    owners = {owner.kind for owner in pod.metadata.owner_references}
    return pod.status.phase not in _OVER and owners.isdisjoint(_NOT_COUNTED)


def _ends(pod: Pod) -> Iterator[datetime]:
    """Yield when the containers of a finished pod ended."""
    if pod.status.phase in _OVER:
        for container in pod.status.container_statuses:
            ended = container.state.terminated
            if ended is not None and ended.finished_at:
                yield datetime.fromisoformat(ended.finished_at)


def _kept(node: NodeObject, consolidate_after: Mapping[str, str]) -> Kept:
    name, meta = node.metadata.name, node.metadata
    if meta.annotations.get(DO_NOT_DISRUPT) == "true":
        return Kept(
            f"its annotation {DO_NOT_DISRUPT} keeps it",
            f"kubectl annotate node {name} {DO_NOT_DISRUPT}-",
        )
    if meta.annotations.get(SCALE_DOWN_DISABLED) == "true":
        return Kept(
            f"its annotation {SCALE_DOWN_DISABLED} keeps it",
            f"kubectl annotate node {name} {SCALE_DOWN_DISABLED}-",
        )
    pool = meta.labels.get(NODE_POOL)
    if pool is None:
        return Kept("not Karpenter's: cluster-autoscaler may remove it, or you do")
    after = consolidate_after.get(pool, "")
    if after == _NEVER:
        patch = '{"spec":{"disruption":{"consolidateAfter":"1m"}}}'
        return Kept(
            f"NodePool {pool} has consolidateAfter: Never",
            f"kubectl patch nodepool {pool} --type=merge -p '{patch}'",
        )
    return Kept(f"Karpenter removes it after the consolidateAfter of {pool} ({after or 'unknown'})")
