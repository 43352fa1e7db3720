import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from spotrun.kube.access import Access, Credentials, from_kubeconfig
from spotrun.kube.client import Client
from spotrun.kube.transport import Transport
from tests.faults.proxy import FaultProxy

CRDS = Path(__file__).parents[2] / "crds"
_ESTABLISHED = '{.status.conditions[?(@.type=="Established")].status}'


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A real control plane; each pytest worker has its own."""
    with Cluster(os.environ.get("SPOTRUN_KUBERNETES", "current")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def crds(cluster: Cluster) -> None:
    """The CRDs, applied, served, and known to the garbage collector."""
    cluster.kubectl("apply", "--server-side", "-f", str(CRDS))
    for name in ("trainingjobs.spotrun.dev", "capacitypools.spotrun.dev"):
        # Not `kubectl wait`: it fails on a CRD that has no conditions yet.
        _wait_until(cluster, "True", "get", "crd", name, "-o", f"jsonpath={_ESTABLISHED}")
        # Discovery and the schema that kubectl reads follow a little later.
        _wait_until(cluster, "FIELDS", "explain", name)
    # It looks for new kinds of owners at its start, and then only every 30 s.
    cluster.control.kill("kube-controller-manager")
    cluster.control.start("kube-controller-manager")


@pytest.fixture
async def direct(cluster: Cluster) -> AsyncIterator[Client]:
    """A client of the API server itself: the user's."""
    async with Transport(Credentials(from_kubeconfig(cluster.kubeconfig))) as transport:
        yield Client(transport, field_manager="test")


@pytest.fixture
async def proxy(cluster: Cluster) -> AsyncIterator[FaultProxy]:
    """A way to the API server on which faults can be injected."""
    admin = cluster.admin
    async with FaultProxy(admin.server, admin.ssl_context()) as proxy:
        yield proxy


@pytest.fixture
async def client(proxy: FaultProxy) -> AsyncIterator[Client]:
    """The operator's client, behind the fault proxy."""

    async def load() -> Access:
        return Access(proxy.url)

    async with Transport(Credentials(load)) as transport:
        yield Client(transport, field_manager="spotrun")


def _wait_until(cluster: Cluster, said: str, *arguments: str) -> None:
    end = time.monotonic() + 60
    while said not in cluster.kubectl(*arguments, check=False).stdout:
        assert time.monotonic() < end, f"kubectl {' '.join(arguments)} never said {said}"
        time.sleep(0.1)
