"""Methods that block and can be awaited: the same coroutine, from a thread and from a loop."""

import asyncio
import inspect
import threading
from collections.abc import AsyncGenerator

import pytest

from spotrun.cli.python.calling import blocking, iterating
from spotrun.cli.python.errors import ClusterError
from spotrun.kube.errors import Forbidden


class Thing:
    def __init__(self) -> None:
        self.began = threading.Event()
        self.ended = threading.Event()

    @blocking
    async def double(self, number: int, *, plus: int = 0) -> int:
        """Return twice a number."""
        await asyncio.sleep(0)
        return 2 * number + plus

    @blocking
    async def refuse(self) -> None:
        raise Forbidden("not you", status=403)

    @blocking
    async def rest(self) -> None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()

    @iterating
    async def count(self, to: int) -> AsyncGenerator[int | None, None]:
        try:
            for number in range(to):
                await asyncio.sleep(0)
                yield number or None
        finally:
            self.ended.set()


def test_a_method_blocks() -> None:
    assert Thing().double(2, plus=1) == 5
    assert list(Thing().count(3)) == [None, 1, 2]


async def test_the_same_method_is_awaited_in_the_loop_of_a_notebook() -> None:
    thing = Thing()
    assert await thing.double.aio(2) == thing.double(2) == 4
    assert [one async for one in thing.count.aio(3)] == [None, 1, 2]


def test_it_is_documented_as_it_is_called() -> None:
    assert str(inspect.signature(Thing().double)) == "(number: int, *, plus: int = 0) -> int"
    assert Thing().double.__doc__ == Thing.double.__doc__ == "Return twice a number."


@pytest.mark.parametrize("to", [3, 10_000])
def test_an_iterator_that_is_left_is_closed(to: int) -> None:
    thing = Thing()
    lines = iter(thing.count(to))
    next(lines)
    lines.close()  # type: ignore[attr-defined]  # as a loop does that is left
    assert thing.ended.is_set()


async def test_what_is_cancelled_does_not_go_on() -> None:
    thing = Thing()
    resting = asyncio.create_task(thing.rest.aio())
    assert await asyncio.to_thread(thing.began.wait, 30)
    resting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await resting
    assert await asyncio.to_thread(thing.ended.wait, 30)


async def test_errors_are_those_of_the_client() -> None:
    with pytest.raises(ClusterError, match="not allowed: not you"):
        Thing().refuse()
    with pytest.raises(ClusterError, match="not allowed: not you"):
        await Thing().refuse.aio()
