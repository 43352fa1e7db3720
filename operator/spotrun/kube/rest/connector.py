"""A pool of connections that leaves none behind once it is closed."""

import asyncio
import contextlib
import socket
import ssl
import weakref

import aiohttp
from typing_extensions import override

_GOODBYE_SECONDS = 1.0


class Connector(aiohttp.TCPConnector):
    """A connection pool that ends with all of its connections.

    aiohttp forgets a connection whose request was cancelled, while TLS still waits for the other
    side to close it: the connection would outlive the pool, and perhaps the event loop.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        super().__init__(
            # Unlimited: watches hold their connections for ever, and `act` limits the writes.
            limit=0,
            ssl=tls if tls is not None else True,
            socket_factory=self._socket,
        )

    @override
    async def close(self, *, abort_ssl: bool = True) -> None:
        await super().close(abort_ssl=abort_ssl)
        for opened in self._sockets:
            with contextlib.suppress(OSError):  # it has ended already
                opened.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYE_SECONDS):
                # No callback says when a transport has closed; it takes a few turns of the loop.
                while any(opened.fileno() >= 0 for opened in self._sockets):  # noqa: ASYNC110
                    await asyncio.sleep(0)

    def _socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, *_ = address
        opened = socket.socket(family, kind, protocol)
        self._sockets.add(opened)
        return opened
