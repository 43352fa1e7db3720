"""Metrics and health, on separate ports without TLS that agents need not reach.

Clients send no token here, so all connections are unauthenticated, each for one answer.
"""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from aiohttp import web

from spotrun.http.connection_limits import Limits
from spotrun.http.errors import SERVER
from spotrun.http.listener import Listener

Probe = Callable[[], str | None]
"""A function that returns a sentence about what is wrong; None if nothing is."""

Page = Callable[[web.BaseRequest], Awaitable[web.Response]]

LIMITS = Limits(connections=500, unauthenticated=500, unauthenticated_per_address=50)
"""The limits of one port. Its clients are a kubelet and a few Prometheus servers, each with one
connection at a time."""


def plain_server(
    pages: Mapping[str, Page], *, host: str = "", port: int = 8080, limits: Limits = LIMITS
) -> Listener:
    """Serve pages, by their paths, while its `async with` block lasts."""

    async def answer(request: web.BaseRequest) -> web.Response:
        response = await _page_of(request, pages)
        response.headers.update(SERVER)
        response.force_close()
        return response

    return Listener(answer, None, host=host, port=port, limits=limits)


def health(probe: Probe) -> Page:
    """Return a page that says "ok", or what is wrong."""

    async def page(_: web.BaseRequest) -> web.Response:
        wrong = probe()
        if wrong is None:
            return _words(HTTPStatus.OK, "ok")
        return _words(HTTPStatus.SERVICE_UNAVAILABLE, wrong)

    return page


async def _page_of(request: web.BaseRequest, pages: Mapping[str, Page]) -> web.Response:
    page = pages.get(request.path)
    if page is None:
        return _words(HTTPStatus.NOT_FOUND, f"no such page: use {' or '.join(pages)}")
    if request.method not in {"GET", "HEAD"}:
        return _words(HTTPStatus.METHOD_NOT_ALLOWED, "use GET here")
    return await page(request)


def _words(status: HTTPStatus, words: str) -> web.Response:
    return web.Response(status=status, text=f"{words}\n")
