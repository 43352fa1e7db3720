"""Benches follow pods and jobs by watches, which the API server may end at any time."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec
import pytest
from typing_extensions import override

from bench.operator_bench import follow
from spotrun.kube.rest.client import Client, Selection
from spotrun.kube.rest.transport import Params
from spotrun.observe.kube_objects import PODS
from tests.unit.kube.scripted import ScriptedTransport


class Watched(ScriptedTransport):
    """Remembers from which versions it was asked for events."""

    def __init__(self, *streams: list[dict[str, Any]]) -> None:
        super().__init__(lambda *_: {}, streams)
        self.versions: list[str] = []

    @override
    async def stream(
        self, path: str, *, params: Params, silence_seconds: float
    ) -> AsyncGenerator[list[bytes], None]:
        self.versions.append(params["resourceVersion"])
        async for lines in super().stream(path, params=params, silence_seconds=silence_seconds):
            yield [line.replace(b": ", b":") for line in lines]  # as the API server writes


def event(kind: str, version: int) -> dict[str, Any]:
    return {"type": kind, "object": {"metadata": {"resourceVersion": str(version)}}}


async def seen(transport: Watched, wanted: int) -> list[str]:
    found: list[str] = []
    client = Client(transport, field_manager="test")
    async with aclosing(follow(client, Selection(PODS), 4)) as lines:
        async for line in lines:
            found.append(msgspec.json.decode(line)["type"])
            if len(found) == wanted:
                break
    return found


async def test_a_watch_that_has_ended_goes_on_after_what_it_said_last() -> None:
    transport = Watched(
        [event("ADDED", 5), event("BOOKMARK", 9)], [], [event("MODIFIED", 12)], [event("ADDED", 13)]
    )
    assert await seen(transport, 3) == ["ADDED", "MODIFIED", "ADDED"]
    assert transport.versions == ["4", "9", "9", "12"]


async def test_a_watch_that_has_failed_ends_the_bench() -> None:
    transport = Watched([{"type": "ERROR", "object": {"code": 410, "message": "too old"}}])
    with pytest.raises(RuntimeError, match="too old"):
        await seen(transport, 2)
