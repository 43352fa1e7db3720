import uuid
from collections.abc import AsyncIterator

import pytest

from devcluster.cluster import Cluster
from spotrun.kube.access import Access, Credentials, from_kubeconfig
from spotrun.kube.client import Client
from spotrun.kube.transport import Transport
from tests.faults.proxy import FaultProxy
from tests.integration.kube.helpers import NAMESPACES, ConfigMap, Space


@pytest.fixture
async def direct(cluster: Cluster) -> AsyncIterator[Client]:
    """A client of the API server itself."""
    async with Transport(Credentials(from_kubeconfig(cluster.kubeconfig))) as transport:
        yield Client(transport, field_manager="test")


@pytest.fixture
async def proxy(cluster: Cluster) -> AsyncIterator[FaultProxy]:
    admin = cluster.admin
    async with FaultProxy(admin.server, admin.ssl_context()) as proxy:
        yield proxy


@pytest.fixture
async def client(proxy: FaultProxy) -> AsyncIterator[Client]:
    """A client behind the fault proxy."""

    async def load() -> Access:
        return Access(proxy.url)

    async with Transport(Credentials(load)) as transport:
        yield Client(transport, field_manager="behind-proxy")


@pytest.fixture
async def space(direct: Client) -> Space:
    name = f"kube-{uuid.uuid4().hex[:8]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await direct.create(NAMESPACES, body, ConfigMap)
    return Space(direct, name)
