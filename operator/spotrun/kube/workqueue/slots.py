"""Slots for which groups take turns: a group that waits for many does not block the others.

One kind of requests may come before another kind, which then has only a few slots.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager

from spotrun.kube.workqueue.schedule import Lane

_Ticket = tuple[Hashable, asyncio.Future[None]]  # a group; the future ends when it has a slot


def _group_of(ticket: _Ticket) -> Hashable:
    return ticket[0]


class Slots:
    """A semaphore that is fair across groups; in a group the oldest request is served first."""

    def __init__(
        self, number: int, *, after: "Slots | None" = None, meanwhile: int | None = None
    ) -> None:
        """Give so many slots; only `meanwhile` of them while anybody waits for one of `after`."""
        self._number = number
        self._meanwhile = number if meanwhile is None else meanwhile
        self._used = 0
        self._turns: Lane[_Ticket] = Lane(_group_of)
        self._after = after
        self._given_back: list[Callable[[], None]] = [self._grant]
        if after is not None:
            after.on_given_back(self._grant)

    @property
    def is_waited_for(self) -> bool:
        """Whether anybody waits for one of these slots."""
        return bool(self._turns)

    def on_given_back(self, call: Callable[[], None]) -> None:
        """Call this each time that a slot was given back, and given to whoever waited for it."""
        self._given_back.append(call)

    @asynccontextmanager
    async def one(self, group: Hashable) -> AsyncIterator[None]:
        """Wait until it is the group's turn, then hold a slot."""
        await self._take(group)
        try:
            yield
        finally:
            self._give_back()

    async def _take(self, group: Hashable) -> None:
        if self._has_free and not self._turns:
            self._used += 1
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

    @property
    def _has_free(self) -> bool:
        others_wait = self._after is not None and self._after.is_waited_for
        return self._used < (self._meanwhile if others_wait else self._number)

    def _give_back(self) -> None:
        self._used -= 1
        for call in self._given_back:
            call()

    def _grant(self) -> None:
        while self._turns and self._has_free:
            _, granted = self._turns.take()
            if not granted.done():  # otherwise it was cancelled, and is not removed yet
                self._used += 1
                granted.set_result(None)
