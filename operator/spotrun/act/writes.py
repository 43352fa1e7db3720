"""What all writes go through: so many at once, counted by kind, and made known to the caches."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from spotrun.kube.horizon import Horizon
from spotrun.kube.resource import Key, Meta, Resource

T = TypeVar("T")

AT_ONCE = 32
"""Requests under way, of all jobs together: as many as saturate an API server on two cores.

Status writes, of which a job has one at a time, have as many slots of their own."""


class Written(msgspec.Struct, frozen=True):
    """Of what a write answers only the version is of use."""

    metadata: Meta


class Writes:
    """Bounds, counts, and remembers which versions the caches have to reach."""

    def __init__(self, horizon: Horizon[Key, Resource], at_once: int = AT_ONCE) -> None:
        self.counts: Counter[str] = Counter()
        self._horizon = horizon
        self._slots = asyncio.Semaphore(at_once)
        # Of their own: a reaction must not wait until another job's thousand pods are made.
        self._status_slots = asyncio.Semaphore(at_once)

    async def do(self, kind: str, write: Callable[[], Awaitable[T]]) -> T:
        """Make one request as soon as there is a slot; raises KubeError."""
        async with self._status_slots if kind == "status" else self._slots:
            answer = await write()
        self.counts[kind] += 1
        return answer

    def reached(
        self,
        job: Key,
        resource: Resource,
        name: str,
        version: int | None,
        *,
        must_show: bool = False,
    ) -> None:
        """Nothing is decided about a job on caches that do not show this of an object of it."""
        if version is not None:
            one = Key(job.namespace, name)
            self._horizon.wrote(job, resource, one, version, must_show=must_show)
