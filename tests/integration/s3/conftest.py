import secrets
from collections.abc import Iterator

import pytest
import torch

from devcluster.s3.server import Server
from tests.faults.store_proxy import StoreProxy, disturbing

torch.set_num_threads(1)  # two cores are shared with other tests


@pytest.fixture
def bucket(s3: Server) -> str:
    """A bucket with nothing in it."""
    name = f"b{secrets.token_hex(8)}"
    s3.make_bucket(name)
    return name


@pytest.fixture
def address(s3: Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A place in the bucket; the environment says where the server is."""
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    return f"s3://{bucket}/team/job"


@pytest.fixture
def proxy(s3: Server, address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[StoreProxy]:
    """A proxy before the server, by which this process reaches it."""
    with disturbing(s3.url) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield proxy
