"""The marks of each platform's nodes: labels and taints of spot and on-demand capacity. Pure.

Emulated: the marks are as in the platforms' documentation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

Manifest = dict[str, Any]
Capacity = Literal["spot", "on-demand"]


class Platform(StrEnum):
    """The platform that makes the nodes."""

    EKS = "eks"  # managed node groups
    KARPENTER = "karpenter"
    GKE = "gke"
    AKS = "aks"
    KOPS = "kops"  # OpenCost's default for spot: an instance group of a certain name
    PLAIN = "plain"  # has no label of the capacity type


@dataclass(frozen=True)
class Marks:
    """The labels and taints of a pool's nodes."""

    labels: Mapping[str, str]
    taints: tuple[Manifest, ...] = field(default_factory=tuple)


def pool_labels(
    platform: Platform,
    *,
    capacity: Capacity = "spot",
    zone: str = "us-east-1a",
    instance_type: str = "g5.xlarge",
    pool: str = "gpu",
) -> Marks:
    """Return the labels and taints of a pool's node on a platform."""
    common = {
        "node.kubernetes.io/instance-type": instance_type,
        "topology.kubernetes.io/zone": zone,
        "topology.kubernetes.io/region": region_of(zone),
    }
    own = _own_marks(platform, pool, is_spot=capacity == "spot")
    return Marks({**common, **own.labels}, own.taints)


def region_of(zone: str) -> str:
    """Return a zone's region: `us-east-1a`, `us-central1-b` and `westeurope-2` are the forms."""
    if "-" in zone and len(zone.rpartition("-")[2]) == 1:
        return zone.rpartition("-")[0]
    return zone.rstrip("abcdefghijklmnopqrstuvwxyz")


def _own_marks(platform: Platform, pool: str, *, is_spot: bool) -> Marks:
    gke_spot = {"cloud.google.com/gke-spot": "true", "cloud.google.com/gke-provisioning": "spot"}
    aks_spot = "kubernetes.azure.com/scalesetpriority"
    spot, on_demand = {
        Platform.EKS: (
            Marks({"eks.amazonaws.com/nodegroup": pool, "eks.amazonaws.com/capacityType": "SPOT"}),
            Marks(
                {"eks.amazonaws.com/nodegroup": pool, "eks.amazonaws.com/capacityType": "ON_DEMAND"}
            ),
        ),
        Platform.KARPENTER: (_karpenter(pool, "spot"), _karpenter(pool, "on-demand")),
        Platform.GKE: (
            Marks(
                {"cloud.google.com/gke-nodepool": pool} | gke_spot,
                (_taint("cloud.google.com/gke-spot", "true"),),
            ),
            Marks(
                {
                    "cloud.google.com/gke-nodepool": pool,
                    "cloud.google.com/gke-provisioning": "standard",
                }
            ),
        ),
        Platform.AKS: (
            Marks(
                {"kubernetes.azure.com/agentpool": pool, aks_spot: "spot"},
                (_taint(aks_spot, "spot"),),
            ),
            Marks({"kubernetes.azure.com/agentpool": pool}),
        ),
        Platform.KOPS: (
            Marks({"kops.k8s.io/instancegroup": "spotinstance-nodes"}),
            Marks({"kops.k8s.io/instancegroup": pool}),
        ),
        Platform.PLAIN: (Marks({}), Marks({})),
    }[platform]
    return spot if is_spot else on_demand


def _karpenter(pool: str, capacity: Capacity) -> Marks:
    return Marks(
        {
            "karpenter.sh/capacity-type": capacity,
            "karpenter.sh/nodepool": pool,
            "karpenter.sh/registered": "true",
            "karpenter.sh/initialized": "true",
        }
    )


def _taint(key: str, value: str) -> Manifest:
    return {"key": key, "value": value, "effect": "NoSchedule"}
