from collections.abc import AsyncIterator

import pytest

from tests.meter.meter import Meter, metered
from tests.support.cluster.operator_world import World


@pytest.fixture
async def meter(world: World) -> AsyncIterator[Meter]:
    """Somebody who adds up on his own, from before the first pod."""
    async with metered(world.kube, world.namespace) as meter:
        yield meter
