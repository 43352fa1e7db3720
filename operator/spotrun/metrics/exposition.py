"""The metrics page, rendered family by family and once for many readers: agents must not wait.

Rendering the series of 2,000 jobs takes half a second, and any client that reaches the port may ask
for them.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from typing_extensions import override

SHARED_SECONDS = 1.0
"""A rendered page serves all scrapes for this long: no Prometheus scrapes more often."""

Encode = Callable[[Collector], bytes]


class Exposition:
    """The page of a registry's metrics."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float]) -> None:
        self._registry = registry
        self._clock = clock
        self._turn = asyncio.Lock()  # requests wait for the page that is being rendered
        self._last: _Rendered | None = None

    async def page(self, request: web.BaseRequest) -> web.Response:
        """Return all metrics, in the format that the request asks for."""
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        body = await self._body(encode, content_type)
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _body(self, encode: Encode, content_type: str) -> bytes:
        async with self._turn:
            last = self._last
            if last is None or last.content_type != content_type or self._clock() >= last.until:
                body = await _render(self._registry, encode)
                last = _Rendered(content_type, self._clock() + SHARED_SECONDS, body)
                self._last = last
            return last.body


class _Rendered(NamedTuple):
    content_type: str
    until: float
    body: bytes


class _Families(Collector):
    """The families that are given to an encoder."""

    def __init__(self, *families: Metric) -> None:
        self._families = families

    @override
    def collect(self) -> Iterable[Metric]:
        return self._families


async def _render(registry: CollectorRegistry, encode: Encode) -> bytes:
    """Encode the page family by family; after each one other tasks have a turn."""
    end = encode(_Families())
    parts: list[bytes] = []
    for family in registry.collect():
        parts.append(encode(_Families(family)).removesuffix(end))
        await asyncio.sleep(0)
    return b"".join((*parts, end))
