"""Questions to all caches together: whether they are filled, and show our writes."""

import asyncio
from collections.abc import Mapping
from typing import Any

from spotrun.kube.resource import Key, Resource
from spotrun.kube.rest.client import Selection
from spotrun.kube.watch.reflector import Reflector
from spotrun.observe.kube_objects import CONFIG_MAPS, EVENTS

SILENT_SECONDS = 300.0
"""A cache reopens its watch after 75 s without data, and then gets an answer or an error. Only a
bug causes a longer silence: a restart may cure a bug, but not an API server that does not
answer."""

BLIND_SECONDS = 120.0
"""Longer than a watch may be silent before it is reopened."""

_HINTS = frozenset({CONFIG_MAPS, EVENTS})
"""Without these objects decisions are poorer, but not wrong. Events often have their own etcd,
which may be wiped. And agents reach no replica while none is ready."""


class Following:
    """Several reflectors, by the names that messages and metrics show."""

    def __init__(self, reflectors: Mapping[str, Reflector[Any]]) -> None:
        self.rewound = asyncio.Event()
        """Set when a cache that decisions depend on was filled with an older state than before."""
        self._always = reflectors
        self._others: list[asyncio.Event] = []
        self.follow_also({})

    def follow_also(self, others: Mapping[str, Reflector[Any]]) -> None:
        """Also follow reflectors of kinds served now, in place of those of the last call."""
        self._reflectors = {**self._always, **others}
        self._of_resource: dict[Resource, list[Reflector[Any]]] = {}
        for one in self._reflectors.values():
            if one.selection.resource not in _HINTS:
                one.rewound = self.rewound.set
            self._of_resource.setdefault(one.selection.resource, []).append(one)

    def awaits(self, event: asyncio.Event) -> None:
        """Count as filled only once this event is set too; more may then be followed."""
        self._others.append(event)

    async def synced(self) -> None:
        """Return when every cache has been filled once."""
        for event in self._events():
            await event.wait()

    @property
    def are_synced(self) -> bool:
        """Whether every cache has been filled once."""
        return all(event.is_set() for event in self._events())

    def _events(self) -> list[asyncio.Event]:
        return [*(one.synced for one in self._reflectors.values()), *self._others]

    def last_version(self, resource: Resource) -> int:
        """Return the newest version of a resource in the caches; huge if it is not cached.

        Several caches may show parts of one resource: the one that is furthest behind counts.
        """
        versions = (one.last_version for one in self._of_resource.get(resource, ()))
        return min(versions, default=2**63)

    def version_of(self, resource: Resource, key: Key) -> int | None:
        """Return the version of an object in the caches; None if they have no such object."""
        found = (one.get(*key) for one in self._of_resource.get(resource, ()))
        return min((one.metadata.version for one in found if one is not None), default=None)

    def listed_at(self, resource: Resource) -> float:
        """Return when the last complete list of a resource began."""
        moments = (one.listed_at for one in self._of_resource.get(resource, ()))
        return min(moments, default=float("inf"))

    def moved_at(self, resource: Resource) -> float:
        """Return when a resource's version last grew in the caches."""
        moments = (one.moved_at for one in self._of_resource.get(resource, ()))
        return min(moments, default=float("inf"))

    def relist(self, resource: Resource) -> None:
        """List a resource again, because a watch has missed an object that must exist."""
        for reflector in self._of_resource.get(resource, ()):
            reflector.relist()

    def blind(self) -> str | None:
        """Return why decisions would depend on outdated facts; None if they would not."""
        for name, reflector in self._reflectors.items():
            if reflector.selection.resource in _HINTS:
                continue
            if reflector.refusals:
                return (
                    f"{name}: the API server shows an older state than before; was etcd restored?"
                )
            if (age := reflector.age_seconds()) > BLIND_SECONDS:
                return f"{name}: the API server sent nothing for {age:.0f} s"
        return None

    def stalled(self) -> str | None:
        """Return which caches have received nothing, not even an error, for too long; or None."""
        ages = {
            name: round(reflector.age_seconds())
            for name, reflector in self._reflectors.items()
            if not reflector.failures
        }
        stalled = {name: age for name, age in ages.items() if age > SILENT_SECONDS}
        if not stalled:
            return None
        return f"seconds without any answer or error from the API server, by cache: {stalled}"

    @property
    def selections(self) -> tuple[Selection, ...]:
        """Return the selections that are listed and watched."""
        return tuple(reflector.selection for reflector in self._reflectors.values())
