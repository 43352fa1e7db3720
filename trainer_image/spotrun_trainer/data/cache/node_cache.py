"""A folder on a node's disk that keeps shards within a limit, for all processes of the node.

Any file may be lost or damaged at any time: missing files are made again.
"""

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from spotrun_trainer.data.cache.entries import Entries, hash_of
from spotrun_trainer.data.cache.locks import Locks, held

Make = Callable[[Path], object]
"""Writes a new file."""

_ABANDONED_SECONDS = 3600.0
_ROOM = "room"
"""The name of a separate lock file, because a process waits for it while it holds a lock of a
name."""


def _check_is_ours(folder: Path) -> None:
    """Raise OSError if another user has made it: users do not share a cache."""
    if not os.access(folder, os.W_OK | os.X_OK):
        owner = folder.stat().st_uid
        raise OSError(errno.EACCES, f"it belongs to user {owner}, but this is user {os.getuid()}")


class NodeCache:
    """Files by key; the least recently used are removed first."""

    def __init__(self, root: Path, limit_bytes: int) -> None:
        self.root = root
        self.hits = 0
        self.misses = 0
        self.limit_bytes = limit_bytes
        self._entries = Entries(root / "files")
        self._locks = Locks(root / "locks")
        self._room = root / "locks" / _ROOM
        self._parts = root / "parts"
        try:
            for folder in (root / "files", root / "locks", self._parts):
                folder.mkdir(parents=True, exist_ok=True)
                _check_is_ours(folder)
        except OSError as error:
            raise ValueError(
                f"data cannot be cached in {root}: {error.strerror}. Set a folder that this user "
                "can write to, on the node's own disk, one for each user: SPOTRUN_DATA_CACHE=/path"
            ) from error

    def find(self, key: str) -> BinaryIO | None:
        """Open a file that exists and is complete, as far as is known."""
        file = self._entries.find(key)
        self.hits += file is not None
        return file

    @contextmanager
    def making(self, name: str) -> Iterator[None]:
        """Be the only process of the node that makes files of this name."""
        with self._locks.held(name):
            yield

    @contextmanager
    def making_if_free(self, name: str) -> Iterator[bool]:
        """Be the only process that makes them, unless another does; yields whether this one is."""
        with self._locks.held_if_free(name) as is_held:
            yield is_held

    def confirm(self, key: str) -> BinaryIO | None:
        """Open a file after comparing its content with its hash; call it within `making`."""
        file = self._entries.confirm(key)
        self.hits += file is not None
        return file

    def make(self, key: str, make: Make, *, digest: str = "", num_bytes: int = 0) -> BinaryIO:
        """Make a file and return it, opened; call it within `making`.

        It is expected to have `num_bytes`: space for them is freed first, and a file that is larger
        than the whole cache is not begun. Raises OSError if it does not match `digest`.
        """
        self.misses += 1
        part = self._parts / key
        with held(self._room):
            self._make_room(num_bytes)
        try:
            self._write(part, make)
            with part.open("rb") as file:
                found = hash_of(file)
            if digest and found != digest:
                raise OSError(errno.EIO, "has another hash than its manifest says", part.name)
            with held(self._room):
                self._make_room(part.stat().st_size)
                return self._entries.put(key, part, found)
        finally:
            part.unlink(missing_ok=True)

    def discard(self, key: str) -> None:
        """Remove a file that is not needed any more."""
        self._entries.remove(key)

    def _write(self, part: Path, make: Make) -> None:
        while True:
            part.unlink(missing_ok=True)
            try:
                make(part)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                if not self._remove_some():
                    raise OSError(errno.ENOSPC, self._no_room(), str(self.root)) from error
            else:
                return

    def _remove_some(self) -> bool:
        """Remove a quarter of the files; returns whether there were any."""
        with held(self._room):
            entries = self._entries.all()
            for entry in entries[: -(-len(entries) // 4)]:
                self._entries.remove(entry.key)
        return bool(entries)

    def _make_room(self, num_bytes: int) -> None:
        if num_bytes > self.limit_bytes:
            raise OSError(errno.EFBIG, self._no_room(), str(self.root))
        entries = self._entries.all()
        total = num_bytes + sum(entry.num_bytes for entry in entries)
        for entry in entries:
            if total <= self.limit_bytes:
                break
            self._entries.remove(entry.key)
            total -= entry.num_bytes
        self._remove_abandoned()

    def _remove_abandoned(self) -> None:
        """Remove the incomplete files of a process that was killed."""
        for part in self._parts.iterdir():
            with suppress(FileNotFoundError):
                if part.stat().st_mtime < time.time() - _ABANDONED_SECONDS:
                    part.unlink()

    def _no_room(self) -> str:
        free = os.statvfs(self.root)
        return (
            f"a shard does not fit into the cache of {self.limit_bytes} bytes (the disk has "
            f"{free.f_bavail * free.f_frsize} free): raise SPOTRUN_DATA_CACHE_SIZE, set "
            "SPOTRUN_DATA_CACHE to a folder on a larger disk, or make smaller shards"
        )
