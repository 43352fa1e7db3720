"""Background tasks that last as long as a block."""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager

log = logging.getLogger(__name__)


@asynccontextmanager
async def running(work: Coroutine[object, object, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Run a coroutine while the block lasts, then cancel it; its error is logged."""
    task = asyncio.create_task(work, name=getattr(work, "__qualname__", None))
    task.add_done_callback(_log_error)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def first_of(*waits: Coroutine[object, object, object]) -> None:
    """Return as soon as one of these has ended; the others are cancelled."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _log_error(task: asyncio.Task[None]) -> None:
    """Log the error that ended a task: perhaps no other code awaits it."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error(
            "%s has ended with an unexpected error: please report this",
            task.get_name(),
            exc_info=error,
        )
