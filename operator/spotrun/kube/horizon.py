"""Read your own writes: nothing is decided on a cache that has not yet seen what we did.

As Kubernetes' own controllers do (KEP-5647), on versions that are comparable (KEP-5504).
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
R = TypeVar("R", bound=Hashable)


class Horizon(Generic[K, R]):
    """For each key, the versions that the caches of resources must have reached."""

    def __init__(self, last_version: Callable[[R], int]) -> None:
        self._last_version = last_version
        self._awaited: dict[K, dict[R, int]] = {}

    def wrote(self, key: K, resource: R, version: int) -> None:
        """Remember the version that a write on behalf of a key produced."""
        awaited = self._awaited.setdefault(key, {})
        awaited[resource] = max(version, awaited.get(resource, 0))

    def caught_up(self, key: K) -> bool:
        """True when the caches show everything that was written for a key."""
        awaited = self._awaited.get(key, {})
        for resource in [r for r, version in awaited.items() if self._last_version(r) >= version]:
            del awaited[resource]
        if not awaited:
            self._awaited.pop(key, None)
        return not awaited

    def forget(self, key: K) -> None:
        """What the key stood for is gone."""
        self._awaited.pop(key, None)
