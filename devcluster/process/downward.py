"""The downward API: the fields and resources that a pod may ask about itself."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any

from devcluster.kubelet.runtime import Manifest, StartError

_SUFFIXES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{name: Decimal(1000) ** power for power, name in enumerate("kMGTPE", start=1)},
    **{f"{name}i": Decimal(1024) ** power for power, name in enumerate("KMGTPE", start=1)},
}
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")


@dataclass(frozen=True)
class Place:
    """A pod and where it runs."""

    pod: Manifest
    node: Manifest
    pod_ip: str

    @property
    def name(self) -> str:
        """The pod's name."""
        return str(self.pod["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return str(self.pod["metadata"]["namespace"])

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return str(self.pod["metadata"]["uid"])

    @property
    def service_account(self) -> str:
        """The name of the service account that the pod runs as."""
        return str(self.pod["spec"].get("serviceAccountName") or "default")

    @property
    def host_ip(self) -> str:
        """The node's address."""
        return host_ip(self.node)


def host_ip(node: Manifest) -> str:
    """Return a node's internal address, or an empty text before it has reported one."""
    addresses = node.get("status", {}).get("addresses") or ()
    return next((str(a["address"]) for a in addresses if a["type"] == "InternalIP"), "")


def field(place: Place, path: str) -> str:
    """Return what a `fieldRef` refers to; raises StartError for a path that does not exist."""
    meta = place.pod["metadata"]
    if subscript := _SUBSCRIPT.fullmatch(path):
        kind, key = subscript.groups()
        return str((meta.get(kind) or {}).get(key, ""))
    values = {
        "metadata.name": place.name,
        "metadata.namespace": place.namespace,
        "metadata.uid": place.uid,
        "metadata.labels": _formatted(meta.get("labels") or {}),
        "metadata.annotations": _formatted(meta.get("annotations") or {}),
        "spec.nodeName": str(place.node["metadata"]["name"]),
        "spec.serviceAccountName": place.service_account,
        "status.podIP": place.pod_ip,
        "status.podIPs": place.pod_ip,
        "status.hostIP": place.host_ip,
        "status.hostIPs": place.host_ip,
    }
    if path not in values:
        raise StartError("CreateContainerConfigError", f"unsupported fieldPath: {path}")
    return values[path]


def resource(place: Place, container: Manifest, reference: Mapping[str, Any]) -> str:
    """Return what a `resourceFieldRef` refers to, in units of its divisor, rounded up.

    If the container has no such limit, it is the node's allocatable amount.
    """
    kind, _, name = str(reference["resource"]).partition(".")
    own = (container.get("resources") or {}).get(kind) or {}
    allocatable = place.node.get("status", {}).get("allocatable") or {}
    fallback = allocatable.get(name, "0") if kind == "limits" else "0"
    divisor = quantity(str(reference.get("divisor") or "1")) or Decimal(1)
    amount = quantity(str(own.get(name, fallback))) / divisor
    return str(int(amount.to_integral_value(ROUND_CEILING)))


def container_of(pod: Manifest, name: str) -> Manifest:
    """Return one container of a pod, init containers included; raises StartError."""
    containers = (*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ()))
    for container in containers:
        if container["name"] == name:
            found: Manifest = container
            return found
    raise StartError("CreateContainerConfigError", f"the pod has no container {name}")


def quantity(text: str) -> Decimal:
    """Return the value of a Kubernetes quantity as a number."""
    digits = text.rstrip("numkKMGTPEi")
    suffix = text[len(digits) :]
    return Decimal(digits) * _SUFFIXES[suffix] if suffix else Decimal(digits)


def _formatted(values: Mapping[str, str]) -> str:
    return "\n".join(
        f"{key}={json.dumps(values[key], ensure_ascii=False)}" for key in sorted(values)
    )
