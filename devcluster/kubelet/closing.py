"""Waits that end early when what they wait for is not wanted any more."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class ClosedError(Exception):
    """Raised where somebody waits for a thing that is not wanted any more."""


class Closing:
    """Open until it is closed; then nothing new begins, and every wait inside is broken off."""

    def __init__(self) -> None:
        self.is_closed = False
        self._waits: set[asyncio.Timeout] = set()

    def close(self) -> None:
        """Break off all that waits, now and from now on."""
        self.is_closed = True
        now = asyncio.get_running_loop().time()
        for wait in self._waits:
            wait.reschedule(now)

    async def pause(self, seconds: float) -> None:
        """Sleep, at most until it is closed."""
        with suppress(ClosedError):
            async with self.unless_closed():
                await asyncio.sleep(seconds)

    @asynccontextmanager
    async def unless_closed(self) -> AsyncIterator[None]:
        """Break off what is waited for inside, with ClosedError, when it is closed."""
        if self.is_closed:
            raise ClosedError
        # A timeout without a time costs no timer, and can be made to expire.
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
