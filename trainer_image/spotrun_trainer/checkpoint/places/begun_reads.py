"""Reads of files that begin before a reader opens them, and are handed over once."""

import threading
from collections.abc import Callable

from spotrun_trainer.store.read_ahead import ReadAhead


class BegunReads:
    """The reads that were begun, by path; any thread may call any of these."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reads = dict[str, tuple[int, ReadAhead]]()
        self._taken = set[str]()
        self._is_over = False
        self._bytes = 0

    @property
    def bytes(self) -> int:
        """Return how many bytes of the files had been fetched when they were first read."""
        with self._lock:
            return self._bytes

    def begin(self, path: str, size: int, make: Callable[[], ReadAhead], most_bytes: int) -> None:
        """Begin to read a file from its start, unless such a read has begun already."""
        with self._lock:
            if self._is_over or path in self._taken or path in self._reads:
                return
            ahead = make()
            self._reads[path] = (size, ahead)
        ahead.begin(most_bytes)

    def take(self, path: str, start: int, stop: int) -> ReadAhead | None:
        """Return the read of exactly this range, which belongs to the caller from now on."""
        with self._lock:
            self._taken.add(path)
            size, ahead = self._reads.pop(path, (0, None))
        if ahead is None:
            return None
        if (start, stop) != (0, size):
            ahead.close()
            return None
        with self._lock:
            self._bytes += ahead.fetched_bytes
        return ahead

    def end(self) -> None:
        """Stop the reads that nobody has taken, and begin no more."""
        with self._lock:
            self._is_over = True
            begun, self._reads = list(self._reads.values()), {}
        for _, ahead in begun:
            ahead.close()
