"""The listener: it refuses floods of unauthenticated connections before any work for TLS."""

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
    """Whether to keep a log record: aiohttp's tracebacks of bad requests could fill disks."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError)


_http_log.addFilter(_is_ours)

BACKLOG = 4_096  # all agents of a dead leader connect within seconds
_OTHER_FILES = 2_000  # for the connections of the plain ports, and as many for others
PAUSE_SECONDS = 0.1
"""The pause after an accept that failed, mostly because file descriptors ran out: others must be
closed first."""


class _Connection(web.RequestHandler):
    """One of aiohttp's, with our Server header also in its own answers to invalid requests."""

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
        # A poll ends when its agent has closed the connection.
        super().__init__(handler, handler_cancellation=True)
        self._limits = limits
        self.on_lost: Callable[[web.RequestHandler], None] = lambda _: None

    @override
    def __call__(self) -> web.RequestHandler:
        return _Connection(
            self,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=self._limits.idle_seconds,
            lingering_time=0,  # close the connection of a client that sends too much
            access_log=None,  # type: ignore[arg-type]  # None is allowed, against its type
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
                continue  # the client has disconnected again
            except OSError as error:
                log.warning("the operator cannot accept a connection: %s", error)
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
        if task.cancelled():  # perhaps before it began, so that it could not close the socket
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
            opened.close()  # if TLS is ready, a plain close would wait for the other side
            with contextlib.suppress(OSError):
                connection.close()
            raise


def _spare_files() -> int:
    """Return how many connections may be open so that files remain for the API server."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:  # soft limits are low for programs with select(), which we do not use
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
