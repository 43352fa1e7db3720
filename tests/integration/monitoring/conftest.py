import sys
from pathlib import Path

import pytest

from charts import prometheus as programs
from tests.support.cluster.operator_world import World


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@pytest.fixture(scope="session")
def promtool() -> Path:
    return programs.promtool(_tell)


@pytest.fixture(scope="session")
def prometheus() -> Path:
    return programs.server(_tell)


@pytest.fixture
def world(alone: World) -> World:
    """A cluster of its own: what Prometheus reads is of this test, and comes in time."""
    return alone
