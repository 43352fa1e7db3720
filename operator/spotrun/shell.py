"""kopf as the shell of the process: start-up, shutdown, signals, the liveness endpoint (ADR 0001).

No resource has a kopf handler. All that kopf asks of the API server is its discovery, once, at the
start: it insists on that, so it is given our credentials and endless patience.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Protocol

import aiohttp
import kopf

from spotrun.kube.access import Credentials

_EXIT_SECONDS = 25
"""Below the 30 s that a pod is given by default."""


class Service(Protocol):
    """What runs in the shell."""

    def ages_seconds(self) -> dict[str, float]:
        """For how long each part has given no sign of life; raises if one is beyond hope."""


OpenService = Callable[[], AbstractAsyncContextManager[Service]]


class _Endless:
    """Pauses without an end: by default kopf exits after 55 s without an API server."""

    def __iter__(self) -> Iterator[float]:
        yield from (1, 1, 2, 3, 5, 8)
        while True:
            yield 13


async def host(
    open_service: OpenService, credentials: Credentials, *, liveness: str | None = None
) -> None:
    """Run a service until SIGTERM or SIGINT; `liveness` is a URL such as http://0.0.0.0:8080/healthz."""
    registry = kopf.OperatorRegistry()
    stack = AsyncExitStack()

    @kopf.on.startup(registry=registry)
    async def start(**_: Any) -> None:  # noqa: ANN401 - kopf's keyword arguments
        service = await stack.enter_async_context(open_service())

        @kopf.on.probe(id="ages_seconds", registry=registry)
        async def ages(**_: Any) -> dict[str, float]:  # noqa: ANN401 - kopf's keyword arguments
            return service.ages_seconds()

    @kopf.on.login(registry=registry, errors=kopf.ErrorsMode.TEMPORARY, backoff=5)
    async def login(**_: Any) -> kopf.AiohttpSession:  # noqa: ANN401 - kopf's keyword arguments
        access = await credentials.current()
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=access.tls if access.tls is not None else True),
            headers={"Authorization": access.authorization} if access.authorization else {},
            proxy=access.proxy,
        )
        return kopf.AiohttpSession(server=access.server, aiohttp_session=session)

    @kopf.on.cleanup(registry=registry)
    async def end(**_: Any) -> None:  # noqa: ANN401 - kopf's keyword arguments
        await stack.aclose()

    await kopf.operator(
        registry=registry,
        settings=_settings(),
        standalone=True,  # leader election is ours: kopf's peering is not a lock
        clusterwide=True,
        liveness_endpoint=liveness,
    )


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True
    settings.posting.enabled = False  # events are written by `act`, at most ten per job and hour
    settings.networking.error_backoffs = _Endless()
    settings.process.ultimate_exiting_timeout = _EXIT_SECONDS
    return settings
