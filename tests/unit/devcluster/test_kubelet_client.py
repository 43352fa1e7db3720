"""The watch loop against an API server that is played."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path

import aiohttp
import pytest
from typing_extensions import override

from devcluster.access import Access
from devcluster.client import ApiError, Client, Manifest, Manifests, at
from devcluster.watching import WatchEvent

NOWHERE = Access("https://127.0.0.1:1", Path("ca"), Path("cert"), Path("key"))
Turn = list[WatchEvent | Exception]


def item(name: str, version: int, uid: str = "") -> Manifest:
    meta = {"name": name, "uid": uid or name, "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta}


class Played(Client):
    """Lists and streams what it is told to, and notes where streams were taken up."""

    def __init__(self, lists: list[Manifests], streams: list[Turn]) -> None:
        super().__init__(NOWHERE)
        self.lists = lists
        self.streams = streams
        self.taken_up_at: list[str] = []

    @override
    async def _list(self, path: str, params: Mapping[str, str]) -> tuple[Manifests, str]:
        items = self.lists.pop(0)
        return items, max((i["metadata"]["resourceVersion"] for i in items), default="0")

    @override
    async def _stream(
        self, path: str, version: str, params: Mapping[str, str]
    ) -> AsyncGenerator[tuple[WatchEvent | None, str], None]:
        self.taken_up_at.append(version)
        if not self.streams:
            await asyncio.Event().wait()
        for turn in self.streams.pop(0):
            if isinstance(turn, Exception):
                raise turn
            yield turn, turn.object["metadata"]["resourceVersion"]


async def first(client: Client, count: int) -> list[tuple[str, str]]:
    return [(one.type, one.object["metadata"]["name"]) for one in await changes(client, count)]


async def changes(client: Client, count: int) -> list[WatchEvent]:
    seen: list[WatchEvent] = []
    async with asyncio.timeout(5), aclosing(client.watch("/pods")) as events:
        async for event in events:
            seen.append(event)
            if len(seen) == count:
                break
    return seen


async def test_a_stream_that_ends_is_taken_up_where_it_was() -> None:
    ended: Turn = [WatchEvent("ADDED", item("b", 2))]
    broken: Turn = [WatchEvent("MODIFIED", item("b", 3)), aiohttp.ClientPayloadError()]
    client = Played([[item("a", 1)]], [ended, broken, [WatchEvent("DELETED", item("a", 4))]])
    assert await first(client, 4) == [
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("MODIFIED", "b"),
        ("DELETED", "a"),
    ]
    assert client.taken_up_at == ["1", "2", "3"]


async def test_after_a_410_a_relist_tells_what_was_missed_deletions_included() -> None:
    gone = ApiError(410, "Expired", "too old resource version")
    client = Played(
        [
            [item("stays", 1), item("changes", 1), item("goes", 1), item("anew", 1, uid="old")],
            [item("stays", 1), item("changes", 5), item("anew", 6, uid="new"), item("comes", 7)],
        ],
        [[gone]],
    )
    seen = await first(client, 9)
    assert sorted(seen[4:6]) == [("DELETED", "anew"), ("DELETED", "goes")]
    assert seen[6:] == [("MODIFIED", "changes"), ("ADDED", "anew"), ("ADDED", "comes")]


async def test_changes_that_a_list_found_are_marked_for_others_may_have_been_missed() -> None:
    gone = ApiError(410, "Expired", "too old resource version")
    seen: Turn = [WatchEvent("MODIFIED", item("a", 2)), gone]
    client = Played([[item("a", 1)], [item("a", 5)]], [seen])
    assert [one.is_listed for one in await changes(client, 3)] == [True, False, True]


async def test_an_error_that_will_not_pass_ends_the_watch() -> None:
    client = Played([[]], [[ApiError(403, "Forbidden", "no")]])
    with pytest.raises(ApiError):
        await first(client, 1)


async def test_an_error_that_may_pass_does_not() -> None:
    again: Turn = [WatchEvent("ADDED", item("a", 1))]
    client = Played([[]], [[ApiError(500, "InternalError", "etcd")], again])
    assert await first(client, 1) == [("ADDED", "a")]


def test_paths() -> None:
    assert at("pods", "ns", "p", "status") == "/api/v1/namespaces/ns/pods/p/status"
    assert at("nodes", None, "n") == "/api/v1/nodes/n"
    assert at("jobs", "ns", group="batch/v1") == "/apis/batch/v1/namespaces/ns/jobs"
