import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

from devcluster.cluster import Cluster
from devcluster.nodes import Nodes
from devcluster.scripted import Scripted
from spotrun.kube.access import Access, Credentials, from_kubeconfig
from spotrun.kube.client import Client
from spotrun.kube.transport import Transport
from tests.faults.proxy import FaultProxy
from tests.integration.operator_act.helpers import ROOT, Hand, Scripts, Space


@pytest.fixture(scope="session")
def crds(cluster: Cluster) -> None:
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(ROOT / "crds"))
    cluster.kubectl(
        "wait", "--for=condition=Established", "crd/trainingjobs.spotrun.dev", "--timeout=30s"
    )


@pytest.fixture
async def direct(cluster: Cluster, crds: None) -> AsyncIterator[Client]:
    """A client of the API server itself: the user's."""
    async with Transport(Credentials(from_kubeconfig(cluster.kubeconfig))) as transport:
        yield Client(transport, field_manager="test")


@pytest.fixture
async def proxy(cluster: Cluster) -> AsyncIterator[FaultProxy]:
    admin = cluster.admin
    async with FaultProxy(admin.server, admin.ssl_context()) as proxy:
        yield proxy


@pytest.fixture
async def client(proxy: FaultProxy) -> AsyncIterator[Client]:
    """The operator's client, behind the fault proxy."""

    async def load() -> Access:
        return Access(proxy.url)

    async with Transport(Credentials(load)) as transport:
        yield Client(transport, field_manager="spotrun")


@pytest.fixture
async def space(direct: Client) -> Space:
    return await Space.make(direct, f"act-{uuid.uuid4().hex[:8]}")


@pytest.fixture
def hand(space: Space, client: Client) -> Hand:
    """Turns the loop by hand: read, decide, carry out."""
    return Hand(space, client)


@pytest.fixture
async def scripts(cluster: Cluster) -> AsyncIterator[Scripts]:
    """Two nodes whose containers behave as the test says."""
    scripts = Scripts()
    name = uuid.uuid4().hex[:8]
    async with Nodes(cluster.admin, runtime=Scripted(scripts), address=cluster.block.host) as nodes:
        await asyncio.gather(*(nodes.add(f"{name}-{letter}") for letter in "ab"))
        scripts.nodes = nodes
        yield scripts
