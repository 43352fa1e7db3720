"""A server before an HTTP server, in tests: in a thread of its own, with a port of loopback."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import aiohttp
from aiohttp import web

Handle = Callable[[web.Request, aiohttp.ClientSession], Awaitable[web.StreamResponse]]


@contextmanager
def before(handle: Handle) -> Iterator[str]:
    """Answer all requests by a function, which may pass them on; yields the URL."""
    loop, urls = asyncio.new_event_loop(), list[str]()
    begun, ended = threading.Event(), asyncio.Event()

    async def serve() -> None:
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(timeout=timeout, auto_decompress=False) as session:
            app = web.Application(client_max_size=2**30)

            async def answer(incoming: web.Request) -> web.StreamResponse:
                return await handle(incoming, session)

            app.router.add_route("*", "/{path:.*}", answer)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            host, port = runner.addresses[0][:2]
            urls.append(f"http://{host}:{port}")
            begun.set()
            await ended.wait()
            await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert begun.wait(30), "the proxy did not start"
    try:
        yield urls[0]
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(30)
        loop.close()


def whole(
    incoming: web.Request, status: int, headers: dict[str, str], content: bytes
) -> web.Response:
    """Return an answer as it came."""
    if incoming.method == "HEAD":  # the length is that of what would have come
        return web.Response(status=status, headers=headers)
    headers.pop("Content-Length", None)
    return web.Response(status=status, headers=headers, body=content)
