"""The requests to object stores: each goes through here, and is counted in the way stores bill it.

A request that obstore retries by itself counts once. Deletions are free.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import obstore
from obstore.store import ObjectStore

from spotrun_trainer.checkpoint.places.request_count import COUNT

if TYPE_CHECKING:
    from obstore import GetResult, ListResult, ObjectMeta

_PER_LISTING = 1000
"""The number of objects that a request lists."""


def put(store: ObjectStore, path: str, content: bytes, **options: Any) -> None:  # noqa: ANN401
    """Write a small object in one request."""
    COUNT.wrote(len(content))
    obstore.put(store, path, content, **options)


def put_parts(
    store: ObjectStore,
    path: str,
    content: Iterator[memoryview],
    size: int,
    *,
    part_bytes: int,
    at_a_time: int,
) -> None:
    """Write an object in parts: a request for each, one before and one after."""
    COUNT.wrote(size, requests=2 + -(-size // part_bytes))
    obstore.put(store, path, content, chunk_size=part_bytes, max_concurrency=at_a_time)


def get(store: ObjectStore, path: str) -> "GetResult":
    """Ask for an object."""
    COUNT.read(0)  # a request for a missing object costs the same
    answer = obstore.get(store, path)
    COUNT.read(answer.meta["size"], requests=0)
    return answer


def get_range(store: ObjectStore, path: str, start: int, stop: int) -> obstore.Bytes:
    """Read a range of an object."""
    COUNT.read(stop - start)
    return obstore.get_range(store, path, start=start, end=stop)


def head(store: ObjectStore, path: str) -> "ObjectMeta":
    """Ask for the metadata of an object."""
    COUNT.read(0)
    return obstore.head(store, path)


def list_folders(store: ObjectStore) -> "ListResult[Sequence[ObjectMeta]]":
    """List the entries directly below a prefix."""
    found = obstore.list_with_delimiter(store)
    num = len(found["common_prefixes"]) + len(found["objects"])
    COUNT.wrote(0, requests=max(1, -(-num // _PER_LISTING)))
    return found


def list_all(store: ObjectStore, prefix: str | None = None) -> "list[ObjectMeta]":
    """List all objects whose paths begin with the prefix."""
    found: Iterable[Sequence[ObjectMeta]] = obstore.list(store, prefix)
    objects = [one for some in found for one in some]
    COUNT.wrote(0, requests=max(1, -(-len(objects) // _PER_LISTING)))
    return objects


def delete(store: ObjectStore, paths: str | Sequence[str]) -> None:
    """Delete objects."""
    obstore.delete(store, paths)
