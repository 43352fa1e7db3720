import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from charts import prometheus as programs
from devcluster.cluster import Cluster
from tests.operator_world import World, open_world


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@pytest.fixture(scope="session")
def promtool() -> Path:
    return programs.promtool(_tell)


@pytest.fixture(scope="session")
def prometheus() -> Path:
    return programs.server(_tell)


@pytest.fixture
async def world(cluster: Cluster, crds: None) -> AsyncIterator[World]:
    async with open_world(cluster) as world:
        yield world
