import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from charts import prometheus
from devcluster.cluster import Cluster
from tests.operator_world import World, open_world


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@pytest.fixture(scope="session")
def promtool() -> Path:
    return prometheus.ensure("promtool", say)


@pytest.fixture(scope="session")
def program() -> Path:
    """Prometheus itself."""
    return prometheus.ensure("prometheus", say)


@pytest.fixture
async def world(cluster: Cluster, crds: None) -> AsyncIterator[World]:
    async with open_world(cluster) as world:
        yield world
