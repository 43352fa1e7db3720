import asyncio
import json
from contextlib import aclosing
from typing import Any

from typing_extensions import override

from spotrun.kube.rest.client import Client, Page, Selection
from spotrun.observe.kube_objects import PODS
from tests.unit.kube.scripted import ScriptedTransport


class ThreePages(ScriptedTransport):
    """A collection of three pages; notes which was asked for, read and given up, in order."""

    def __init__(self) -> None:
        super().__init__(lambda *_: None)
        self.log: list[str] = []
        self.answers = asyncio.Event()
        self.answers.set()

    @override
    async def request(self, method: str, path: str, **more: Any) -> bytes:
        number = int(more["params"].get("continue", 1))
        self.log.append(f"asked for {number}")
        try:
            await self.answers.wait()
        except asyncio.CancelledError:
            self.log.append(f"gave up {number}")
            raise
        after = str(number + 1) if number < 3 else ""
        return json.dumps({"metadata": {"resourceVersion": "7", "continue": after}}).encode()


def _pages(transport: ThreePages) -> Any:
    return aclosing(Client(transport, field_manager="test").pages(Selection(PODS), page=1))


async def test_the_next_page_is_asked_for_before_this_one_is_read() -> None:
    transport = ThreePages()
    read: list[Page] = []
    async with _pages(transport) as pages:
        async for page in pages:
            read.append(page)
            transport.log.append(f"read {len(read)}")
    assert transport.log == [
        *("asked for 1", "asked for 2", "read 1"),
        *("asked for 3", "read 2", "read 3"),
    ]
    assert [page.metadata.version for page in read] == ["7", "7", "7"]


async def test_a_reader_that_stops_gives_up_the_page_that_was_asked_for() -> None:
    transport = ThreePages()
    async with _pages(transport) as pages:
        transport.answers.set()
        await anext(pages)
        transport.answers.clear()
        await anext(pages)
    assert transport.log == ["asked for 1", "asked for 2", "asked for 3", "gave up 3"]


async def test_of_the_first_page_alone_no_other_is_asked_for() -> None:
    transport = ThreePages()
    assert await Client(transport, field_manager="test").newest_version(Selection(PODS)) == 7
    assert transport.log == ["asked for 1"]
