"""Ranges of a remote file, fetched in parallel before they are asked for."""

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from typing_extensions import Buffer

from spotrun_trainer.process import threads

PIECE_BYTES = 8 << 20
"""A piece is large enough that the time to its first byte does not matter."""
GAP_BYTES = 1 << 20
"""The largest gap that is fetched too: that takes no longer than another request."""
WORKERS = 8
WINDOW = 16
"""The pieces in memory take at most 128 MiB; each is fetched while those before it are hashed."""

Fetch = Callable[[int, int], Buffer]


def cut(reads: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Return the pieces to fetch: without overlaps, in order, small gaps included."""
    start = stop = -1
    for one, other in sorted(reads):
        if start >= 0 and one <= stop + GAP_BYTES:
            stop = max(stop, other)
            continue
        yield from _cut_one(start, stop)
        start, stop = one, other
    yield from _cut_one(start, stop)


def _cut_one(start: int, stop: int) -> Iterator[tuple[int, int]]:
    for one in range(max(0, start), stop, PIECE_BYTES):
        yield one, min(one + PIECE_BYTES, stop)


@dataclass
class _Piece:
    content: memoryview | None = None
    error: BaseException | None = None


class ReadAhead:
    """Fetches the ranges that will be read, in their order, some pieces before the reader."""

    def __init__(self, fetch: Fetch, reads: Iterable[tuple[int, int]]) -> None:
        self._fetch = fetch
        self._bounds: Sequence[tuple[int, int]] = list(cut(reads))
        self._starts = [start for start, _ in self._bounds]
        self._changed = threading.Condition()  # guards what follows
        self._pieces = dict[int, _Piece]()  # that are fetched, or being fetched
        self._reading = 0  # pieces before it are not needed any more
        self._next = 0  # to be fetched
        self._window = WINDOW  # pieces in memory
        self._closing = False
        self._is_begun = False

    @property
    def fetched_bytes(self) -> int:
        """Return the number of bytes that are fetched."""
        with self._changed:
            pieces = list(self._pieces.values())
        return sum(len(one.content) for one in pieces if one.content is not None)

    def begin(self, most_bytes: int) -> None:
        """Begin to fetch before the first read, about `most_bytes`."""
        self._window = -(-most_bytes // PIECE_BYTES)
        self._begin(0)

    def read_into(self, offset: int, target: memoryview) -> None:
        """Fill the target; raises ValueError if the file ends before."""
        while target:
            content = self._content_at(offset, len(target))
            size = min(len(content), len(target))
            if not size:
                raise ValueError("it ended early")
            target[:size] = content[:size]
            target, offset = target[size:], offset + size

    def close(self) -> None:
        """Fetch no more."""
        with self._changed:
            self._closing = True
            self._pieces.clear()
            self._changed.notify_all()

    def _content_at(self, offset: int, size: int) -> memoryview:
        """Return what is there from an offset on, as far as its piece goes."""
        index = bisect_right(self._starts, offset) - 1
        if index < self._reading or offset >= self._bounds[index][1]:
            stop = offset + min(size, PIECE_BYTES)  # this read was not announced
            return memoryview(self._fetch(offset, stop)).cast("B")
        return self._piece(index)[offset - self._starts[index] :]

    def _piece(self, index: int) -> memoryview:
        if not self._is_begun:
            self._begin(index)
        with self._changed:
            for old in range(self._reading, index):
                self._pieces.pop(old, None)
            self._reading, self._next = index, max(self._next, index)
            self._window = max(self._window, WINDOW)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_there(index))
            piece = self._pieces[index]
        if piece.error is not None:
            raise piece.error
        assert piece.content is not None
        return piece.content

    def _is_there(self, index: int) -> bool:
        piece = self._pieces.get(index)
        return piece is not None and (piece.content is not None or piece.error is not None)

    def _begin(self, index: int) -> None:
        self._is_begun = True
        self._next = index
        for number in range(min(WORKERS, len(self._bounds) - index)):
            threads.start(self._run, name=f"fetch-{number}", end=self.close)

    def _run(self) -> None:
        while (index := self._take()) is not None:
            piece = _Piece()
            try:
                piece.content = memoryview(self._fetch(*self._bounds[index])).cast("B")
            except BaseException as error:
                piece.error = error
            with self._changed:
                if index in self._pieces:
                    self._pieces[index] = piece
                self._changed.notify_all()

    def _take(self) -> int | None:
        def is_near() -> bool:
            return self._next < min(self._reading + self._window, len(self._bounds))

        with self._changed:
            self._changed.wait_for(
                lambda: self._closing or is_near() or self._next >= len(self._bounds)
            )
            if self._closing or self._next >= len(self._bounds):
                return None
            index, self._next = self._next, self._next + 1
            self._pieces[index] = _Piece()
            return index
