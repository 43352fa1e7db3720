import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack

import pytest

from charts import helm as helm_program
from devcluster.cluster import Cluster
from devcluster.s3.server import Server, serving
from spotrun.kube.rest.access import Access, Credentials, from_kubeconfig
from spotrun.kube.rest.client import Client
from spotrun.kube.rest.transport import Transport
from tests.faults.proxy import FaultProxy
from tests.integration.chart.helpers import Helm
from tests.integration.leftovers import swept
from tests.support.cluster.audit_log import AuditLog
from tests.support.cluster.operator_world import World, install_crds, open_world
from tests.support.storage.servers import SCHEMES, StoreServer
from tests.support.storage.servers import serving as serving_store

# The API servers and etcd of tests have small heaps. With Go's default, to collect them takes a
# tenth of the CPU of these tests.
os.environ.setdefault("GOGC", "400")
KUBERNETES = os.environ.get("SPOTRUN_KUBERNETES", "current")
OPERATOR = "system:serviceaccount:spotrun-system:spotrun"


@pytest.fixture(scope="session")
def audit(tmp_path_factory: pytest.TempPathFactory) -> AuditLog:
    """The log of the cluster's API server on what the operator's own account has asked for."""
    return AuditLog(tmp_path_factory.mktemp("audit"), OPERATOR)


@pytest.fixture(scope="session")
def cluster(audit: AuditLog) -> Iterator[Cluster]:
    """A real control plane; each pytest worker has its own."""
    with Cluster(KUBERNETES, extra_flags={"kube-apiserver": audit.flags}) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def crds(cluster: Cluster) -> None:
    """The CRDs, applied, served, and known to the garbage collector."""
    install_crds(cluster)


@pytest.fixture(scope="module")
def own_audit(tmp_path_factory: pytest.TempPathFactory) -> AuditLog:
    """The same log of the API server of the empty cluster."""
    return AuditLog(tmp_path_factory.mktemp("audit"), OPERATOR)


@pytest.fixture(scope="module")
def extra_flags(own_audit: AuditLog) -> dict[str, list[str]]:
    """The flags of the components of the empty cluster, which a module may override."""
    return {"kube-apiserver": own_audit.flags}


@pytest.fixture(scope="module")
def empty_cluster(extra_flags: dict[str, list[str]]) -> Iterator[Cluster]:
    """A cluster for one module, whose operator sees all namespaces or whose timing is delicate.

    The shared one is swept, but fixtures keep things in it, and its controllers are still busy with
    the namespaces of former tests.
    """
    with Cluster(KUBERNETES, extra_flags=extra_flags) as cluster:
        install_crds(cluster)
        yield cluster


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real S3 server; each pytest worker has its own."""
    with serving(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session", params=SCHEMES)
def store_server(
    request: pytest.FixtureRequest, s3: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StoreServer]:
    """A server of each kind of store."""
    with serving_store(request.param, s3, tmp_path_factory.mktemp(request.param)) as server:
        yield server


@pytest.fixture(scope="session")
def helm(request: pytest.FixtureRequest) -> Helm:
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def tell(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(line, file=sys.stderr, flush=True)

    return Helm(helm_program.ensure(tell))


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test sees what another has made in the cluster that they share."""
    with ExitStack() as stack:
        for name in {"cluster", "empty_cluster"} & set(request.fixturenames):
            stack.enter_context(swept(request.getfixturevalue(name)))
        yield


@pytest.fixture
async def world(cluster: Cluster, crds: None) -> AsyncIterator[World]:
    """A namespace of the shared cluster, for an operator that serves it alone."""
    async with open_world(cluster) as world:
        yield world


@pytest.fixture
async def alone(empty_cluster: Cluster) -> AsyncIterator[World]:
    """A world in a cluster where nothing else is."""
    async with open_world(empty_cluster) as world:
        yield world


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
