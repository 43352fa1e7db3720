from collections.abc import AsyncIterator

import pytest

from devcluster.cluster import Cluster
from tests.integration.operator_act.conftest import hand, scripts, space
from tests.operator_world import World, open_world

__all__ = ["hand", "scripts", "space"]


@pytest.fixture
async def world(cluster: Cluster, crds: None) -> AsyncIterator[World]:
    async with open_world(cluster) as world:
        yield world
