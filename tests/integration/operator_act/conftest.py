import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

from devcluster.cluster import Cluster
from devcluster.nodes import Nodes
from devcluster.scripted import Scripted
from spotrun.kube.rest.client import Client
from tests.integration.operator_act.helpers import Hand, Scripts, Space


@pytest.fixture
async def space(direct: Client, crds: None) -> Space:
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
