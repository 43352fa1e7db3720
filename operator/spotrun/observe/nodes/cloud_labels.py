"""Node labels of every cloud: instance type, zone, region, capacity type, accelerator. Pure.

Platforms overlap (Karpenter runs on EKS), so the order in each table counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from spotrun.api.capacitypool import Capacity
from spotrun.api.names import INSTANCE_TYPE_LABELS, REGION_LABELS, ZONE_LABELS

Labels = Mapping[str, str]

CAPACITY_LABELS: tuple[tuple[str, Mapping[str, Capacity]], ...] = (
    (
        "karpenter.sh/capacity-type",
        {
            "spot": Capacity.SPOT,
            "on-demand": Capacity.ON_DEMAND,
            "reserved": Capacity.RESERVED,
        },
    ),
    (
        "eks.amazonaws.com/capacityType",
        {
            "SPOT": Capacity.SPOT,
            "ON_DEMAND": Capacity.ON_DEMAND,
            "CAPACITY_BLOCK": Capacity.RESERVED,
        },
    ),
    ("cloud.google.com/gke-spot", {"true": Capacity.SPOT}),
    (
        "cloud.google.com/gke-provisioning",
        {
            "spot": Capacity.SPOT,
            "preemptible": Capacity.SPOT,
            "standard": Capacity.ON_DEMAND,
            "reservation": Capacity.RESERVED,
        },
    ),
    ("cloud.google.com/gke-preemptible", {"true": Capacity.SPOT}),
    ("kubernetes.azure.com/scalesetpriority", {"spot": Capacity.SPOT}),
    ("kops.k8s.io/instancegroup", {"spotinstance-nodes": Capacity.SPOT}),
)

SPOT_TAINTS = (
    "cloud.google.com/gke-spot",
    "cloud.google.com/gke-preemptible",
    "kubernetes.azure.com/scalesetpriority",
)
"""Taints by which platforms keep pods that did not ask for spot nodes away from them."""

_ACCELERATOR_LABELS = (
    "karpenter.k8s.aws/instance-gpu-name",  # a10g
    "karpenter.k8s.aws/instance-accelerator-name",  # inferentia
    "cloud.google.com/gke-accelerator",  # nvidia-h100-80gb
    "nvidia.com/gpu.product",  # NVIDIA-A10G: NVIDIA's own feature discovery, on any platform
)


@dataclass(frozen=True)
class Identity:
    """The properties in which nodes of one pool agree; a node without a type has none."""

    instance_type: str
    zone: str
    capacity: Capacity


def instance_type_of(labels: Labels) -> str:
    """Return the instance type; empty if no label says it."""
    return first(labels, INSTANCE_TYPE_LABELS)


def zone_of(labels: Labels) -> str:
    """Return the zone."""
    return first(labels, ZONE_LABELS)


def region_of(labels: Labels) -> str:
    """Return the region, on which prices depend."""
    return first(labels, REGION_LABELS)


def accelerator_of(labels: Labels) -> str:
    """Return the GPU's model in the platform's own words, in lower case.

    If no label says it, the family of the instance type stands for it: a family has one GPU model.
    """
    return (first(labels, _ACCELERATOR_LABELS) or _family(instance_type_of(labels))).lower()


def stated_capacity(labels: Labels) -> Capacity | None:
    """Return the capacity type that the labels state, in any platform's way; None if none does."""
    for label, values in CAPACITY_LABELS:
        if labels.get(label) in values:
            return values[labels[label]]
    return None


def capacity_of(labels: Labels) -> Capacity:
    """Return the capacity type; a node whose labels state none counts as on-demand."""
    return stated_capacity(labels) or Capacity.ON_DEMAND


def identity_of(labels: Labels) -> Identity | None:
    """Return the identity of a node in the market; None if its labels do not give the type."""
    instance_type = instance_type_of(labels)
    if not instance_type:
        return None
    return Identity(instance_type, zone_of(labels), capacity_of(labels))


def capacity_mark(labels: Labels) -> dict[str, str]:
    """Return the label that states the capacity type; none if only the other type has a label."""
    stated = (
        {label: labels[label]} for label, values in CAPACITY_LABELS if labels.get(label) in values
    )
    return next(stated, {})


def first(labels: Labels, names: tuple[str, ...]) -> str:
    """Return the value of the first of these labels that is present."""
    return next((labels[name] for name in names if labels.get(name)), "")


def _family(instance_type: str) -> str:
    """Return g5 for g5.xlarge, a2-highgpu for a2-highgpu-1g; others are families of one."""
    if "." in instance_type:
        return instance_type.partition(".")[0]
    parts = instance_type.split("-")
    return "-".join(parts[:2]) if len(parts) > 2 else instance_type
