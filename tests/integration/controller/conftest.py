from collections.abc import AsyncIterator

import pytest

from devcluster.cluster import Cluster
from tests.operator_world import World, install_crds, open_world


@pytest.fixture(scope="session")
def crds(cluster: Cluster) -> None:
    install_crds(cluster)


@pytest.fixture
async def world(cluster: Cluster, crds: None) -> AsyncIterator[World]:
    async with open_world(cluster) as world:
        yield world
