import os
import secrets
from collections.abc import Iterator

import pytest
import torch

from devcluster.s3.server import Server
from tests.faults.store_proxy import StoreProxy, disturbing
from tests.support.storage.servers import StoreServer, serving

torch.set_num_threads(1)  # two cores are shared with other tests

SCHEMES = os.environ.get("SPOTRUN_STORES", "s3,gs").split(",")
"""The stores that are tested; `az` needs Azurite from npm, see `make test-azure`."""


@pytest.fixture(scope="session", params=SCHEMES)
def server(
    request: pytest.FixtureRequest, s3: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StoreServer]:
    """A server of each kind of store."""
    with serving(request.param, s3, tmp_path_factory.mktemp(request.param)) as server:
        yield server


@pytest.fixture
def address(server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """A place in a bucket with nothing in it; the environment says where the server is."""
    server.make_bucket(bucket := f"b{secrets.token_hex(8)}")
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    return f"{server.address(bucket)}/team/job"


@pytest.fixture
def proxy(
    server: StoreServer, address: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[StoreProxy]:
    """A proxy before the server, by which this process reaches it."""
    with disturbing(server.url) as proxy:
        for name, value in server.environment(proxy.url).items():
            monkeypatch.setenv(name, value)
        yield proxy
