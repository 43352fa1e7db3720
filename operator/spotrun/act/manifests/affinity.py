"""The affinity and tolerations of a worker: the nodes on which it may run. Pure."""

import functools
import itertools
from collections.abc import Iterable
from typing import Any

from spotrun.act.manifests.plain_json import Manifest
from spotrun.api.capacitypool import Capacity
from spotrun.api.names import HOST_LABEL, ZONE_LABELS
from spotrun.api.spec.placement import CapacityPolicy
from spotrun.api.trainingjob import TrainingJobSpec
from spotrun.observe.nodes.cloud_labels import CAPACITY_LABELS, SPOT_TAINTS
from spotrun.observe.template_defaults import gpu_limits
from spotrun.state.actions import Placed
from spotrun.state.market import Market, PoolFacts

_UNHEALTHY_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHT = 100

ANYWHERE, UNKNOWN = Placed(), Market()
"""The placement and the market where no pool is known."""


def affinity(
    given: Manifest | None,
    policy: CapacityPolicy,
    avoid_nodes: Iterable[str] = (),
    place: Placed = ANYWHERE,
    market: Market = UNKNOWN,
) -> Manifest:
    """Return the user's affinity, restricted to the pools that the job may use, or preferring them.

    If no pool is known, it is restricted to the capacity types that the job may use.
    """
    result = dict(given or {})
    of_nodes = dict(result.get("nodeAffinity") or {})
    terms = list((of_nodes.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ())
    wishes = [
        {"weight": weight, "preference": term}
        for name, weight in place.preferred
        for term in _pool_terms(market, (name,), "")
    ]
    if required := _pool_terms(market, place.required, place.zone):
        terms = both(terms, required)
    elif place.capacity is None and policy is CapacityPolicy.MIXED:
        wishes += [{"weight": _WEIGHT, "preference": term} for term in _spot_terms()]
    else:
        is_spot = place.capacity is Capacity.SPOT or policy is CapacityPolicy.SPOT
        terms = both(terms, _spot_terms() if is_spot else [_not_spot()])
    if wishes:
        of_nodes[_PREFERRED] = [*(of_nodes.get(_PREFERRED) or ()), *wishes]
    if avoided := _not_these(avoid_nodes):
        terms = both(terms, [avoided])
    if terms:
        of_nodes[_REQUIRED] = {"nodeSelectorTerms": terms}
    return {**result, "nodeAffinity": of_nodes}


def tolerations(
    given: Iterable[Manifest],
    spec: TrainingJobSpec,
    *,
    unhealthy_seconds: int,
    place: Placed = ANYWHERE,
    market: Market = UNKNOWN,
) -> list[Manifest]:
    """Return the user's tolerations, those that a worker needs, and those that pools name."""
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
    named = (*place.required, *(name for name, _ in place.preferred))
    pools = [pool for name in dict.fromkeys(named) if (pool := market.pool(name)) is not None]
    ours += [one.manifest() for one in dict.fromkeys(t for p in pools for t in p.tolerations)]
    covered = {(one.get("key"), one.get("effect")) for one in theirs}
    return [*theirs, *(one for one in ours if not _is_covered(one, covered))]


def _is_covered(one: Manifest, covered: set[tuple[Any, Any]]) -> bool:
    """Whether the user tolerates this taint already; then the user's toleration counts."""
    return (one.get("key"), one.get("effect")) in covered or (one.get("key"), None) in covered


def _spot_values() -> list[tuple[str, list[str]]]:
    found = [
        (label, [value for value, capacity in values.items() if capacity is Capacity.SPOT])
        for label, values in CAPACITY_LABELS
    ]
    return [(label, values) for label, values in found if values]


def _pool_terms(market: Market, names: Iterable[str], zone: str) -> list[Manifest]:
    """Return one alternative for each pool; a deleted pool has none."""
    pools = (market.pool(name) for name in names)
    return [_pool_term(pool, zone) for pool in pools if pool is not None and pool.match_labels]


def _pool_term(pool: PoolFacts, zone: str) -> Manifest:
    labels = dict(pool.match_labels)
    if zone:
        key = next((label for label in ZONE_LABELS if label in labels), ZONE_LABELS[0])
        labels[key] = (zone,)
    return {
        "matchExpressions": [
            {"key": key, "operator": "In", "values": list(values)} for key, values in labels.items()
        ]
    }


@functools.cache
def _spot_terms() -> list[Manifest]:
    """Return one alternative for each platform's label for spot."""
    return [
        {"matchExpressions": [{"key": label, "operator": "In", "values": values}]}
        for label, values in _spot_values()
    ]


@functools.cache
def _not_spot() -> Manifest:
    """Exclude spot nodes; NotIn also holds for nodes that have no such label."""
    return {
        "matchExpressions": [
            {"key": label, "operator": "NotIn", "values": values}
            for label, values in _spot_values()
        ]
    }


def _not_these(nodes: Iterable[str]) -> Manifest:
    """Exclude nodes by host name label: Karpenter makes no node for a pod with matchFields."""
    names = list(nodes)
    if not names:
        return {}
    return {"matchExpressions": [{"key": HOST_LABEL, "operator": "NotIn", "values": names}]}


def both(theirs: Iterable[Manifest], ours: list[Manifest]) -> list[Manifest]:
    """Combine two lists of alternatives: one of the user's and one of ours must match."""
    given = list(theirs)
    if not given:
        return ours
    # An empty term matches no node; combined with one of ours it would match some.
    asking = [term for term in given if any(term.values())]
    return [
        {
            part: [*(one.get(part) or ()), *other.get(part, ())]
            for part in ("matchExpressions", "matchFields")
            if one.get(part) or part in other
        }
        for one, other in itertools.product(asking, ours)
    ] or given
