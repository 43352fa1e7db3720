"""A number of slots for which groups take turns: who waits for many keeps nobody from one."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

from spotrun.kube.workqueue.schedule import Lane

_Ticket = tuple[Hashable, int]


def _group_of(ticket: _Ticket) -> Hashable:
    return ticket[0]


class Slots:
    """A semaphore that is fair across groups; in a group who came first is served first."""

    def __init__(self, number: int) -> None:
        self._free = number
        self._numbers = itertools.count()
        self._turns: Lane[_Ticket] = Lane(_group_of)
        self._waiting: dict[_Ticket, asyncio.Future[None]] = {}

    @asynccontextmanager
    async def one(self, group: Hashable) -> AsyncIterator[None]:
        """Hold a slot, as soon as it is the group's turn."""
        await self._take(group)
        try:
            yield
        finally:
            self._give_back()

    async def _take(self, group: Hashable) -> None:
        if self._free:
            self._free -= 1
            return
        ticket = (group, next(self._numbers))
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = granted
        self._turns.put(ticket, 0.0)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.cancelled():
                self._turns.discard(ticket)
                self._waiting.pop(ticket, None)
            else:
                self._give_back()  # its turn came in the moment in which it was cancelled
            raise

    def _give_back(self) -> None:
        while self._turns:
            granted = self._waiting.pop(self._turns.take())
            if not granted.done():  # cancelled, and not told yet
                granted.set_result(None)
                return
        self._free += 1
