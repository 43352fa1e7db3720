"""Checkpoints in an object store: S3 and compatible stores, Google Cloud Storage, Azure.

An object exists whole or not at all, and everybody sees it at once; so data needs no temporary name
and no sync, and an object that must be seen is requested by its name. The marker is put only if
none exists (`If-None-Match: *`), so of several writers the first one wins. If a store has no such
put, the writer looks for the marker before: two that write within the same milliseconds may both
believe that they won, and each then compares it with what it wrote (see `format/completion`).
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import obstore
from obstore.store import ObjectStore

from spotrun_trainer.checkpoint.format.names import Name, names_among
from spotrun_trainer.checkpoint.format.storage import (
    FIRST_MANIFEST,
    MARKER,
    FileFacts,
    Stored,
    Told,
    pieces,
)
from spotrun_trainer.checkpoint.places import requests
from spotrun_trainer.checkpoint.places.begun_reads import BegunReads
from spotrun_trainer.checkpoint.places.directory import is_ours
from spotrun_trainer.checkpoint.places.small_objects import (
    ObjectNote,
    create,
    read,
    remove,
)
from spotrun_trainer.store.addresses import Address
from spotrun_trainer.store.again import again
from spotrun_trainer.store.read_ahead import ReadAhead
from spotrun_trainer.store.store_errors import DeniedError, as_os_error
from spotrun_trainer.store.stores import BESIDE, QUICKLY, connect
from spotrun_trainer.telemetry.console import say

PART_BYTES = 16 << 20
MOST_PARTS = 9000  # S3 takes 10,000
PARALLEL_PARTS = 8
"""The parts in flight take 128 MiB of memory in addition to the copy of the state."""
PIECE_BYTES = 1 << 20
"""A piece fits a core's cache, so that it is still in the cache when it is copied after hashing."""


