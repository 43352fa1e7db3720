"""A pool of connections that are all gone once it is closed.

The operator has its own: a test cluster shares no code with what it tests.
"""

import asyncio
import contextlib
import socket
import ssl
import weakref

import aiohttp
from typing_extensions import override

_GOODBYE_SECONDS = 1.0


class Connector(aiohttp.TCPConnector):
    """A connector that closes all of its connections at its end.

    aiohttp forgets a connection whose request was cancelled, while TLS still waits for the other
    side: it would outlive the pool, and perhaps the event loop.
    """

    def __init__(self, tls: ssl.SSLContext, *, limit: int) -> None:
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        super().__init__(limit=limit, ssl=tls, socket_factory=self._socket)

    @override
    async def close(self, *, abort_ssl: bool = True) -> None:
        await super().close(abort_ssl=abort_ssl)
        for opened in self._sockets:
            with contextlib.suppress(OSError):  # it has already ended
                opened.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYE_SECONDS):
                # There is no signal when a transport has ended; it takes a turn or two of the loop.
                while any(opened.fileno() >= 0 for opened in self._sockets):  # noqa: ASYNC110
                    await asyncio.sleep(0)

    def _socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, *_ = address
        opened = socket.socket(family, kind, protocol)
        self._sockets.add(opened)
        return opened
