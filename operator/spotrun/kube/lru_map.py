"""A map of limited size: a cache must not grow with all objects that a cluster has ever had."""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruMap(Generic[K, V]):
    """A map of at most `most` entries: one more removes the least recently used."""

    __slots__ = ("_entries", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self._entries: dict[K, V] = {}  # in the order of their last use

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def get(self, key: K) -> V | None:
        """Return the entry, which counts as a use; None if there is none."""
        if key not in self._entries:
            return None
        value = self._entries[key] = self._entries.pop(key)
        return value

    def __setitem__(self, key: K, value: V) -> None:
        self._entries.pop(key, None)
        while len(self._entries) >= self.most:
            del self._entries[next(iter(self._entries))]
        self._entries[key] = value

    def pop(self, key: K) -> V | None:
        """Remove the entry and return it; None if there is none."""
        return self._entries.pop(key, None)
