"""Shards as files of this machine: fetched and unpacked once for all its processes."""

import errno
import mmap
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO

from typing_extensions import override

from spotrun_trainer.data.cache.node_cache import NodeCache
from spotrun_trainer.data.cache.settings import node_cache
from spotrun_trainer.data.places.shards import DataPlace, Shard
from spotrun_trainer.process import threads

TOO_LARGE = "unpacked, it is larger than the whole cache: raise SPOTRUN_DATA_CACHE_SIZE"
_REMEMBERED = 1024


@dataclass(frozen=True)
class Form:
    """Another form of a shard: unpacked, or the facts that a format needs."""

    name: str
    """The name identifies the content: if the code changes, the name changes too."""
    make: Callable[["Source", Path], object]
    """Writes it into a new file."""
    of: "Form | None" = None
    """The form that it is made from; None: the shard itself."""
    keeps_source: bool = False
    """Whether the shard itself is also read later."""


@dataclass(frozen=True)
class Source:
    """A shard that a form is made from; reading its path fetches it."""

    shard: Shard
    place: DataPlace
    path: Callable[[], Path]
    most_bytes: int
    """The most bytes that a form of it may have."""

    def check_fits(self, num_bytes: int) -> None:
        """Raise OSError if a form already has more bytes than it may have."""
        if num_bytes > self.most_bytes:
            raise OSError(errno.EFBIG, TOO_LARGE)


class OpenFile:
    """A file that stays readable after the cache removes it."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    @property
    def path(self) -> Path:
        """Return a path by which this process can open it again."""
        return Path(f"/proc/self/fd/{self.file.fileno()}")

    def mapped(self) -> mmap.mmap | bytes:
        """Map it into memory, read only, and close it."""
        with self.file as file:
            if not os.fstat(file.fileno()).st_size:
                return b""
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


class LocalFiles:
    """The shards of a place as files of this machine."""

    def __init__(self, place: DataPlace) -> None:
        self._place = place
        self._ahead = _Ahead()

    def is_here(self, shard: Shard, form: Form | None) -> bool:
        """Whether it is a local or mounted file, without a copy in the cache."""
        return form is None and self._place.path(shard) is not None

    def size(self, shard: Shard) -> int:
        """Return the size of a shard: of the file on this machine, or as the place lists it."""
        path = self._place.path(shard)
        if path is None:
            return shard.num_bytes
        return path.stat().st_size if path.is_file() else 0

    def open(self, shard: Shard, form: Form | None = None) -> OpenFile:
        """Open a shard, or a form of it; it is fetched and made if it is missing."""
        if form is None and (path := self._place.path(shard)) is not None:
            return OpenFile(path.open("rb"))
        cache = node_cache()
        if (file := cache.find(self._key(shard, form))) is not None:
            return OpenFile(file)
        with cache.making(self._key(shard, None)):
            return OpenFile(self._made(cache, shard, form))

    def expect(self, shard: Shard, form: Form | None) -> None:
        """Fetch and make it in the background, unless another process of the node does."""
        if not self.is_here(shard, form):
            key = self._key(shard, form)
            self._ahead.run(key, lambda: self._make_if_free(key, shard, form))

    def preload(self, shard: Shard, form: Form | None, most_bytes: int) -> int:
        """Fetch and make it, unless it exists, another process does it, or it is larger.

        Returns the bytes that were fetched.
        """
        if self.is_here(shard, form) or shard.num_bytes > most_bytes:
            return 0
        return shard.num_bytes if self._make_if_free(self._key(shard, form), shard, form) else 0

    def _make_if_free(self, key: str, shard: Shard, form: Form | None) -> bool:
        """Return whether this process has made it."""
        cache = node_cache()
        if (file := cache.find(key)) is not None:
            file.close()
            return False
        with cache.making_if_free(self._key(shard, None)) as is_free:
            if not is_free:
                return False
            if (file := cache.confirm(key)) is not None:
                file.close()
                return False
            self._made(cache, shard, form).close()
            return True

    def _made(self, cache: NodeCache, shard: Shard, form: Form | None) -> BinaryIO:
        """Return the file if it exists by now, or make it; one process of a node at a time."""
        key = self._key(shard, form)
        if (file := cache.find(key) or cache.confirm(key)) is not None:
            return file
        if form is None:
            return cache.make(
                key,
                lambda target: self._place.fetch(shard, target),
                digest=shard.sha256,
                num_bytes=shard.num_bytes,
            )
        opened = list[BinaryIO]()

        def source() -> Path:
            if form.of is None and (path := self._place.path(shard)) is not None:
                return path
            opened.append(self._made(cache, shard, form.of))
            return OpenFile(opened[0]).path

        try:
            made_from = Source(shard, self._place, source, cache.limit_bytes)
            return cache.make(key, lambda target: form.make(made_from, target))
        finally:
            for file in opened:
                file.close()
                if not form.keeps_source:
                    cache.discard(self._key(shard, form.of))

    def _key(self, shard: Shard, form: Form | None) -> str:
        return shard.key(self._place.where(), "" if form is None else form.name)


class _Ahead:
    """Runs requested work in one thread of its own; a fork of the process starts empty."""

    def __init__(self) -> None:
        self._owner = 0
        self._asked = OrderedDict[str, None]()
        self._queue = SimpleQueue[Callable[[], object] | None]()

    def run(self, key: str, do: Callable[[], object]) -> None:
        """Do it in the background, unless it was requested a short time ago."""
        if self._owner != os.getpid():
            self._begin()
        if key in self._asked:
            return
        self._asked[key] = None
        if len(self._asked) > _REMEMBERED:
            self._asked.popitem(last=False)
        self._queue.put(do)

    def _begin(self) -> None:
        self._owner = os.getpid()
        self._asked.clear()
        queue = self._queue = SimpleQueue()
        threads.start(lambda: _work(queue), name="data-ahead", end=lambda: queue.put(None))

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return _Ahead, ()  # a spawned process starts empty


def _work(queue: "SimpleQueue[Callable[[], object] | None]") -> None:
    while (do := queue.get()) is not None:
        try:
            do()
        except (OSError, ValueError):
            threading.Event().wait(1.0)  # a reader will ask again, and get the error
