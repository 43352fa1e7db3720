"""kopf in front of an operator in this process, for many in a loop.

`spotrun.runtime.kopf_host` has it as a process of its own.

`kopf.operator` believes that every task of the loop is its own, and ends them all with itself.
"""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast

import kopf

from spotrun.kube.tasks import running
from spotrun.kube.watch.kopf_feed import Feed
from spotrun.observe.kube_objects import FED
from spotrun.runtime import kopf_handlers
from spotrun.runtime.controller import Controller


@asynccontextmanager
async def fronted(make: Callable[[Feed], Controller]) -> AsyncIterator[Controller]:
    """Open a controller to which kopf says what happens to jobs and pools."""
    feed = Feed(FED)
    async with make(feed) as controller, running(watching(feed, controller)):
        yield controller


async def watching(feed: Feed, receiver: kopf_handlers.Receiver) -> None:
    """Have kopf follow a feed until cancelled, or until kopf breaks."""
    registry = kopf.OperatorRegistry()
    kopf_handlers.watch(registry, feed, receiver)
    await following(registry)


async def following(registry: kopf.OperatorRegistry) -> None:
    """Have kopf call the handlers of a registry until cancelled, or until kopf breaks."""
    settings = kopf.OperatorSettings()
    kopf_handlers.configure(settings)
    with _signals_kept():
        tasks = await kopf.spawn_tasks(
            registry=registry,
            settings=settings,
            identity=cast("Any", "test"),
            standalone=True,
            clusterwide=True,
        )
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Take signals back from kopf: Ctrl-C is for the whole process, not for one operator in it."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    kept = {number: signal.getsignal(number) for number in numbers}
    yield
    if threading.current_thread() is threading.main_thread():
        loop = asyncio.get_running_loop()
        for number, handler in kept.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
