"""What is asked of all caches alike: whether they are filled, and what they show of our writes."""

from collections.abc import Mapping
from typing import Any

from spotrun.kube.client import Selection
from spotrun.kube.reflector import Reflector
from spotrun.kube.resource import Key, Resource

SILENT_SECONDS = 300.0
"""A cache opens its watch anew after 75 s without a word, and is answered or fails. Only a bug is
silent for so long: that a restart may cure, an API server that is away it does not."""


class Following:
    """Several reflectors, by the names under which people are told of them."""

    def __init__(self, reflectors: Mapping[str, Reflector[Any]]) -> None:
        self._reflectors = reflectors
        self._by_resource = {one.selection.resource: one for one in reflectors.values()}

    async def synced(self) -> None:
        """Return when every cache has been filled once."""
        for reflector in self._reflectors.values():
            await reflector.synced.wait()

    @property
    def are_synced(self) -> bool:
        """Whether every cache has been filled once."""
        return all(reflector.synced.is_set() for reflector in self._reflectors.values())

    def last_version(self, resource: Resource) -> int:
        """The newest version of a resource that the cache has seen; of others we wait for none."""
        reflector = self._by_resource.get(resource)
        return reflector.last_version if reflector is not None else 2**63

    def version_of(self, resource: Resource, key: Key) -> int | None:
        """The version of one object as the cache has it; None if it has no such object."""
        reflector = self._by_resource.get(resource)
        found = reflector.get(*key) if reflector is not None else None
        return found.metadata.version if found is not None else None

    def listed_at(self, resource: Resource) -> float:
        """When the last complete list of a resource began."""
        reflector = self._by_resource.get(resource)
        return reflector.listed_at if reflector is not None else float("inf")

    def relist(self, resource: Resource) -> None:
        """List a resource again, for a watch has not told what must be there."""
        reflector = self._by_resource.get(resource)
        if reflector is not None:
            reflector.relist()

    def stalled(self) -> str | None:
        """Which caches have heard nothing for too long, not even a failure; None if none has."""
        ages = {
            name: round(reflector.age_seconds())
            for name, reflector in self._reflectors.items()
            if not reflector.failures
        }
        stalled = {name: age for name, age in ages.items() if age > SILENT_SECONDS}
        if not stalled:
            return None
        return f"nothing was heard, not even a failure, for so many s: {stalled}"

    @property
    def selections(self) -> tuple[Selection, ...]:
        """What is listed and watched."""
        return tuple(reflector.selection for reflector in self._reflectors.values())
