from collections.abc import AsyncIterator

import pytest

from devcluster.cluster import Cluster
from tests.meter.meter import Meter, metered
from tests.operator_world import World, open_world


@pytest.fixture
async def world(cluster: Cluster, crds: None) -> AsyncIterator[World]:
    async with open_world(cluster) as world:
        yield world


@pytest.fixture
async def meter(world: World) -> AsyncIterator[Meter]:
    """Somebody who adds up on his own, from before the first pod."""
    async with metered(world.kube, world.namespace) as meter:
        yield meter
