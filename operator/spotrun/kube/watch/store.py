"""A store of one kind of object: an indexed cache that turns lists into changes."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from spotrun.kube.resource import Key, Object

T = TypeVar("T", bound=Object)

Change = tuple[T | None, T | None]
"""The old and the new object: None where there was none, or where there is none any more."""

Index = Callable[[T], Iterable[Hashable]]
"""A function that returns the values under which an object is found."""


class Store(Generic[T]):
    """Objects by name, and by the given indices."""

    def __init__(self, indices: Mapping[str, Index[T]] | None = None) -> None:
        self._objects: dict[Key, T] = {}
        self._index_functions = dict(indices or {})
        self._indices: dict[str, dict[Hashable, dict[Key, T]]] = {
            name: {} for name in self._index_functions
        }

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self._objects.values()))

    def get(self, key: Key) -> T | None:
        """Return the object of that name."""
        return self._objects.get(key)

    def names(self) -> frozenset[Key]:
        """Return the names of all objects."""
        return frozenset(self._objects)

    def by_index(self, index: str, value: Hashable) -> tuple[T, ...]:
        """Return the objects that an index has under a value, in the order in which they came."""
        return tuple(self._indices[index].get(value, {}).values())

    def put(self, item: T, *, even_older: bool = False) -> list[Change[T]]:
        """Store an object; if it replaces another one of its name, that one is deleted first.

        An object older than the stored one changes nothing, unless `even_older` allows it.
        """
        meta = item.metadata
        key = Key(meta.namespace, meta.name)
        old = self._objects.get(key)
        if old is None:
            self._insert(key, item)
            return [(None, item)]
        if meta.version <= old.metadata.version and not even_older:
            return []
        self._withdraw(key, old)
        self._insert(key, item)
        if old.metadata.uid != meta.uid:
            return [(old, None), (None, item)]
        return [(old, item)]

    def remove(self, key: Key) -> list[Change[T]]:
        """Forget an object that is gone."""
        old = self._objects.get(key)
        if old is None:
            return []
        self._withdraw(key, old)
        del self._objects[key]
        return [(old, None)]

    def _insert(self, key: Key, item: T) -> None:
        self._objects[key] = item
        for name, function in self._index_functions.items():
            for value in function(item):
                self._indices[name].setdefault(value, {})[key] = item

    def _withdraw(self, key: Key, item: T) -> None:
        for name, function in self._index_functions.items():
            index = self._indices[name]
            for value in function(item):
                entries = index.get(value, {})
                entries.pop(key, None)
                if not entries:
                    index.pop(value, None)
