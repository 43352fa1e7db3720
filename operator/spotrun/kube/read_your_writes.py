"""Read your own writes: no decision is made on a cache that does not show them yet.

Kubernetes' own controllers do the same (KEP-5647), on versions that are comparable (KEP-5504).
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from spotrun.kube.resource import Key

K = TypeVar("K", bound=Hashable)
R = TypeVar("R", bound=Hashable)
R_contra = TypeVar("R_contra", bound=Hashable, contravariant=True)

OVERDUE_SECONDS = 3.0
"""After this time the watch event of a write counts as lost. It usually takes milliseconds. The API
server itself also waits 3 s for its watch cache to catch up with its store."""
MOST_LAG_SECONDS = 30.0
"""A watch that is behind but advances gets this much time: a list of all objects would delay its
events, and an API server that lags is busy."""


class Caches(Protocol[R_contra]):
    """The versions that the caches show."""

    def last_version(self, resource: R_contra) -> int:
        """Return the newest version of a resource that was seen."""

    def version_of(self, resource: R_contra, key: Key) -> int | None:
        """Return the version of one object; None if there is none."""

    def listed_at(self, resource: R_contra) -> float:
        """Return when the last complete list of a resource began."""

    def moved_at(self, resource: R_contra) -> float:
        """Return when a newer version of a resource than before was last seen."""


@dataclass
class _Awaited:
    version: int = 0  # the newest one
    since: float = 0.0
    objects: dict[Key, tuple[int, bool]] = field(default_factory=dict)


class Horizon(Generic[K, R]):
    """The versions of resources that the caches must show before the next decision on a key."""

    def __init__(self, caches: Caches[R], clock: Callable[[], float]) -> None:
        self._caches = caches
        self._clock = clock
        self._awaited: dict[K, dict[R, _Awaited]] = {}

    def wrote(
        self, key: K, resource: R, name: Key, version: int, *, must_show: bool = False
    ) -> None:
        """Remember the version of an object that a write on behalf of a key produced.

        An object that the caches do not have counts as deleted by now, unless it `must_show`.
        """
        awaited = self._awaited.setdefault(key, {}).setdefault(resource, _Awaited())
        awaited.version = max(version, awaited.version)
        awaited.since = self._clock()
        awaited.objects[name] = (version, must_show)

    def caught_up(self, key: K) -> bool:
        """Whether the caches show everything that was written for a key."""
        awaited = self._awaited.get(key)
        if awaited is None:
            return True
        for resource in [r for r, one in awaited.items() if self._shows(r, one)]:
            del awaited[resource]
        if not awaited:
            del self._awaited[key]
        return not awaited

    def waited_seconds(self, key: K) -> float:
        """Return how long a key that has not caught up has waited for the last write."""
        sinces = [one.since for one in self._awaited.get(key, {}).values()]
        return self._clock() - min(sinces) if sinces else 0.0

    def overdue(self, key: K) -> tuple[R, ...]:
        """Return the resources to list again: caches should have shown a write long ago."""
        awaited = self._awaited.get(key, {})
        return tuple(r for r, one in awaited.items() if self._is_overdue(r, one))

    def _is_overdue(self, resource: R, awaited: _Awaited) -> bool:
        """Whether the watch has missed a write, or has stopped; not while it catches up."""
        now = self._clock()
        is_behind = self._caches.last_version(resource) < awaited.version
        moves = now - self._caches.moved_at(resource) < OVERDUE_SECONDS
        patience_seconds = MOST_LAG_SECONDS if is_behind and moves else OVERDUE_SECONDS
        return now - awaited.since >= patience_seconds

    def _shows(self, resource: R, awaited: _Awaited) -> bool:
        if self._caches.listed_at(resource) > awaited.since:
            return True
        if self._caches.last_version(resource) < awaited.version:
            return False
        # An event may be lost though later ones of its kind arrive.
        for name, (version, must_show) in awaited.objects.items():
            shown = self._caches.version_of(resource, name)
            if must_show if shown is None else shown < version:
                return False
        return True
