"""Two slots in memory: one holds the newest whole state, the other is free to be written."""

import mmap
import os
import struct
import weakref
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

HEADER_BYTES = 4096  # a page, so that what follows is aligned for any type
_HEADER = struct.Struct("<8sQQQ")
_SUM = struct.Struct("<I")
_MAGIC = b"spotrun1"


class Header(NamedTuple):
    """The header of a slot that is whole."""

    number: int  # of the write: the higher one is newer
    step: int
    size: int


class Slot:
    """One of the files; only a single process at a time may write to it."""

    def __init__(self, file: Path) -> None:
        self._file = os.open(file, os.O_RDWR)
        # Not closed at the end of the process: a thread may still be writing.
        weakref.finalize(self, os.close, self._file).atexit = False
        self._memory: mmap.mmap | None = None

    def header(self) -> Header | None:
        """Return the header; None while the slot is empty, or was left half-written."""
        raw = os.pread(self._file, _HEADER.size + _SUM.size, 0)
        if len(raw) < _HEADER.size + _SUM.size:
            return None
        body, (checksum,) = raw[: _HEADER.size], _SUM.unpack(raw[_HEADER.size :])
        magic, *numbers = _HEADER.unpack(body)
        if magic != _MAGIC or checksum != zlib.crc32(body):
            return None
        return Header(*numbers)

    @property
    def reserved(self) -> int:
        """The bytes that it takes already."""
        return os.fstat(self._file).st_size

    def open(self, size: int) -> Tensor:
        """Clear the header, and return room for `size` bytes; raises OSError if there is none."""
        if self.reserved:
            os.pwrite(self._file, bytes(_HEADER.size + _SUM.size), 0)
        if self.reserved < HEADER_BYTES + size:
            self._memory = None
            # Reserved at once: a page that is missing later would end the process without a
            # message.
            os.posix_fallocate(self._file, 0, HEADER_BYTES + size)
        return self._content(size)

    def close(self, header: Header) -> None:
        """Write the header: from here on the slot is whole."""
        body = _HEADER.pack(_MAGIC, *header)
        os.pwrite(self._file, body + _SUM.pack(zlib.crc32(body)), 0)

    def content(self) -> Tensor:
        """Return the bytes of a slot that is whole; they must not be changed."""
        header = self.header()
        assert header is not None, "it is whole"
        return self._content(header.size)

    def _content(self, size: int) -> Tensor:
        if self._memory is None or len(self._memory) < HEADER_BYTES + size:
            self._memory = mmap.mmap(self._file, self.reserved)
        whole = torch.frombuffer(self._memory, dtype=torch.uint8)
        return whole[HEADER_BYTES : HEADER_BYTES + size]


class Slots:
    """The two slots of a worker."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._slots = [Slot(file) for file in files]

    def newest(self) -> tuple[Header, Slot] | None:
        """Return the newest state that is whole."""
        headers = [(slot.header(), slot) for slot in self._slots]
        whole = [(header, slot) for header, slot in headers if header is not None]
        return max(whole, key=lambda one: one[0].number, default=None)

    def missing(self, size: int) -> int:
        """Return the bytes that two states of `size` need beyond what is reserved."""
        return sum(max(HEADER_BYTES + size - slot.reserved, 0) for slot in self._slots)

    def begin(self, size: int) -> "Writing":
        """Begin to overwrite the older slot."""
        newest = self.newest()
        number = 1 if newest is None else newest[0].number + 1
        slot = next(one for one in self._slots if newest is None or one is not newest[1])
        return Writing(slot, number, size)


class Writing:
    """A state that is being written; until `finish` the slot counts as empty."""

    def __init__(self, slot: Slot, number: int, size: int) -> None:
        self._slot = slot
        self._number = number
        self._size = size
        self.memory = slot.open(size)

    def finish(self, step: int) -> None:
        """Declare the state whole."""
        self._slot.close(Header(self._number, step, self._size))
