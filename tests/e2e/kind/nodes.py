"""The nodes of the cluster, and how kind is told. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CLUSTER = "spotrun-e2e"
REGION = "e2e-1"


@dataclass(frozen=True)
class Worker:
    """A node that trains: a line of a small market, in Karpenter's dialect."""

    name: str
    zone: str
    capacity: str

    @property
    def labels(self) -> dict[str, str]:
        return {
            "topology.kubernetes.io/region": REGION,
            "topology.kubernetes.io/zone": f"{REGION}{self.zone}",
            "node.kubernetes.io/instance-type": "e2e.cpu",
            "karpenter.sh/capacity-type": self.capacity,
        }


WORKERS = (
    Worker(f"{CLUSTER}-worker", "a", "on-demand"),
    Worker(f"{CLUSTER}-worker2", "b", "spot"),
    Worker(f"{CLUSTER}-worker3", "b", "spot"),
)
"""Named as kind names them, in this order. The spot nodes are one pool: a job asks for all workers
from the best one, and where that has too few nodes it waits a minute for more of them."""
SPOT_NODES = tuple(worker.name for worker in WORKERS if worker.capacity == "spot")


def kind_config(workers: Sequence[Worker], mounts: Mapping[Path, str]) -> dict[str, Any]:
    """Return the config for kind; `mounts` are folders of ours, and where nodes see them."""
    extra = [
        {"hostPath": str(here), "containerPath": there, "readOnly": there == "/images"}
        for here, there in mounts.items()
    ]
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "name": CLUSTER,
        "nodes": [
            {"role": "control-plane", "extraMounts": extra},
            *({"role": "worker", "labels": w.labels, "extraMounts": extra} for w in workers),
        ],
    }
