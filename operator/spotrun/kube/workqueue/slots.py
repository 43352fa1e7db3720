"""Slots for which groups take turns: a group that waits for many does not block the others."""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

from spotrun.kube.workqueue.schedule import Lane

_Ticket = tuple[Hashable, asyncio.Future[None]]  # a group; the future ends when it has a slot


def _group_of(ticket: _Ticket) -> Hashable:
    return ticket[0]


class Slots:
    """A semaphore that is fair across groups; in a group the oldest request is served first."""

    def __init__(self, number: int) -> None:
        self._free = number
        self._turns: Lane[_Ticket] = Lane(_group_of)

    @asynccontextmanager
    async def one(self, group: Hashable) -> AsyncIterator[None]:
        """Wait until it is the group's turn, then hold a slot."""
        await self._take(group)
        try:
            yield
        finally:
            self._give_back()

    async def _take(self, group: Hashable) -> None:
        if self._free:
            self._free -= 1
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns.put((group, granted), 0.0)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.cancelled():
                self._turns.discard((group, granted))
            else:
                self._give_back()  # it got the slot in the moment in which it was cancelled
            raise

    def _give_back(self) -> None:
        while self._turns:
            _, granted = self._turns.take()
            if not granted.done():  # otherwise it was cancelled, and is not removed yet
                granted.set_result(None)
                return
        self._free += 1
