"""Waits that end early if their result is not wanted any more."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class ClosedError(Exception):
    """Raised in code that waits for a result that is not wanted any more."""


class Closing:
    """Open until it is closed; then nothing new begins, and every wait inside ends at once."""

    def __init__(self) -> None:
        self.is_closed = False
        self._waits: set[asyncio.Timeout] = set()

    def close(self) -> None:
        """End all waits, the present ones and later ones."""
        self.is_closed = True
        now = asyncio.get_running_loop().time()
        for wait in self._waits:
            wait.reschedule(now)

    async def pause(self, seconds: float) -> None:
        """Sleep, but only until it is closed."""
        with suppress(ClosedError):
            async with self.unless_closed():
                await asyncio.sleep(seconds)

    @asynccontextmanager
    async def unless_closed(self) -> AsyncIterator[None]:
        """End the waits inside with ClosedError when it is closed."""
        if self.is_closed:
            raise ClosedError
        # A timeout without a time needs no timer, and code can make it expire.
        wait = asyncio.timeout(None)
        self._waits.add(wait)
        try:
            async with wait:
                yield
        except TimeoutError:
            if wait.expired():
                raise ClosedError from None
            raise
        finally:
            self._waits.discard(wait)
