"""Jobs under the real Kueue: its controllers and webhooks beside the API server of the cluster."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from devcluster.client import Manifest, at
from devcluster.cluster import Cluster
from devcluster.kueue.server import kueue
from tests.support.cluster.operator_world import GROUP, World, open_world

KUEUE = "kueue.x-k8s.io/v1beta2"
CPU = {"cpu": "8", "memory": "8Gi"}
SPOT = {"node-kind": "blue"}


@pytest.fixture(scope="module")
def queued_cluster(
    empty_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    with kueue(empty_cluster, tmp_path_factory.mktemp("kueue")):
        yield empty_cluster


@pytest.fixture
async def queued(queued_cluster: Cluster) -> AsyncIterator[World]:
    """A namespace with a queue of four CPUs, on blue nodes."""
    async with open_world(queued_cluster) as world:
        await world.nodes.add("a", capacity=CPU, labels=SPOT)
        await world.nodes.add("b", capacity=CPU)
        await make_queue(world, cpus=4)
        yield world


async def make_queue(world: World, cpus: int) -> None:
    name = world.namespace
    quota = {"name": "cpu", "nominalQuota": cpus}
    flavors = [{"name": name, "resources": [quota]}]
    spec = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
        "preemption": {"withinClusterQueue": "LowerPriority"},
    }
    await _make(world, "ResourceFlavor", name, {"nodeLabels": SPOT})
    await _make(world, "ClusterQueue", name, spec)
    await _make(world, "LocalQueue", "team", {"clusterQueue": name}, world.namespace)


async def _make(
    world: World, kind: str, name: str, spec: Any, namespace: str | None = None
) -> None:
    metadata = {"name": name}
    body = {"apiVersion": KUEUE, "kind": kind, "metadata": metadata, "spec": spec}
    await world.kube.create(at(f"{kind.lower()}s", namespace, group=KUEUE), body)


async def create_job(world: World, name: str, least: int, most: int, **spec: Any) -> None:
    requests = {"resources": {"requests": {"cpu": "1"}}}
    container = {"name": "trainer", "image": "x", "args": ["train.py"], **requests}
    labels = {"kueue.x-k8s.io/queue-name": "team"}
    sizes = {"min": least, "max": 8, "replicas": most}
    workers = {**sizes, "template": {"spec": {"containers": [container]}}}
    body = {
        "apiVersion": GROUP,
        "kind": "TrainingJob",
        "metadata": {"name": name, "labels": labels},
        "spec": {"workers": workers, **spec},
    }
    await world.kube.create(world.jobs(), body)


async def workloads(world: World, job: str = "job") -> list[Manifest]:
    path = at("workloads", world.namespace, group=KUEUE)
    return await world.kube.list(path, labelSelector=f"spotrun.dev/job={job}")


def holds(workload: Manifest, kind: str) -> bool:
    conditions = workload.get("status", {}).get("conditions", ())
    return any(c["type"] == kind and c["status"] == "True" for c in conditions)


async def test_a_job_has_no_pods_until_its_queue_admits_it_and_then_as_many_as_were_admitted(
    queued: World,
) -> None:
    async with queued.operator(kueue=True):
        await create_job(queued, "job", 2, 3)
        await queued.until_job(lambda s: s.get("workers", {}).get("running") == 3)
        pods = await queued.pods()
        assert {pod["spec"]["nodeSelector"]["node-kind"] for pod in pods} == {"blue"}

        await create_job(queued, "second", 2, 2)
        waits = await queued.until_job(
            lambda s: "Queue: it waits" in s.get("message", ""), "second"
        )
        assert (waits["status"]["phase"], waits["status"]["reason"]) == ("Suspended", "Queued")
        assert await queued.pods("second") == []

        queued.play("job").may_finish.set()
        await queued.until_phase("Succeeded")
        await queued.until_phase("Running", "second")
        (first,) = await workloads(queued)
        assert holds(first, "Finished")
