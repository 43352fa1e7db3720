"""kopf as the shell of the process: start-up, shutdown, signals (ADR 0001); and liveness.

No resource has a kopf handler, so kopf has nothing to ask of the API server, and is kept from doing
so: whatever became of its discovery (a 404, half an answer) would end the process. Its liveness
endpoint is not used: whoever reaches the port could open connections on it without end.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, NoReturn, Protocol, cast

import kopf

from spotrun.serve.plain import health, plain_server

log = logging.getLogger(__name__)

_FAREWELL_SECONDS = 0.2
"""For kopf, when the service has ended; it would take 5 s, for the discovery that it still hopes to
begin."""


class Service(Protocol):
    """What runs in the shell."""

    def stalled(self) -> str | None:
        """What only a restart may cure, in a sentence; None if there is nothing."""

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

    def stalled(self) -> str | None:
        return None if self.service is None else self.service.stalled()

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


async def host(open_service: OpenService, *, liveness: tuple[str, int] | None = None) -> None:
    """Run a service until SIGTERM or SIGINT; a second one ends the process on the spot.

    `liveness` is the host and the port of /healthz; the empty host means every address. Raises
    what the service raises.
    """
    stop = asyncio.Event()
    guest = _Guest(open_service, stop)
    async with AsyncExitStack() as stack:
        if liveness is not None:
            where, port = liveness
            pages = {"/healthz": health(guest.stalled)}
            await stack.enter_async_context(plain_server(pages, host=where, port=port))
        await _run(guest, stop)


async def _run(guest: _Guest, stop: asyncio.Event) -> None:
    """Let kopf begin and end the service."""
    ready = asyncio.Event()
    operator = asyncio.create_task(
        kopf.operator(
            registry=_registry(guest),
            settings=_settings(),
            # For its peering, which is off. By default it is the user's name, and some have none.
            identity=cast("Any", "spotrun"),
            standalone=True,  # leader election is ours: kopf's peering is not a lock
            clusterwide=True,
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
    """What kopf does for us: it begins, and it ends."""
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
