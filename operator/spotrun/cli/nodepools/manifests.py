"""Karpenter's NodePools and NodeOverlays, made from CapacityPools. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from spotrun.api.names import LABEL_MANAGED_BY, MANAGED_BY
from spotrun.cli.jobs.pool_model import Pool, PoolSpec
from spotrun.cli.nodepools.flags import GROUPS

Manifest = dict[str, Any]

NODE_POOL_LABEL = "karpenter.sh/nodepool"
_CAPACITY_LABEL = "karpenter.sh/capacity-type"
_TYPE_LABEL = "node.kubernetes.io/instance-type"
_ZONE_LABEL = "topology.kubernetes.io/zone"
_CAPACITY = {"Spot": "spot", "OnDemand": "on-demand", "Reserved": "reserved"}
_OF_KUBERNETES = ("kubernetes.io", "k8s.io", "karpenter.sh", "k8s.aws", "azure.com", "k8s.gcp")
"""Labels of these domains come from the machine: a NodePool can require them, but not set them."""
_WORTH_SAYING = Decimal("0.1")
"""A smaller change of a price, in percent, is left out."""
_MOST_PERCENT = Decimal(1000)
_DESCRIPTION = "kubernetes.io/description"


@dataclass
class Written:
    """The objects, and what had to be left out of them, in sentences."""

    objects: list[Manifest] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def node_pools(pools: Iterable[Pool], node_class: tuple[str, str]) -> Written:
    """Return a NodePool for each pool that people have declared."""
    written = Written()
    all_declared = [pool for pool in pools if is_declared(pool)]
    declared = [pool for pool in all_declared if pool.spec.own_nodes is None]
    written.notes += [
        f"CapacityPool {pool.metadata.name} is left out: Karpenter creates no nodes that you own"
        for pool in all_declared
        if pool.spec.own_nodes is not None
    ]
    times = Counter(map(_name, declared))
    for pool in declared:
        name = _name(pool)
        if times[name] > 1:
            written.notes.append(
                f"CapacityPool {pool.metadata.name} is left out: other pools name the NodePool "
                f"{name} too, which has one set of nodes. Give each its own {NODE_POOL_LABEL}"
            )
            continue
        written.objects.append(_node_pool(name, pool.spec, node_class))
        written.notes += [
            f"CapacityPool {pool.metadata.name} tolerates every taint: its nodes get none"
            for toleration in pool.spec.tolerations
            if toleration.key is None
        ]
    return written


def overlays(pools: Iterable[Pool], minutes_lost: float) -> Written:
    """Return a NodeOverlay for each spot pool that loses nodes: the price plus the cost of losses.

    Of two that match the same machine the more expensive one counts, so that a pool with many types
    and few losses does not hide a pool with one of these types and many losses.
    """
    found = [(_percent(pool, minutes_lost), pool) for pool in pools if pool.spec.capacity == "Spot"]
    worth = [one for one in found if one[0] >= _WORTH_SAYING]
    worth.sort(key=lambda one: (one[0], one[1].metadata.name))
    return Written(
        [_overlay(pool, percent, weight) for weight, (percent, pool) in enumerate(worth, 1)]
    )


def is_declared(pool: Pool) -> bool:
    """Whether people have declared the pool, or changed one that was found from nodes."""
    meta = pool.metadata
    return meta.labels.get(LABEL_MANAGED_BY) != MANAGED_BY or meta.generation > 1


def _name(pool: Pool) -> str:
    return pool.spec.node_selector.get(NODE_POOL_LABEL, pool.metadata.name)


def _node_pool(name: str, spec: PoolSpec, node_class: tuple[str, str]) -> Manifest:
    kind, of = node_class
    labels = {key: value for key, value in spec.node_selector.items() if not _is_asked(key)}
    taints = [
        {
            "key": one.key,
            **({"value": one.value} if one.value else {}),
            "effect": one.effect or "NoSchedule",
        }
        for one in spec.tolerations
        if one.key is not None
    ]
    template = {
        "requirements": _requirements(spec),
        "nodeClassRef": {"group": GROUPS[kind], "kind": kind, "name": of},
        **({"taints": taints} if taints else {}),
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {**({"metadata": {"labels": labels}} if labels else {}), "spec": template},
            **({"limits": {"nodes": str(spec.max_workers)}} if spec.max_workers else {}),
            # A node that trains is never underused; one that is empty is not needed.
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "1m"},
        },
    }


def _overlay(pool: Pool, percent: Decimal, weight: int) -> Manifest:
    of_node_pool = pool.spec.node_selector.get(NODE_POOL_LABEL)
    asked = _requirements(pool.spec)
    if of_node_pool is not None:
        asked.append(_in(NODE_POOL_LABEL, (of_node_pool,)))
    declared = pool.spec.usd_per_hour
    if declared is not None:
        usd = Decimal(declared) * (1 + percent / 100)
        price = {"price": f"{usd:.6f}"}
    else:
        price = {"priceAdjustment": f"+{percent}%"}
    rate = pool.status.interruptions_per_hour
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {
            "name": f"spotrun-{pool.metadata.name}",
            "annotations": {_DESCRIPTION: f"a node is taken away {rate} times an hour there"},
        },
        "spec": {"requirements": asked, "weight": min(weight, 10_000), **price},
    }


def _percent(pool: Pool, minutes_lost: float) -> Decimal:
    """Return by how many percent losses raise the price of an hour there."""
    rate = Decimal(pool.status.interruptions_per_hour or 0)
    percent = rate * Decimal(minutes_lost) / 60 * 100
    return min(percent, _MOST_PERCENT).quantize(Decimal("0.1"))


def _requirements(spec: PoolSpec) -> list[Manifest]:
    asked = [
        (_CAPACITY_LABEL, (_CAPACITY.get(spec.capacity, spec.capacity),)),
        (_TYPE_LABEL, spec.instance_types),
        (_ZONE_LABEL, spec.zones),
        *_others(spec.node_selector),
    ]
    return [_in(key, values) for key, values in asked if values]


def _others(labels: Mapping[str, str]) -> list[tuple[str, Sequence[str]]]:
    mine = {_CAPACITY_LABEL, _TYPE_LABEL, _ZONE_LABEL, NODE_POOL_LABEL}
    return [(key, (value,)) for key, value in labels.items() if _is_asked(key) and key not in mine]


def _is_asked(key: str) -> bool:
    domain, is_qualified, _ = key.rpartition("/")
    return bool(is_qualified) and any(
        domain == one or domain.endswith(f".{one}") for one in _OF_KUBERNETES
    )


def _in(key: str, values: Sequence[str]) -> Manifest:
    return {"key": key, "operator": "In", "values": list(values)}
