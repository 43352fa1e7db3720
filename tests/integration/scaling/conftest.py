from collections.abc import AsyncIterator

import pytest

from devcluster.cluster import Cluster
from tests.operator_world import World, open_world


@pytest.fixture
async def world(cluster: Cluster, crds: None) -> AsyncIterator[World]:
    async with open_world(cluster) as world:
        yield world
