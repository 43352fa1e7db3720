"""On which nodes a worker may run: its affinity and its tolerations. Pure."""

import functools
import itertools
from collections.abc import Iterable
from typing import Any

from spotrun.act.manifest import Manifest
from spotrun.api.capacitypool import Capacity
from spotrun.api.placement import CapacityPolicy
from spotrun.api.trainingjob import TrainingJobSpec
from spotrun.observe.nodes import CAPACITY_LABELS
from spotrun.observe.template import gpu_limits

SPOT_TAINTS = (
    "cloud.google.com/gke-spot",
    "cloud.google.com/gke-preemptible",
    "kubernetes.azure.com/scalesetpriority",
)
_UNHEALTHY_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHT = 100


def affinity(
    given: Manifest | None, policy: CapacityPolicy, avoid_nodes: Iterable[str] = ()
) -> Manifest:
    """The user's affinity, narrowed down to (or inclined to) the capacity that the job may use."""
    result = dict(given or {})
    of_nodes = dict(result.get("nodeAffinity") or {})
    terms = list((of_nodes.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ())
    if policy is CapacityPolicy.MIXED:
        wishes = [{"weight": _WEIGHT, "preference": term} for term in _spot_terms()]
        of_nodes[_PREFERRED] = [*(of_nodes.get(_PREFERRED) or ()), *wishes]
    else:
        terms = _both(terms, _spot_terms() if policy is CapacityPolicy.SPOT else [_not_spot()])
    if avoided := _not_these(avoid_nodes):
        terms = _both(terms, [avoided])
    if terms:
        of_nodes[_REQUIRED] = {"nodeSelectorTerms": terms}
    return {**result, "nodeAffinity": of_nodes}


def tolerations(
    given: Iterable[Manifest], spec: TrainingJobSpec, *, unhealthy_seconds: int
) -> list[Manifest]:
    """The user's tolerations, and those that a worker needs besides."""
    theirs = list(given)
    keys = [*gpu_limits(spec.workers.template)]
    if spec.placement.capacity is not CapacityPolicy.ON_DEMAND:
        keys += SPOT_TAINTS
    ours = [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in keys] + [
        {
            "key": key,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": unhealthy_seconds,
        }
        for key in _UNHEALTHY_TAINTS
    ]
    covered = {(one.get("key"), one.get("effect")) for one in theirs}
    return [*theirs, *(one for one in ours if not _is_covered(one, covered))]


def _is_covered(one: Manifest, covered: set[tuple[Any, Any]]) -> bool:
    """Whether the user has said something about this taint, which then counts."""
    return (one["key"], one["effect"]) in covered or (one["key"], None) in covered


def _spot_values() -> list[tuple[str, list[str]]]:
    found = [
        (label, [value for value, capacity in values.items() if capacity is Capacity.SPOT])
        for label, values in CAPACITY_LABELS
    ]
    return [(label, values) for label, values in found if values]


@functools.cache
def _spot_terms() -> list[Manifest]:
    """One alternative for each platform's way to say spot."""
    return [
        {"matchExpressions": [{"key": label, "operator": "In", "values": values}]}
        for label, values in _spot_values()
    ]


@functools.cache
def _not_spot() -> Manifest:
    """NotIn holds as well where there is no such label."""
    return {
        "matchExpressions": [
            {"key": label, "operator": "NotIn", "values": values}
            for label, values in _spot_values()
        ]
    }


def _not_these(nodes: Iterable[str]) -> Manifest:
    """By the node's name, which is a field: the label of the host name may be another."""
    names = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]
    return {"matchFields": names} if names else {}


def _both(theirs: Iterable[Manifest], ours: list[Manifest]) -> list[Manifest]:
    """Terms are alternatives: one of theirs and one of ours must hold."""
    given = list(theirs)
    if not given:
        return ours
    # A term that asks for nothing matches no node; combined with ours it would begin to match.
    asking = [term for term in given if any(term.values())]
    return [
        {
            part: [*(one.get(part) or ()), *other.get(part, ())]
            for part in ("matchExpressions", "matchFields")
            if one.get(part) or part in other
        }
        for one, other in itertools.product(asking, ours)
    ] or given
