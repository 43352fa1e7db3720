"""Servers of object stores for tests, by the scheme of their addresses."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from devcluster.azurite import server as azurite
from devcluster.s3.server import Server
from tests.support.storage.gcs_front import fronting

SCHEMES = os.environ.get("SPOTRUN_STORES", "s3,gs").split(",")
"""The stores that are tested; `az` needs Azurite from npm, see `make test-azure`."""


class StoreServer(Protocol):
    """A server that answers at an address of loopback."""

    @property
    def url(self) -> str: ...
    def make_bucket(self, name: str) -> None: ...
    def address(self, bucket: str) -> str: ...
    def environment(self, url: str = "") -> dict[str, str]:
        """Return the variables by which clients find it, or a proxy before it."""


@contextmanager
def serving(scheme: str, s3: Server, folder: Path) -> Iterator[StoreServer]:
    """Serve a kind of store: `s3`, `gs` before the S3 server, or `az`."""
    if scheme == "s3":
        yield s3
    elif scheme == "gs":
        with fronting(s3) as google:
            yield google
    else:
        assert scheme == "az", f"{scheme}: s3, gs or az"
        with azurite.serving(folder) as azure:
            yield azure
