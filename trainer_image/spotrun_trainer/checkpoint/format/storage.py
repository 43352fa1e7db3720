"""The face of what holds checkpoints: a folder (`directory`), or a part of an object store.

Errors of either are OSError: FileNotFoundError where a file is known not to be there, and others
where that cannot be known, which may pass. A file is seen by everybody once it is written, whole
or not at all.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from spotrun_trainer.checkpoint.format.names import Name

Told = Callable[[memoryview], object]

MARKER = "COMPLETE"
FIRST_MANIFEST = "rank-0.json"
"""Without it a marker counts for nothing: it was written when the checkpoint had been deleted."""
SMALL_BYTES = 16 << 20
"""The most that is read of a manifest; parsed, JSON takes up to 25 times its size."""


@dataclass(frozen=True)
class FileFacts:
    """A file of a checkpoint, as a listing has it."""

    name: str
    bytes: int
    modified: float  # seconds since 1970


@dataclass(frozen=True)
class Stored:
    """The content of a place that somebody charges for."""

    bytes: int
    checkpoints: int  # that are complete


class OpenFile(Protocol):
    """A file that is being read; any thread may, one at a time."""

    @property
    def size(self) -> int:
        """Return its length in bytes."""

    def read_into(self, offset: int, target: memoryview) -> None:
        """Fill the target from that byte on; raises ValueError if the file ends before."""


class Note(Protocol):
    """A small file beside the checkpoints, which is replaced as a whole."""

    beat_seconds: float
    """The seconds between two replacements, all day: a request to a store costs money."""

    def read(self) -> bytes | None:
        """Return its content; None without one."""

    def create(self, content: bytes) -> bool:
        """Write it unless it exists; returns False if it does."""

    def replace(self, content: bytes) -> None:
        """Write it, whether it exists or not."""

    def remove(self) -> None:
        """Remove it, if it is there."""


class Storage(Protocol):
    """The files of checkpoints, each in a folder of its name."""

    def where(self, name: Name | None = None, file: str = "") -> str:
        """Return the path or address of it all, of a checkpoint, or of a file of it."""

    def check(self) -> None:
        """See that files can be made and removed; raises ValueError with what to try."""

    def names(self) -> list[Name]:
        """All checkpoints, complete or not, oldest first; none if nothing is there yet."""

    def files(self, name: Name) -> list[FileFacts]:
        """List the files of a checkpoint."""

    def stored(self) -> Stored | None:
        """Return what is there in all; None where no bill says what it costs."""

    def make(self, name: Name) -> None:
        """Prepare to write a checkpoint, unless some of it is there."""

    def opened(
        self, name: Name, file: str, reads: Sequence[tuple[int, int]] = ()
    ) -> AbstractContextManager[OpenFile]:
        """Open a file to be read; `reads` are the ranges that will be, else all of it."""

    def begin_reading(self, name: Name, file: str, size: int, most_bytes: int) -> None:
        """Begin to fetch a file that will be read from its start, where a network is between.

        No more than `most_bytes` of it are held in memory.
        """

    def end_begun(self) -> int:
        """Give up what was begun and not read; return the bytes that were there when asked for."""

    def read(self, name: Name, file: str) -> bytes:
        """A small file; raises OSError if it is not there, or not small."""

    def write_data(self, name: Name, file: str, content: Sequence[memoryview], told: Told) -> None:
        """Write a large file durably; `told` is given each piece of it, in order, on the way.

        If it fails nothing is left of it. One that an earlier try left is replaced.
        """

    def write(self, name: Name, file: str, content: bytes, rank: int) -> None:
        """Write a small file durably and atomically; no two ranks write it at a time."""

    def write_once(self, name: Name, file: str, content: bytes, rank: int) -> None:
        """Write a small file unless it exists: of several writers the first one wins."""

    def remove_file(self, name: Name, file: str) -> None:
        """Remove a file, if it is there."""

    def remove(self, name: Name) -> None:
        """Remove a checkpoint: its marker, its first manifest, and then what is left.

        So a partial one is never taken for a complete one, not even if somebody marks it amid this.
        Files that are not ours stay.
        """

    def note(self, file: str) -> Note:
        """Return a file beside the checkpoints."""


def pieces(content: Sequence[memoryview], size: int) -> Iterator[memoryview]:
    """Cut content into pieces of at most so many bytes."""
    for one in content:
        for start in range(0, len(one), size):
            yield one[start : start + size]
