"""The history of a job and its pods, seen by an independent watch of the API server."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from devcluster.client import ApiError, Client, at
from spotrun.api.field_types.text_values import WorkerIds
from tests.support.cluster.operator_world import GROUP

Manifest = dict[str, Any]

_AGAIN_SECONDS = 0.2


@dataclass(frozen=True)
class Event:
    """One change; versions of all kinds are comparable, for they come from one etcd."""

    version: int
    type: str  # ADDED, MODIFIED, DELETED
    object: Manifest
    missed_since: int | None = None
    """Set if a list found it, as after a 410: changes of its kind after that version, and before
    this one, were not seen."""

    @property
    def kind(self) -> str:
        return str(self.object["kind"])

    @property
    def uid(self) -> str:
        return str(self.object["metadata"]["uid"])

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])


@dataclass
class History:
    """All changes in one namespace, in any order; `in_order` sorts them."""

    events: list[Event] = field(default_factory=list)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    def in_order(self) -> list[Event]:
        return sorted(self.events, key=lambda event: event.version)

    async def add(self, event: Event) -> None:
        self.events.append(event)
        async with self._news:
            self._news.notify_all()

    async def has_seen(self, version: int, *kinds: str) -> None:
        """Wait until changes up to a version have come for these kinds."""

        def enough() -> bool:
            seen = {event.kind for event in self.events if event.version >= version}
            return seen.issuperset(kinds)

        async with asyncio.timeout(60), self._news:
            await self._news.wait_for(enough)


def worlds(events: Iterable[Event]) -> list[frozenset[int]]:
    """The members of every world of a job that was entered, in their order."""
    entered: dict[int, frozenset[int]] = {}
    for event in events:
        world = event.object.get("status", {}).get("world") or {}
        if event.kind == "TrainingJob" and world.get("active"):
            entered[world["number"]] = frozenset(WorkerIds(world["members"]).numbers)
    return [entered[world_number] for world_number in sorted(entered)]


@asynccontextmanager
async def recorded(kube: Client, namespace: str) -> AsyncIterator[History]:
    """Watch while the block lasts."""
    history = History()
    paths = (at("pods", namespace), at("trainingjobs", namespace, group=GROUP))
    tasks = [asyncio.create_task(_follow(kube, path, history)) for path in paths]
    try:
        yield history
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _follow(kube: Client, path: str, history: History) -> None:
    last, before_list = 0, 0
    while True:
        with suppress(ApiError):  # the kind is not there any more, and may come back
            async with aclosing(kube.watch(path)) as events:
                async for event in events:
                    version = int(event.object["metadata"]["resourceVersion"])
                    before_list = before_list if event.is_listed else max(last, version)
                    last = max(last, version)
                    missed_since = before_list if event.is_listed else None
                    await history.add(Event(version, event.type, event.object, missed_since))
        await asyncio.sleep(_AGAIN_SECONDS)
