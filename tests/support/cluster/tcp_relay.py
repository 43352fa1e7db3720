"""A TCP relay: where it leads can change, and its link can go dead without a word to either end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Relay:
    """A way to a server; as what kube-proxy makes of a Service, or as a network that fails."""

    target: str  # host:port, for connections that are made from now on
    address: str = ""  # where to connect to
    _passes: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _is_cut: bool = False

    def hold(self) -> None:
        """Let nothing through from now on, in either direction; connections stay open."""
        self._passes.clear()

    def release(self) -> None:
        """Let through what was held, and all that follows."""
        self._passes.set()
        self._is_cut = False

    def cut(self) -> None:
        """Hang up on everybody, and from now on on who still comes."""
        self._is_cut = True
        for task in list(self._tasks):
            task.cancel()

    def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a connection."""
        task = asyncio.create_task(self._serve((reader, writer)))
        self._tasks.add(task)
        # Also where it is cancelled before its first step: agents come while a test ends.
        task.add_done_callback(lambda _: writer.transport.abort())
        task.add_done_callback(self._tasks.discard)
        if self._is_cut:
            task.cancel()

    async def end(self) -> None:
        """Hang up for good."""
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, near: Ends) -> None:
        host, _, port = self.target.rpartition(":")
        try:
            far = await asyncio.open_connection(host, int(port))
        except OSError:
            return
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._copy(near[0], far[1]))
                both.create_task(self._copy(far[0], near[1]))
        finally:
            far[1].transport.abort()

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(2**16):
                await self._passes.wait()
                sink.write(data)
                await sink.drain()
        except ConnectionError:
            return
        finally:
            sink.transport.abort()


@asynccontextmanager
async def relayed(
    target: str, *, listen: tuple[str, int] = ("127.0.0.1", 0)
) -> AsyncIterator[Relay]:
    """A relay that lets everything through until told otherwise."""
    relay = Relay(target)
    relay.release()
    server = await asyncio.start_server(relay.connect, *listen)
    relay.address = "{}:{}".format(*server.sockets[0].getsockname())
    try:
        yield relay
    finally:
        server.close()
        await relay.end()
