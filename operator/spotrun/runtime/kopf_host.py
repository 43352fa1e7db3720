"""kopf as the process: start-up, shutdown, signals (ADR 0001); and liveness.

kopf's own liveness endpoint is not opened, because it does not limit the number of connections.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Protocol, cast

import kopf

from spotrun.http.probes import health, plain_server
from spotrun.kube.resource import Key
from spotrun.kube.watch.kopf_feed import Feed
from spotrun.observe.kube_objects import FED
from spotrun.runtime import kopf_handlers

log = logging.getLogger(__name__)

UNHEARD_SECONDS = 60.0
"""If kopf has not run our trivial handler for this long, it hangs: that is a bug."""


class Service(kopf_handlers.Receiver, Protocol):
    """The service that kopf hosts."""

    def stalled(self) -> str | None:
        """Return the fault that only a restart may cure, in a sentence; None if there is none."""

    async def until_broken(self) -> None:
        """Return, or raise, only once the service cannot do its work any more."""


OpenService = Callable[[Feed], AbstractAsyncContextManager[Service]]
"""Opens the service that reports each change of a job or a pool to the feed."""


class OpeningService:
    """The service, opened in the background: this waits until the API server answers."""

    def __init__(self, open_service: OpenService, stop: Callable[[], None]) -> None:
        self.feed = Feed(FED)
        self.failure: Exception | None = None
        self.service: Service | None = None
        self._open = open_service
        self._stop = stop
        self._task: asyncio.Task[None] | None = None

    def stalled(self) -> str | None:
        """Return the fault that only a restart may cure, in a sentence; None if there is none."""
        unhandled_seconds = self.feed.unhandled_seconds()
        if unhandled_seconds > UNHEARD_SECONDS:
            return f"kopf has not handled a change for {unhandled_seconds:.0f} s"
        return None if self.service is None else self.service.stalled()

    def job_changed(self, key: Key) -> None:
        """Have the service reconcile a job."""
        if self.service is not None:
            self.service.job_changed(key)

    def pool_changed(self, name: str) -> None:
        """Have the service bring a pool up to date."""
        if self.service is not None:
            self.service.pool_changed(name)

    def search_changed(self, key: Key) -> None:
        """Have the service reconcile a TuningJob."""
        if self.service is not None:
            self.service.search_changed(key)

    async def begin(self) -> None:
        """Open the service."""
        self._task = asyncio.create_task(self._run())

    async def end(self) -> None:
        """Close the service."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            async with self._open(self.feed) as service:
                self.service = service
                await service.until_broken()
        except Exception as error:  # raised again when kopf has ended
            self.failure = error
        self._stop()  # not if it is cancelled: kopf fails at a second signal while it ends


async def host(open_service: OpenService, *, liveness: tuple[str, int] | None = None) -> None:
    """Run a service until SIGTERM or SIGINT; a second one ends the process immediately.

    `liveness` is the host and the port of /healthz; the empty host means every address. Raises the
    service's errors.
    """
    stop = asyncio.Event()
    hosted = OpeningService(open_service, stop.set)
    async with AsyncExitStack() as stack:
        if liveness is not None:
            where, port = liveness
            pages = {"/healthz": health(hosted.stalled)}
            await stack.enter_async_context(plain_server(pages, host=where, port=port))
        await _run(hosted, stop)


async def _run(hosted: OpeningService, stop: asyncio.Event) -> None:
    """Let kopf begin and end the service."""
    ready = asyncio.Event()
    registry = kopf.OperatorRegistry()
    kopf_handlers.register(registry, hosted)
    operator = asyncio.create_task(
        kopf.operator(
            registry=registry,
            # For kopf's peering, which is off. The default is the user's name, which may not exist.
            identity=cast("Any", "spotrun"),
            standalone=True,  # leader election is ours: kopf's peering is not a lock
            clusterwide=True,
            ready_flag=ready,
            stop_flag=stop,
        )
    )
    signals = asyncio.create_task(_install_signal_handlers(ready, stop))
    broken = await _end_of(operator, signals)
    if hosted.failure is not None:
        raise hosted.failure
    if isinstance(broken, Exception):
        raise broken


async def _end_of(
    operator: asyncio.Task[None], signals: asyncio.Task[None]
) -> BaseException | None:
    """Wait until kopf and the service have ended; return the error that kopf ended by, if any."""
    try:
        await asyncio.wait({operator})
    finally:
        for task in (operator, signals):
            task.cancel()
        (broken, _) = await asyncio.gather(operator, signals, return_exceptions=True)
    return broken


async def _install_signal_handlers(ready: asyncio.Event, stop: asyncio.Event) -> None:
    """Replace kopf's handlers, which do not expect a second signal, once they are installed."""
    await ready.wait()
    loop = asyncio.get_running_loop()

    def heed(number: signal.Signals) -> None:
        if stop.is_set():
            loop.remove_signal_handler(number)
            os.kill(os.getpid(), number)
        log.info("%s: stopping (send it again to end at once)", number.name)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, heed, number)
