"""kopf as the shell of the process: start-up, shutdown, signals, the liveness endpoint (ADR 0001).

No resource has a kopf handler, so kopf has nothing to ask of the API server, and is kept from doing
so: whatever became of its discovery (a 404, half an answer) would end the process.
"""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, NoReturn, Protocol, cast
from urllib.parse import urlsplit

import kopf

log = logging.getLogger(__name__)

_FAREWELL_SECONDS = 0.2
"""For kopf, when the service has ended; it would take 5 s, for the discovery that it still hopes to
begin."""


class Service(Protocol):
    """What runs in the shell."""

    def ages_seconds(self) -> dict[str, float]:
        """For how long each part has given no sign of life; raises if one is beyond hope."""

    async def until_broken(self) -> None:
        """Return, or raise, only where it can no longer do what it is for."""


OpenService = Callable[[], AbstractAsyncContextManager[Service]]


class _Guest:
    """The service, opened in the background: that takes as long as the API server is away."""

    def __init__(self, open_service: OpenService, stop: asyncio.Event) -> None:
        self.ended = asyncio.Event()
        self.was_told = False
        self.failure: Exception | None = None
        self.service: Service | None = None
        self._open = open_service
        self._stop = stop
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def end(self) -> None:
        self.was_told = self._stop.is_set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.ended.set()

    async def _run(self) -> None:
        try:
            async with self._open() as service:
                self.service = service
                await service.until_broken()
        except Exception as error:  # raised again by `host`, when kopf has ended
            self.failure = error
        finally:
            self._stop.set()


async def host(open_service: OpenService, *, liveness: str | None = None) -> None:
    """Run a service until SIGTERM or SIGINT; a second one ends the process on the spot.

    `liveness` is a URL such as http://0.0.0.0:8081/healthz. Raises what the service raises.
    """
    _require_free(liveness)
    ready, stop = asyncio.Event(), asyncio.Event()
    guest = _Guest(open_service, stop)
    operator = asyncio.create_task(
        kopf.operator(
            registry=_registry(guest),
            settings=_settings(),
            # For its peering, which is off. By default it is the user's name, and some have none.
            identity=cast("Any", "spotrun"),
            standalone=True,  # leader election is ours: kopf's peering is not a lock
            clusterwide=True,
            liveness_endpoint=liveness,
            ready_flag=ready,
            stop_flag=stop,
        )
    )
    signals = asyncio.create_task(_heed_signals(ready, stop))
    broken = await _end_of(operator, guest, signals)
    if guest.failure is not None:
        raise guest.failure
    if isinstance(broken, Exception):
        raise broken


def _registry(guest: _Guest) -> kopf.OperatorRegistry:
    """What kopf does for us: it begins, it ends, and it is asked for signs of life."""
    registry = kopf.OperatorRegistry()

    @kopf.on.startup(registry=registry)
    async def begin(**_: Any) -> None:  # noqa: ANN401 - kopf's keyword arguments
        guest.begin()

    @kopf.on.cleanup(registry=registry)
    async def end(**_: Any) -> None:  # noqa: ANN401 - kopf's keyword arguments
        await guest.end()

    @kopf.on.login(registry=registry)
    async def never(**_: Any) -> NoReturn:  # noqa: ANN401 - kopf's keyword arguments
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    # Permanent: kopf would otherwise try a probe that fails again for as long as it fails.
    @kopf.on.probe(id="ages_seconds", registry=registry, errors=kopf.ErrorsMode.PERMANENT)
    async def ages(**_: Any) -> dict[str, float]:  # noqa: ANN401 - kopf's keyword arguments
        return {} if guest.service is None else guest.service.ages_seconds()

    return registry


async def _end_of(
    operator: asyncio.Task[None], guest: _Guest, signals: asyncio.Task[None]
) -> BaseException | None:
    """Wait until kopf or the service has ended, and end the rest; what kopf broke of, if it did."""
    ended = asyncio.create_task(guest.ended.wait())
    try:
        await asyncio.wait({operator, ended}, return_when=asyncio.FIRST_COMPLETED)
        # Where nobody said stop it is kopf that broke, and has yet to say why.
        await asyncio.wait({operator}, timeout=_FAREWELL_SECONDS if guest.was_told else None)
    finally:
        for task in (operator, signals, ended):
            task.cancel()
        (broken, *_) = await asyncio.gather(operator, signals, ended, return_exceptions=True)
    return broken


def _require_free(liveness: str | None) -> None:
    """Raise at once if somebody else listens there: kopf would say so 5 s after it failed."""
    if liveness is not None:
        url = urlsplit(liveness)
        host = url.hostname or ""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.create_server((host, url.port or 80), family=family).close()


async def _heed_signals(ready: asyncio.Event, stop: asyncio.Event) -> None:
    """Replace kopf's handlers, which do not expect a second signal, once they are there."""
    await ready.wait()
    loop = asyncio.get_running_loop()

    def heed(number: signal.Signals) -> None:
        if stop.is_set():
            loop.remove_signal_handler(number)
            os.kill(os.getpid(), number)
        log.info("%s: stopping (once more to end at once)", number.name)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, heed, number)


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True
    settings.posting.enabled = False  # events are written by `act`, at most ten per job and hour
    return settings
