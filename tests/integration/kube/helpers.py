"""Config maps with a label, a reflector of them, and what the reflector said."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from spotrun.kube.backoff import Backoff
from spotrun.kube.resource import Meta, Resource
from spotrun.kube.rest.client import Client, Selection
from spotrun.kube.watch.reflector import Reflector, Timing

CONFIG_MAPS = Resource("", "v1", "configmaps")
NAMESPACES = Resource("", "v1", "namespaces")

# Long where a test must not run into it; a test that is about one of them shortens it.
PATIENT = Timing(silence_seconds=60, relist_seconds=600, backoff=Backoff(0.01, 0.05))


class ConfigMap(msgspec.Struct, frozen=True):
    metadata: Meta
    data: dict[str, str] = {}


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"test": "yes"}},
        "data": data,
    }


@dataclass
class Space:
    """One namespace for one test, as somebody who is not disturbed by faults."""

    client: Client
    namespace: str

    @property
    def selection(self) -> Selection:
        return Selection(CONFIG_MAPS, self.namespace, label_selector="test=yes")

    @property
    def path(self) -> str:
        return self.selection.path

    async def put(self, name: str, **data: str) -> ConfigMap:
        body = config_map(name, **data)
        return await self.client.apply(CONFIG_MAPS, name, body, ConfigMap, namespace=self.namespace)

    async def delete(self, item: ConfigMap) -> None:
        meta = item.metadata
        await self.client.delete(CONFIG_MAPS, meta.name, uid=meta.uid, namespace=self.namespace)


@dataclass
class Following:
    """A reflector that runs, and everything it has said."""

    reflector: Reflector[ConfigMap]
    said: list[str]
    pauses: list[float]
    news: asyncio.Condition = field(default_factory=asyncio.Condition)

    def names(self) -> set[str]:
        return {item.metadata.name for item in self.reflector.store}

    async def until(self, holds: Callable[[], bool], timeout_seconds: float = 60) -> None:
        async with asyncio.timeout(timeout_seconds), self.news:
            await self.news.wait_for(holds)

    async def until_said(self, *expected: str) -> None:
        try:
            await self.until(lambda: len(self.said) >= len(expected))
        except TimeoutError:
            assert self.said == list(expected)
        assert self.said == list(expected)


def described(old: ConfigMap | None, new: ConfigMap | None) -> str:
    if old is None:
        assert new is not None
        return f"+{new.metadata.name}"
    return f"-{old.metadata.name}" if new is None else f"~{new.metadata.name}"


@asynccontextmanager
async def following(
    client: Client, selection: Selection, timing: Timing = PATIENT, *, page: int = 500
) -> AsyncIterator[Following]:
    """A running reflector; its pauses are recorded, and kept short by `timing`."""
    said: list[str] = []
    pauses: list[float] = []

    async def notify() -> None:
        async with result.news:
            result.news.notify_all()

    tasks: set[asyncio.Task[None]] = set()

    def handle(old: ConfigMap | None, new: ConfigMap | None) -> None:
        said.append(described(old, new))
        poke()

    def poke() -> None:
        task = asyncio.create_task(notify())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def sleep(seconds: float) -> None:
        if seconds:
            pauses.append(seconds)
        poke()
        await asyncio.sleep(min(seconds, 0.2))  # a Retry-After is recorded, not waited for

    reflector = Reflector(
        client, selection, ConfigMap, handle, timing=timing, page=page, sleep=sleep
    )
    result = Following(reflector, said, pauses)
    run = asyncio.create_task(reflector.run())
    try:
        await asyncio.wait_for(reflector.synced.wait(), 60)
        yield result
        assert not run.done(), "nothing may end a reflector"
    finally:
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
