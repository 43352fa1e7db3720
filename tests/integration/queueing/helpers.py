"""Queues of Kueue, jobs in them, and what Kueue says of these."""

from typing import Any

from devcluster.client import Manifest, at
from tests.support.cluster.operator_world import GROUP, World

KUEUE = "kueue.x-k8s.io/v1beta2"
CPU = {"cpu": "8", "memory": "8Gi"}
SPOT = {"node-kind": "blue"}


async def make_queue(world: World, cpus: int, **spec_of_queue: Any) -> None:
    """Make a queue of so many CPUs on blue nodes; `spec_of_queue` is more of its ClusterQueue."""
    name = world.namespace
    quota = {"name": "cpu", "nominalQuota": cpus}
    flavors = [{"name": name, "resources": [quota]}]
    spec = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
        "preemption": {"withinClusterQueue": "LowerPriority"},
        **spec_of_queue,
    }
    await make(world, "ResourceFlavor", name, {"nodeLabels": SPOT})
    await make(world, "ClusterQueue", name, spec)
    await make(world, "LocalQueue", "team", {"clusterQueue": name}, world.namespace)


async def make(
    world: World, kind: str, name: str, spec: Any, namespace: str | None = None, **more: Any
) -> None:
    body = {"apiVersion": KUEUE, "kind": kind, "metadata": {"name": name}, **more}
    plural = f"{kind.lower()}es" if kind.endswith("s") else f"{kind.lower()}s"
    if spec is not None:
        body["spec"] = spec
    await world.kube.create(at(plural, namespace, group=KUEUE), body)


async def create_job(
    world: World, name: str, least: int, most: int, *, priority_class: str = "", **spec: Any
) -> None:
    requests = {"resources": {"requests": {"cpu": "1"}}}
    container = {"name": "trainer", "image": "x", "args": ["train.py"], **requests}
    labels = {"kueue.x-k8s.io/queue-name": "team"}
    if priority_class:
        labels["kueue.x-k8s.io/priority-class"] = priority_class
    sizes = {"min": least, "max": 8, "replicas": most}
    workers = {**sizes, "template": {"spec": {"containers": [container]}}}
    body = {
        "apiVersion": GROUP,
        "kind": "TrainingJob",
        "metadata": {"name": name, "labels": labels},
        "spec": {"workers": workers, "scaling": {"mode": "Manual"}, **spec},
    }
    await world.kube.create(world.jobs(), body)


async def workloads(world: World, job: str = "job") -> list[Manifest]:
    path = at("workloads", world.namespace, group=KUEUE)
    return await world.kube.list(path, labelSelector=f"spotrun.dev/job={job}")


def count(workload: Manifest) -> int:
    """Return the workers that a request was admitted with."""
    (assigned,) = workload["status"]["admission"]["podSetAssignments"]
    return int(assigned["count"])


def holds(workload: Manifest, kind: str) -> bool:
    conditions = workload.get("status", {}).get("conditions", ())
    return any(c["type"] == kind and c["status"] == "True" for c in conditions)


async def boost(world: World, job: str) -> int:
    """Return what is added to a job's priority."""
    (one,) = await workloads(world, job)
    return int(one["metadata"]["annotations"].get("kueue.x-k8s.io/priority-boost", "0"))
