"""Clusters with the real Kueue, and namespaces with a queue."""

import base64
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from devcluster.client import Client, at
from devcluster.cluster import Cluster
from devcluster.kueue.server import NAMESPACE, kueue
from spotrun.api.names import MULTIKUEUE
from tests.integration.conftest import KUBERNETES
from tests.integration.money.helpers import PRICE
from tests.integration.queueing.helpers import CPU, SPOT, make, make_queue
from tests.support.cluster.operator_world import ROOT, World, open_world
from tests.support.cluster.tcp_relay import Relay, relayed

FRAMEWORK = {"multiKueue": {"externalFrameworks": [{"name": "TrainingJob.v1alpha1.spotrun.dev"}]}}


@pytest.fixture(scope="module")
def queued_cluster(
    empty_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    # The gate changes nothing unless the operator says a boost.
    with kueue(empty_cluster, tmp_path_factory.mktemp("kueue"), {"PriorityBoost": True}):
        yield empty_cluster


@pytest.fixture
async def queued(queued_cluster: Cluster) -> AsyncIterator[World]:
    """A namespace with a queue of four CPUs, on blue nodes."""
    async with open_world(queued_cluster) as world:
        await world.nodes.add("a", capacity=CPU, labels=SPOT, annotations={PRICE: "36"})
        await world.nodes.add("b", capacity=CPU)
        await make_queue(world, cpus=4)
        yield world


@pytest.fixture(scope="module")
def manager_cluster(
    queued_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """A cluster without nodes, whose Kueue gives jobs to the other one."""
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(KUBERNETES))
        cluster.control.kill("kube-scheduler")
        cluster.kubectl("apply", "--server-side", "-f", str(ROOT / "crds"))
        folder = tmp_path_factory.mktemp("manager")
        stack.enter_context(kueue(cluster, folder, settings=FRAMEWORK))
        yield cluster


@pytest.fixture
async def link(queued_cluster: Cluster) -> AsyncIterator[Relay]:
    """The way from the manager's Kueue to the other cluster's API server."""
    server = urlsplit(queued_cluster.admin.server)
    async with relayed(server.netloc) as relay:
        yield relay


@pytest.fixture
async def manager(manager_cluster: Cluster, queued: World, link: Relay) -> AsyncIterator[World]:
    """The namespace of that name in the other cluster, with a queue that leads here."""
    name, host = queued.namespace, manager_cluster.block.pod_address()
    async with Client(manager_cluster.admin) as kube:
        await kube.create(at("namespaces"), {"metadata": {"name": name}})
        world = World(manager_cluster, kube, queued.nodes, name, host)
        access = embedded(queued.cluster.kubeconfig, link.address)
        secret = {"metadata": {"name": name}, "stringData": {"kubeconfig": access}}
        await kube.create(at("secrets", NAMESPACE), secret)
        source = {"kubeConfig": {"location": name, "locationType": "Secret"}}
        await make(world, "MultiKueueCluster", name, {"clusterSource": source})
        await make(world, "MultiKueueConfig", name, {"clusters": [name]})
        group = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": name}
        check = {"controllerName": str(MULTIKUEUE), "parameters": group}
        await make(world, "AdmissionCheck", name, check)
        checks = {"admissionChecks": [{"name": name}]}
        await make_queue(world, cpus=8, admissionChecksStrategy=checks)
        yield world


def embedded(kubeconfig: Path, address: str) -> str:
    """Return a kubeconfig of this address, with its certificates in it: Kueue takes no paths."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    cluster["tls-server-name"] = urlsplit(cluster["server"]).hostname
    cluster["server"] = f"https://{address}"
    for part in (config["clusters"][0]["cluster"], config["users"][0]["user"]):
        for name in ("certificate-authority", "client-certificate", "client-key"):
            if name in part:
                content = Path(part.pop(name)).read_bytes()
                part[f"{name}-data"] = base64.b64encode(content).decode()
    return yaml.safe_dump(config)
