"""The interface of a place for checkpoints: a folder (`directory`), or a part of an object store.

Both raise OSError: FileNotFoundError if a file is known not to exist, and others if that cannot be
found out, which may be temporary. Once a file is written everybody sees it, whole or not at all.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from spotrun_trainer.checkpoint.format.names import Name

Told = Callable[[memoryview], object]

MARKER = "COMPLETE"
FIRST_MANIFEST = "rank-0.json"
"""Without it a marker does not count: it was written after the checkpoint had been deleted."""
SMALL_BYTES = 16 << 20
"""The most bytes that are read of a manifest; parsed, JSON takes up to 25 times its size."""


@dataclass(frozen=True)
class FileFacts:
    """A file of a checkpoint, as a listing shows it."""

    name: str
    bytes: int
    modified: float  # seconds since 1970


@dataclass(frozen=True)
class Stored:
    """The content of a place whose owner is billed for it."""

    bytes: int
    checkpoints: int  # number of complete checkpoints


class OpenFile(Protocol):
    """A file that is being read; by any thread, but one at a time."""

    @property
    def size(self) -> int:
        """Return its length in bytes."""

    def read_into(self, offset: int, target: memoryview) -> None:
        """Fill the target from that byte on; raises ValueError if the file is too short."""


class Note(Protocol):
    """A small file beside the checkpoints, which is replaced as a whole."""

    beat_seconds: float
    """The seconds between two replacements, which go on all day: each request costs money."""

    def read(self) -> bytes | None:
        """Return its content; None if it does not exist."""

    def create(self, content: bytes) -> bool:
        """Write it unless it exists; returns False if it does."""

    def replace(self, content: bytes) -> None:
        """Write it, or replace it."""

    def remove(self) -> None:
        """Remove it, if it exists."""


class Storage(Protocol):
    """The files of checkpoints, each in a folder of its name."""

    def where(self, name: Name | None = None, file: str = "") -> str:
        """Return the path or address of the place, of a checkpoint, or of a file in one."""

    def check(self) -> None:
        """Check that files can be made and removed; raises ValueError that says what to try."""

    def names(self) -> list[Name]:
        """All checkpoints, complete or not, oldest first; empty if there are none yet."""

    def files(self, name: Name) -> list[FileFacts]:
        """List the files of a checkpoint."""

    def stored(self) -> Stored | None:
        """Return the whole content of the place; None if it is not billed by content."""

    def make(self, name: Name) -> None:
        """Prepare to write a checkpoint, unless it exists in part."""

    def opened(
        self, name: Name, file: str, reads: Sequence[tuple[int, int]] = ()
    ) -> AbstractContextManager[OpenFile]:
        """Open a file for reading; `reads` are the ranges that will be read; default: all of it."""

    def begin_reading(self, name: Name, file: str, size: int, most_bytes: int) -> None:
        """Begin to fetch a file that will be read from its start, if it comes over a network.

        No more than `most_bytes` of it are held in memory.
        """

    def end_begun(self) -> int:
        """Stop fetches that nobody read; return the bytes that were fetched when first read."""

    def read(self, name: Name, file: str) -> bytes:
        """A small file; raises OSError if it does not exist, or is not small."""

    def write_data(self, name: Name, file: str, content: Sequence[memoryview], told: Told) -> None:
        """Write a large file durably; `told` gets each piece of it, in order, during the write.

        If it fails, nothing of the file remains. A file from an earlier try is replaced.
        """

    def write(self, name: Name, file: str, content: bytes, rank: int) -> None:
        """Write a small file durably and atomically; no two ranks write it at the same time."""

    def write_once(self, name: Name, file: str, content: bytes, rank: int) -> None:
        """Write a small file unless it exists: of several writers the first one wins."""

    def remove_file(self, name: Name, file: str) -> None:
        """Remove a file, if it exists."""

    def remove(self, name: Name) -> None:
        """Remove a checkpoint: its marker, its first manifest, and then the rest.

        So a partial checkpoint is never taken for a complete one, even if a rank writes the marker
        during the removal. Files that are not ours stay.
        """

    def note(self, file: str) -> Note:
        """Return a file beside the checkpoints."""


def pieces(content: Sequence[memoryview], size: int) -> Iterator[memoryview]:
    """Cut content into pieces of at most `size` bytes."""
    for one in content:
        for start in range(0, len(one), size):
            yield one[start : start + size]
