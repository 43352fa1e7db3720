from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from tests.integration.process.helpers import (
    Launcher,
    grant_rights,
    launching,
    token,
    write_kubeconfig,
)
from tests.support.cluster.operator_world import World


@pytest.fixture
def account(cluster: Cluster, crds: None, tmp_path: Path) -> Path:
    """A kubeconfig of the operator's account with rights over all namespaces."""
    grant_rights(cluster, "rbac.yaml")
    return write_kubeconfig(cluster, token(cluster), tmp_path / "kubeconfig")


@pytest.fixture
async def operator(world: World, account: Path, tmp_path: Path) -> AsyncIterator[Launcher]:
    async with launching(world, account, tmp_path) as launcher:
        yield launcher
