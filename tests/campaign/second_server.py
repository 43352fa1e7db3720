"""A second API server on the same etcd, which can hear of every change late."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from devcluster.addresses import free_port
from devcluster.cluster import Cluster
from devcluster.controlplane import ControlPlane
from spotrun.kube.tasks import first_of

_NAME = "kube-apiserver"
_CHUNK_BYTES = 2**16


@dataclass
class SecondServer:
    """Hears of changes so much later than etcd tells them."""

    url: str
    etcd: str  # host:port
    lag_seconds: float = 0.0

    async def pass_on(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        """Connect it to etcd, whose words are held for as long as it lags."""
        host, _, port = self.etcd.rpartition(":")
        far, onward = await asyncio.open_connection(host, int(port))
        late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        copies = (_copied(near, onward), self._heard(far, late), _said(late, back))
        try:
            await first_of(*copies)
        finally:
            onward.transport.abort()
            back.transport.abort()

    async def _heard(
        self, far: asyncio.StreamReader, late: "asyncio.Queue[tuple[float, bytes]]"
    ) -> None:
        loop = asyncio.get_running_loop()
        while data := await far.read(_CHUNK_BYTES):
            late.put_nowait((loop.time() + self.lag_seconds, data))


async def _copied(near: asyncio.StreamReader, onward: asyncio.StreamWriter) -> None:
    while data := await near.read(_CHUNK_BYTES):
        onward.write(data)
        await onward.drain()


async def _said(late: "asyncio.Queue[tuple[float, bytes]]", back: asyncio.StreamWriter) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due, data = await late.get()
        await asyncio.sleep(max(0.0, due - loop.time()))
        back.write(data)
        await back.drain()


@asynccontextmanager
async def second_server(cluster: Cluster) -> AsyncIterator[SecondServer]:
    """Run one while the block lasts; it is up to date until it is told to lag."""
    first = cluster.control.layout
    found = SecondServer("", f"{first.host}:{first.ports.etcd}")
    relay = await asyncio.start_server(found.pass_on, first.host, 0)
    port: int = relay.sockets[0].getsockname()[1]
    ports = replace(first.ports, etcd=port, api_server=free_port(first.host))
    logs = first.logs / "second"
    logs.mkdir(exist_ok=True)
    layout = replace(first, ports=ports, logs=logs)
    control = ControlPlane(layout, cluster.binaries, {}, cluster.control.environment)
    found.url = layout.server
    control.start(_NAME)
    try:
        await asyncio.to_thread(control.wait_ready)
        yield found
    finally:
        await asyncio.to_thread(control.kill, _NAME)
        relay.close()
