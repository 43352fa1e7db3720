from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from tests.integration.trainer.helpers import Place, open_place


@pytest.fixture
async def place(cluster: Cluster, crds: None, tmp_path: Path) -> AsyncIterator[Place]:
    async with open_place(cluster, tmp_path) as place:
        await place.add_nodes("a", "b")  # each for one worker
        yield place
        await place.show_logs()  # pytest prints it where a test has failed
