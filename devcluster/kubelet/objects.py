"""Builds the Node and Lease objects that a kubelet writes. Pure."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from devcluster.kubelet.records import rfc3339
from devcluster.kubelet.runtime import Manifest

DEFAULT_CAPACITY = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}
LEASE_NAMESPACE = "kube-node-lease"


@dataclass(frozen=True)
class NodeSpec:
    """The description of a node; quantities as in Kubernetes, e.g. {"nvidia.com/gpu": "8"}."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Manifest] = ()
    capacity: Mapping[str, str] = field(default_factory=dict)  # the rest: DEFAULT_CAPACITY
    annotations: Mapping[str, str] = field(default_factory=dict)
    finalizers: Sequence[str] = ()
    provider_id: str = ""


@dataclass(frozen=True)
class Endpoint:
    """The address and port at which the kubelet API of a node is served."""

    address: str
    port: int


def node_object(spec: NodeSpec, at: Endpoint, version: str, now: datetime) -> Manifest:
    """Return the Node as its kubelet registers it: ready."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    labels = {
        "kubernetes.io/hostname": spec.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": machine,
    }
    metadata: Manifest = {"name": spec.name, "labels": labels | dict(spec.labels)}
    if spec.annotations:
        metadata["annotations"] = dict(spec.annotations)
    if spec.finalizers:
        metadata["finalizers"] = list(spec.finalizers)
    node_spec: Manifest = {"taints": list(spec.taints)} if spec.taints else {}
    if spec.provider_id:
        node_spec["providerID"] = spec.provider_id
    capacity = DEFAULT_CAPACITY | dict(spec.capacity)
    status = {
        "capacity": capacity,
        "allocatable": capacity,
        # No Hostname: the API server would try it first, and it cannot be resolved.
        "addresses": [{"type": "InternalIP", "address": at.address}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": at.port}},
        "conditions": conditions(now),
        "nodeInfo": _node_info(spec.name, machine, version),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": node_spec,
        "status": status,
    }


def conditions(now: datetime, *, not_ready_because: str = "") -> list[Manifest]:
    """Return a node's conditions: it is ready, or not ready for the given reason."""
    fine = {
        "MemoryPressure": ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    }
    ready = ("True", "KubeletReady", "kubelet is posting ready status")
    if not_ready_because:
        ready = ("False", "KubeletNotReady", not_ready_because)
    said = [(kind, "False", *words) for kind, words in fine.items()] + [("Ready", *ready)]
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": rfc3339(now),
            "lastTransitionTime": rfc3339(now),
        }
        for kind, status, reason, message in said
    ]


def lease_object(node: Manifest, duration_seconds: int, now: datetime) -> Manifest:
    """Return the Lease by which a node shows that it is alive; it is deleted with its Node."""
    meta = node["metadata"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": meta["name"], "uid": meta["uid"]}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": meta["name"],
            "namespace": LEASE_NAMESPACE,
            "ownerReferences": [owner],
        },
        "spec": {
            "holderIdentity": meta["name"],
            "leaseDurationSeconds": duration_seconds,
            "renewTime": micro_time(now),
        },
    }


def micro_time(moment: datetime) -> str:
    """Write a time to the microsecond, as in leases."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _node_info(name: str, machine: str, version: str) -> Manifest:
    return {
        "machineID": name,
        "systemUUID": name,
        "bootID": name,
        "kernelVersion": platform.release(),
        "osImage": "devcluster",
        "containerRuntimeVersion": "devcluster://1",
        "kubeletVersion": version,
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": machine,
    }
