"""`kubectl tjob ui`: a server on loopback, opened in a browser, until Ctrl-C."""

import asyncio
import signal
import socket
import webbrowser
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from spotrun.cli.cluster.exit_codes import DONE
from spotrun.cli.cluster.session import Cluster, ask
from spotrun.cli.cluster.troubles import Refused
from spotrun.cli.page.door import Door
from spotrun.cli.page.following import following
from spotrun.cli.page.gate import Gate
from spotrun.cli.page.server import Page

_GRACE_SECONDS = 0.5
"""Streams never end by themselves."""
_MOST_VISITORS = 256


def run(chosen: Namespace) -> int:
    """Serve the page until Ctrl-C."""

    async def work(cluster: Cluster) -> int:
        async with following(cluster, is_one_namespace=chosen.namespace is not None) as fleet:
            listener = _listener(chosen.port)
            door = Door(port=listener.getsockname()[1])
            async with Page(cluster, fleet, door).application() as app:
                await _serve(app, listener, door, is_opened=not chosen.no_open)
        return DONE

    return ask(chosen, work)


def serve(chosen: Namespace) -> int:
    """Serve the page to a cluster's users, behind its authentication, until SIGTERM."""

    async def work(cluster: Cluster) -> int:
        async with following(cluster, is_one_namespace=chosen.namespace is not None) as fleet:
            listener = _listener(chosen.port, "0.0.0.0")  # noqa: S104 - a pod's own address
            gate = Gate(tuple(chosen.host))
            page = Page(
                cluster, fleet, gate, most_streams=_MOST_VISITORS, shows_logs=chosen.with_logs
            )
            async with page.application() as app, _served(app, listener):
                print(
                    f"serves {', '.join(gate.hosts)} behind {chosen.authenticated_by}", flush=True
                )
                await _until_interrupted()
        return DONE

    return ask(chosen, work)


async def _serve(
    app: web.Application, listener: socket.socket, door: Door, *, is_opened: bool
) -> None:
    async with _served(app, listener):
        print(f"{door.address}\n(works once, for one browser; Ctrl-C ends the page)", flush=True)
        if is_opened:
            await asyncio.to_thread(webbrowser.open, door.address)
        await _until_interrupted()


@asynccontextmanager
async def _served(app: web.Application, listener: socket.socket) -> AsyncIterator[None]:
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        handler_cancellation=True,
        shutdown_timeout=_GRACE_SECONDS,
    )
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        yield
    finally:
        await runner.cleanup()


async def _until_interrupted() -> None:
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(one, over.set)
    await over.wait()


def _listener(port: int, address: str = "127.0.0.1") -> socket.socket:
    """Listen on an address, by default only on loopback."""
    try:
        return socket.create_server((address, port), backlog=64)
    except OSError as error:
        raise Refused(
            f"port {port} cannot be used ({error.strerror}): choose another --port, or leave it out"
        ) from error
