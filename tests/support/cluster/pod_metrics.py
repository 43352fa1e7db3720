"""metrics.k8s.io, played: PodMetrics are plain objects that a test writes.

A metrics-server measures pods by asking kubelets, and those of scripted nodes run nothing that
could be measured. So the API server itself serves that group here, from a definition of its own;
what it says of a pod is what a metrics-server would: k8s.io/metrics, `PodMetrics` of v1beta1.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from devcluster.client import APPLY, Manifest, at
from devcluster.cluster import Cluster
from spotrun.kube.tasks import running
from tests.support.cluster.operator_world import World

GROUP = "metrics.k8s.io/v1beta1"
_EVERY_SECONDS = 0.2
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_DEFINITION: Manifest = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "pods.metrics.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, played in a test"},
    },
    "spec": {
        "group": "metrics.k8s.io",
        "scope": "Namespaced",
        "names": {"plural": "pods", "singular": "podmetrics", "kind": "PodMetrics"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": _ANYTHING},
            }
        ],
    },
}

Used = Callable[[int], str]
"""The CPU that each worker uses in a world of so many, as a quantity."""


def serve_metrics(cluster: Cluster) -> None:
    """Make the API server serve the group, and return when it does."""
    cluster.kubectl("apply", "-f", "-", input=json.dumps(_DEFINITION))
    established = ("--for=condition=Established", "--timeout=60s")
    cluster.kubectl("wait", *established, "crd/pods.metrics.k8s.io")


@asynccontextmanager
async def measured(world: World, used: Used) -> AsyncIterator[None]:
    """Measure the workers again and again, each time at a later moment, while the block lasts."""
    async with running(_measure(world, used)):
        yield


async def _measure(world: World, used: Used) -> None:
    while True:
        pods = [pod for pod in await world.pods() if pod["status"].get("phase") == "Running"]
        for pod in pods:
            await _tell(world, pod, used(len(pods)))
        await asyncio.sleep(_EVERY_SECONDS)


async def _tell(world: World, pod: Manifest, cpu: str) -> None:
    meta = pod["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
    body = {
        "apiVersion": GROUP,
        "kind": "PodMetrics",
        "metadata": {"name": meta["name"], "labels": meta["labels"], "ownerReferences": [owner]},
        "timestamp": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
        "window": "1s",
        "containers": [{"name": "trainer", "usage": {"cpu": cpu, "memory": "1048576Ki"}}],
    }
    path = at("pods", world.namespace, meta["name"], group=GROUP)
    await world.kube.patch(path, body, content_type=APPLY, fieldManager="test", force="true")
