"""The API server of whatever cluster kubectl reaches."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import aiohttp
from typing_extensions import override

from devcluster.access import Access
from devcluster.client import Client
from tests.e2e.cluster import Cluster
from tests.e2e.kind.machine import SetupError

_NO_TLS = Access("http://localhost", Path(), Path(), Path())
_START_SECONDS = 30


class _SocketClient(Client):
    """A client of what listens on a socket of this machine."""

    def __init__(self, socket: Path) -> None:
        super().__init__(_NO_TLS)
        self._socket = socket

    @override
    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            base_url=_NO_TLS.server,
            connector=aiohttp.UnixConnector(str(self._socket)),
            timeout=aiohttp.ClientTimeout(total=60),
        )
        return self


@asynccontextmanager
async def open_client(cluster: Cluster) -> AsyncIterator[Client]:
    """A client that logs in as kubectl does, for kubectl knows every way of kubeconfigs to do that.

    On a socket that nobody else reaches: who speaks to `kubectl proxy` has our rights.
    """
    with TemporaryDirectory() as folder:
        socket = Path(folder) / "api"
        command = (*cluster.kubectl_command, "proxy", f"--unix-socket={socket}")
        pipe = asyncio.subprocess.PIPE
        proxy = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
        try:
            await _until_it_serves(proxy)
            async with _SocketClient(socket) as client:
                yield client
        finally:
            if proxy.returncode is None:
                proxy.terminate()
            await proxy.communicate()


async def _until_it_serves(proxy: asyncio.subprocess.Process) -> None:
    assert proxy.stdout is not None
    async with asyncio.timeout(_START_SECONDS):
        line = await proxy.stdout.readline()
    if not line.startswith(b"Starting to serve"):
        _, said = await proxy.communicate()
        raise SetupError(f"kubectl proxy has ended: {said.decode().strip()}")
