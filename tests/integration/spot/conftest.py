from collections.abc import AsyncIterator, Iterator

import pytest

from devcluster.cluster import Cluster
from tests.operator_world import World, install_crds, open_world


@pytest.fixture
async def world(cluster: Cluster, crds: None) -> AsyncIterator[World]:
    async with open_world(cluster) as world:
        yield world


@pytest.fixture(scope="module")
def empty_cluster() -> Iterator[Cluster]:
    """Without the jobs and pods that other tests have left, for an operator that sees them all."""
    with Cluster() as cluster:
        install_crds(cluster)
        yield cluster


@pytest.fixture
async def alone(empty_cluster: Cluster) -> AsyncIterator[World]:
    """A world in a cluster where nothing else is."""
    async with open_world(empty_cluster) as world:
        yield world
