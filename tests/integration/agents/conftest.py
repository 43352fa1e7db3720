import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from devcluster.cluster import Cluster
from spotrun.kube.rest.access import Credentials, from_kubeconfig
from spotrun.kube.rest.client import Client
from spotrun.kube.rest.transport import Transport
from tests.integration.agents.helpers import NAMESPACES, Any_, Pods


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that the operator runs on: its TLS is another one than asyncio's."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    async with Transport(Credentials(from_kubeconfig(cluster.kubeconfig))) as transport:
        yield Client(transport, field_manager="test")


@pytest.fixture
async def namespace(client: Client) -> str:
    name = f"serve-{uuid.uuid4().hex[:8]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await client.create(NAMESPACES, body, Any_)
    return name


@pytest.fixture
async def pods(client: Client, namespace: str) -> Pods:
    pods = Pods(client, namespace)
    await pods.make_account()
    return pods
