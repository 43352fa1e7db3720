"""Metrics and health, on a plain port of their own that agents need not reach."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Self

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

Probe = Callable[[], str | None]
"""What is wrong, in a sentence; None if all is well."""


class PlainServer:
    """Serves /metrics, /healthz and /readyz while its `async with` block lasts."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        healthy: Probe,
        ready: Probe,
        host: str = "",
        port: int = 8080,
    ) -> None:
        self._registry = registry
        self._probes = {"/healthz": healthy, "/readyz": ready}
        self._host = host
        self._port = port

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=0)
        app.router.add_get("/metrics", self._metrics)
        for path in self._probes:
            app.router.add_get(path, self._probe)
        self._runner = web.AppRunner(app, access_log=None, keepalive_timeout=60, lingering_time=0)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host or None, self._port).start()
        self.port: int = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _metrics(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(self._registry), headers={"Content-Type": content_type})

    async def _probe(self, request: web.Request) -> web.Response:
        wrong = self._probes[request.path]()
        if wrong is None:
            return web.Response(text="ok\n")
        return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text=f"{wrong}\n")
