import secrets
from collections.abc import Iterator

import pytest
import torch

from tests.faults.store_proxy import StoreProxy, disturbing
from tests.support.storage.servers import StoreServer

torch.set_num_threads(1)  # two cores are shared with other tests


@pytest.fixture
def address(store_server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """A place in a bucket with nothing in it; the environment says where the server is."""
    store_server.make_bucket(bucket := f"b{secrets.token_hex(8)}")
    for name, value in store_server.environment().items():
        monkeypatch.setenv(name, value)
    return f"{store_server.address(bucket)}/team/job"


@pytest.fixture
def proxy(
    store_server: StoreServer, address: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[StoreProxy]:
    """A proxy before the server, by which this process reaches it."""
    with disturbing(store_server.url) as proxy:
        for name, value in store_server.environment(proxy.url).items():
            monkeypatch.setenv(name, value)
        yield proxy