class Objects:
    """The files of checkpoints, as objects below a prefix."""

    def __init__(self, address: Address, store: ObjectStore, quick: ObjectStore) -> None:
        self._address = str(address)
        self._store = store
        self._quick = quick  # gives up after a few seconds
        self._begun = BegunReads()

    @classmethod
    def at(cls, address: Address) -> "Objects":
        """Return the place at an address; no request is made."""
        return cls(address, connect(address, BESIDE), connect(address, QUICKLY))

    def where(self, name: Name | None = None, file: str = "") -> str:
        """Return the address of the place, of a checkpoint, or of a file of a checkpoint."""
        parts = [self._address, str(name or ""), file]
        return "/".join(one for one in parts if one)

    def check(self) -> None:
        """Check that objects can be written, listed and removed; the ValueError says what to try.

        A store that is away for a moment is not refused: later requests are retried.
        """
        tried = f".tried-{secrets.token_hex(8)}"
        try:
            with as_os_error(self._address):
                requests.put(self._quick, tried, b"")
                requests.list_folders(self._quick)
                requests.delete(self._quick, tried)
        except DeniedError as error:
            raise ValueError(
                f"checkpoints cannot be kept in {self._address}: {error.strerror}. Check the name, "
                "and give the pod's identity, or the credentials in its environment, the rights to "
                "list the bucket and to read, write and delete objects below that prefix (see "
                "docs/object-stores.md)"
            ) from error
        except OSError as error:
            say(f"{self._address} does not answer yet: {error.strerror}; the trainer tries again")

    def names(self) -> list[Name]:
        """All checkpoints, complete or not, oldest first: a request for each 1,000 of them."""
        found = again(lambda: requests.list_folders(self._store), self._address)
        prefixes = [one.rstrip("/") for one in found["common_prefixes"]]
        return names_among([one.rpartition("/")[2] for one in prefixes])

    def files(self, name: Name) -> list[FileFacts]:
        """List the objects of a checkpoint."""
        found = again(lambda: requests.list_all(self._store, f"{name}/"), self.where(name))
        return [
            FileFacts(one["path"].rpartition("/")[2], one["size"], one["last_modified"].timestamp())
            for one in found
        ]

    def stored(self) -> Stored:
        """List all objects: a request for each 1,000 of them."""
        found = again(lambda: requests.list_all(self._quick), self._address)
        is_marker = [one["path"].endswith(f"/{MARKER}") for one in found]
        return Stored(sum(one["size"] for one in found), sum(is_marker))

    def make(self, name: Name) -> None:
        """Do nothing: stores have no folders to prepare."""

    @contextmanager
    def opened(
        self, name: Name, file: str, reads: Sequence[tuple[int, int]] = ()
    ) -> Iterator["OpenObject"]:
        """Open an object for reading; the first read begins to fetch the ranges in parallel."""
        path, where = f"{name}/{file}", self.where(name, file)
        opened = OpenObject(self._store, path, where, reads, self._begun)
        try:
            yield opened
        finally:
            opened.close()

    def begin_reading(self, name: Name, file: str, size: int, most_bytes: int) -> None:
        """Begin to fetch ahead an object that will be read from its start."""
        path, where = f"{name}/{file}", self.where(name, file)

        def make() -> ReadAhead:
            fetch = OpenObject(self._store, path, where, ()).fetch
            return ReadAhead(fetch, [(0, size)])

        self._begun.begin(path, size, make, most_bytes)

    def end_begun(self) -> int:
        """Stop fetches that nobody read; return the bytes that were fetched when first read."""
        self._begun.end()
        return self._begun.bytes

    def read(self, name: Name, file: str) -> bytes:
        """A small object; raises OSError if it does not exist, or is not small."""
        return read(self._store, f"{name}/{file}", self.where(name, file))

    def write_data(self, name: Name, file: str, content: Sequence[memoryview], told: Told) -> None:
        """Write a large object in parts, several at a time; `told` gets the pieces that follow."""
        size = sum(map(len, content))

        def telling() -> Iterator[memoryview]:
            for piece in pieces(content, PIECE_BYTES):
                told(piece)
                yield piece

        with as_os_error(self.where(name, file)):
            path = f"{name}/{file}"
            if size <= PART_BYTES:
                requests.put(self._store, path, b"".join(telling()), use_multipart=False)
                return
            requests.put_parts(
                self._store,
                path,
                telling(),
                size,
                part_bytes=part_bytes(size),
                at_a_time=PARALLEL_PARTS,
            )

    def write(self, name: Name, file: str, content: bytes, rank: int) -> None:
        """Write a small object."""
        with as_os_error(self.where(name, file)):
            requests.put(self._store, f"{name}/{file}", content, use_multipart=False)

    def write_once(self, name: Name, file: str, content: bytes, rank: int) -> None:
        """Write a small object unless it exists: of several writers the first one wins."""
        create(self._store, f"{name}/{file}", self.where(name, file), content)

    def remove_file(self, name: Name, file: str) -> None:
        """Remove an object, if it exists."""
        remove(self._store, [f"{name}/{file}"], self.where(name, file))

    def remove(self, name: Name) -> None:
        """Remove a checkpoint, its marker first; up to 1,000 objects in a request."""
        for first in (MARKER, FIRST_MANIFEST):
            self.remove_file(name, first)
        ours = [f"{name}/{one.name}" for one in self.files(name) if is_ours(one.name)]
        remove(self._store, ours, self.where(name))

    def note(self, file: str) -> ObjectNote:
        """Return an object beside the checkpoints."""
        return ObjectNote(self._quick, file, self.where(None, file))


class OpenObject:
    """An object that is being read."""

    def __init__(
        self,
        store: ObjectStore,
        path: str,
        where: str,
        reads: Sequence[tuple[int, int]],
        begun: BegunReads | None = None,
    ) -> None:
        self._store = store
        self._path = path
        self._where = where
        self._reads = reads
        self._begun = begun
        self._ahead: ReadAhead | None = None

    @property
    def size(self) -> int:
        """Return its length in bytes."""
        return again(lambda: requests.head(self._store, self._path), self._where)["size"]

    def read_into(self, offset: int, target: memoryview) -> None:
        """Fill the target from that byte on; raises ValueError if the object is too short."""
        if self._ahead is None:
            self._ahead = self._taken() or ReadAhead(self.fetch, self._reads)
        self._ahead.read_into(offset, target)

    def close(self) -> None:
        """Stop fetching."""
        if self._ahead is not None:
            self._ahead.close()

    def fetch(self, start: int, stop: int) -> obstore.Bytes:
        """Return a range."""
        # obstore continues where it was cut off, but only if the store gives objects an ETag.
        return again(lambda: requests.get_range(self._store, self._path, start, stop), self._where)

    def _taken(self) -> ReadAhead | None:
        if self._begun is None or len(self._reads) != 1:
            return None
        return self._begun.take(self._path, *self._reads[0])


def part_bytes(size: int) -> int:
    """Return the size of the parts of an object: whole MiB, enough to limit their number."""
    return max(PART_BYTES, -(-size // MOST_PARTS >> 20) << 20)
