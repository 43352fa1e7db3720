import os
from collections.abc import Iterator

import pytest

from devcluster.cluster import Cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A real control plane; each pytest worker has its own."""
    with Cluster(os.environ.get("SPOTRUN_KUBERNETES", "current")) as cluster:
        yield cluster
