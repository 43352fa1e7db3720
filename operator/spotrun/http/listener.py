"""The listener: it refuses unauthenticated floods before any TLS or other work for them."""

import asyncio
import contextlib
import logging
import resource
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Self

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from typing_extensions import override

from spotrun.http.connection_limits import Connections, Limits, OpenConnection
from spotrun.http.errors import SERVER
from spotrun.kube.tasks import running

log = logging.getLogger(__name__)

_http_log = logging.getLogger("spotrun.http")


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether a log record is not aiohttp's traceback of a bad request: those could fill disks."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError)


_http_log.addFilter(_is_ours)

BACKLOG = 4_096  # all agents of a leader that is gone come within seconds
_OTHER_FILES = 2_000  # what the plain ports may hold, and as many again
PAUSE_SECONDS = 0.1
"""The pause after an accept that failed, mostly for want of file descriptors: others must be closed
first."""


class _Connection(web.RequestHandler):
    """One of aiohttp's, which answers by itself what is no request, and then says who it is."""

    @override
    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        response = super().handle_error(request, status, exc, message)
        response.headers.update(SERVER)
        return response


class _Http(web.Server):
    """aiohttp's server, which reports the end of each connection to us."""

    def __init__(
        self, handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], limits: Limits
    ) -> None:
        # A poll whose agent hung up is to be forgotten.
        super().__init__(handler, handler_cancellation=True)
        self._limits = limits
        self.on_lost: Callable[[web.RequestHandler], None] = lambda _: None

    @override
    def __call__(self) -> web.RequestHandler:
        return _Connection(
            self,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=self._limits.idle_seconds,
            lingering_time=0,  # who sends more than we want to read is hung up on
            access_log=None,  # type: ignore[arg-type]  # it tells None from a logger
            logger=_http_log,
            auto_decompress=False,
            max_line_size=4_096,
            max_headers=32,
            read_bufsize=2**14,
        )

    @override
    def connection_lost(
        self, handler: web.RequestHandler, exc: BaseException | None = None
    ) -> None:
        super().connection_lost(handler, exc)
        self.on_lost(handler)


class Listener:
    """Accepts connections on one port while its `async with` block lasts."""

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        tls: ssl.SSLContext | None,
        *,
        host: str,
        port: int,
        limits: Limits,
    ) -> None:
        self.connections = Connections(
            replace(limits, connections=min(limits.connections, _spare_files()))
        )
        self._handler = handler
        self._tls = tls
        self._limits = limits
        self._host = host
        self._port = port
        self._greeting: set[asyncio.Task[None]] = set()
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._http = _Http(self._handler, self._limits)
        self._http.on_lost = self.connections.remove
        self._socket = _listen(self._host, self._port)
        self.port: int = self._socket.getsockname()[1]
        await self._stack.enter_async_context(running(self._accept()))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
        for task in self._greeting:
            task.cancel()
        await asyncio.gather(*self._greeting, return_exceptions=True)
        self._socket.close()
        self.connections.close_all()
        await self._http.shutdown(timeout=1.0)

    async def _accept(self) -> None:
        while True:
            await _readable(self._socket)
            try:
                connection, peer = self._socket.accept()
            except BlockingIOError:
                continue  # who knocked has gone again
            except OSError as error:
                log.warning("no connection can be accepted: %s", error)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            connection.setblocking(False)
            address = str(peer[0])
            if not self.connections.may_connect(address):
                connection.close()
                continue
            protocol = self._http()
            opened = self.connections.add(address, protocol)
            opened.greeting = task = asyncio.create_task(self._greet(connection, opened))
            self._greeting.add(task)
            task.add_done_callback(partial(self._greeted, connection, opened))

    def _greeted(
        self, connection: socket.socket, opened: OpenConnection, task: asyncio.Task[None]
    ) -> None:
        self._greeting.discard(task)
        opened.greeting = None
        if task.cancelled():  # perhaps before it began, and so could close what it was given
            connection.close()

    async def _greet(self, connection: socket.socket, opened: OpenConnection) -> None:
        loop = asyncio.get_running_loop()
        protocol = opened.protocol
        opened.timer = loop.call_later(2 * self._limits.authentication_seconds, opened.close)
        try:
            await loop.connect_accepted_socket(
                lambda: protocol,
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=self._limits.authentication_seconds if self._tls else None,
                ssl_shutdown_timeout=1.0 if self._tls else None,
            )
        except (OSError, ssl.SSLError, TimeoutError) as error:
            log.debug("no connection with %s: %s", opened.address, error)
            self.connections.remove(protocol)
            connection.close()
        except asyncio.CancelledError:
            self.connections.remove(protocol)
            opened.close()  # perhaps TLS was just done: it would take its leave first
            with contextlib.suppress(OSError):
                connection.close()
            raise


def _spare_files() -> int:
    """Return how many connections this process may hold and still talk to the API server."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:  # soft limits are low for programs that use select(), which we do not
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return sys.maxsize if hard == resource.RLIM_INFINITY else max(hard - _OTHER_FILES, hard // 2)


async def _readable(listening: socket.socket) -> None:
    """Wait for a connection; a cancelled `sock_accept` may lose one that it has just accepted."""
    loop = asyncio.get_running_loop()
    knocked = asyncio.Event()
    loop.add_reader(listening, knocked.set)
    try:
        await knocked.wait()
    finally:
        loop.remove_reader(listening)


def _listen(host: str, port: int) -> socket.socket:
    """Open the sockets; the empty host means every address, IPv4 and IPv6."""
    if not host and socket.has_dualstack_ipv6():
        listening = socket.create_server(
            ("", port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True
        )
    else:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
    listening.setblocking(False)
    return listening
