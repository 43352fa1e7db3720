"""Files compressed by Zstandard, in frames with an index: each part can be unpacked alone.

The index is the "seek table" of zstd's seekable format: a frame at the end that other readers skip.
It has the compressed and the uncompressed size of each frame. A file without an index is unpacked
once, from its beginning.
"""

import errno
import struct
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from mmap import mmap
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from spotrun_trainer.data.formats.local_files import TOO_LARGE, Form, LocalFiles, Source
from spotrun_trainer.data.places import Shard

FRAME_BYTES = 1 << 20
"""The tokens of a frame, before it is compressed; smaller ones compress less."""
LEVEL = 3

_SKIPPABLE, _SEEKABLE = 0x184D2A5E, 0x8F92EAB1
_FOOTER, _ENTRY, _ENTRY_WITH_CHECKSUM = struct.Struct("<IBI"), struct.Struct("<II"), 12
_HEADER = struct.Struct("<II")
_MOST_FRAMES = 1 << 27
_PIECE_BYTES = 1 << 14  # which unpack to at most 512 MiB


class Frame(NamedTuple):
    """A frame: its compressed and its uncompressed size."""

    packed: int
    whole: int


def write_frames(source: Iterator[bytes], target: BinaryIO) -> int:
    """Compress pieces, each into a frame, then write the index; returns the uncompressed size."""
    compressor = _zstandard().ZstdCompressor(level=LEVEL, write_content_size=True)
    frames = list[Frame]()
    for piece in source:
        packed = compressor.compress(piece)
        target.write(packed)
        frames.append(Frame(len(packed), len(piece)))
    table = b"".join(_ENTRY.pack(*frame) for frame in frames)
    table += _FOOTER.pack(len(frames), 0, _SEEKABLE)
    target.write(_HEADER.pack(_SKIPPABLE, len(table)) + table)
    return sum(frame.whole for frame in frames)


def frames_in(file: BinaryIO) -> list[Frame] | None:
    """Return the frames in the index of a file; None without an index."""
    size = file.seek(0, 2)
    if size < _FOOTER.size:
        return None
    file.seek(size - _FOOTER.size)
    count, flags, magic = _FOOTER.unpack(file.read(_FOOTER.size))
    if magic != _SEEKABLE or count > _MOST_FRAMES:
        return None
    width = _ENTRY_WITH_CHECKSUM if flags & 0x80 else _ENTRY.size
    length = count * width
    if size < length + _FOOTER.size + _HEADER.size:
        return None
    file.seek(size - length - _FOOTER.size)
    table = file.read(length)
    frames = [Frame(*_ENTRY.unpack_from(table, place)) for place in range(0, length, width)]
    # In concatenated files this is the index of the last one only.
    is_of_all = sum(one.packed for one in frames) + _HEADER.size + length + _FOOTER.size == size
    return frames if is_of_all else None


class FramedFile:
    """A compressed file in memory, or mapped, with an index: any part can be read."""

    def __init__(self, content: mmap | bytes, frames: list[Frame]) -> None:
        self._content = content
        self._packed = [0, *accumulate(frame.packed for frame in frames)]
        self._whole = [0, *accumulate(frame.whole for frame in frames)]
        self._last: tuple[int, bytes] = (-1, b"")

    @property
    def size(self) -> int:
        """Return the uncompressed size."""
        return self._whole[-1]

    def read(self, start: int, stop: int) -> bytes:
        """Return a part; only the frames that contain it are unpacked."""
        parts, stop = list[bytes](), min(stop, self.size)
        while start < stop:
            number = bisect_right(self._whole, start) - 1
            offset = start - self._whole[number]
            part = self._frame(number)[offset : offset + stop - start]
            parts.append(part)
            start += len(part)
        return b"".join(parts)

    def _frame(self, number: int) -> bytes:
        if self._last[0] != number:
            start, stop = self._packed[number : number + 2]
            whole = self._whole[number + 1] - self._whole[number]
            content = _content(self._content[start:stop], whole)
            if len(content) != whole:
                raise ValueError(f"the size of frame {number} differs from the index")
            self._last = (number, content)
        return self._last[1]


def unpack(source: Path, target: Path, most: int | None = None) -> None:
    """Unpack a whole file, with or without an index; raises OSError if it has more than `most`."""
    decompressor, is_amid_frame = _zstandard().ZstdDecompressor(), False
    with source.open("rb") as packed, target.open("xb") as whole:
        while piece := packed.read(_PIECE_BYTES):
            while piece:
                if not is_amid_frame:
                    frame = decompressor.decompressobj()
                whole.write(frame.decompress(piece))
                is_amid_frame, piece = not frame.eof, frame.unused_data
            if most is not None and whole.tell() > most:
                raise OSError(errno.EFBIG, TOO_LARGE)
    if is_amid_frame:
        raise _zstandard().ZstdError(
            "it ends in the middle of a frame, like a copy that was cut off"
        )


def _content(packed: bytes, whole: int) -> bytes:
    """Unpack a frame, which may not state its size, into at most its expected size."""
    found: bytes = b""
    zstandard = _zstandard()
    said = zstandard.frame_content_size(packed)
    if said in {-1, whole}:
        found = zstandard.ZstdDecompressor().decompress(packed, max_output_size=whole)
    return found


def _unpack(source: Source, target: Path) -> None:
    try:
        unpack(source.path(), target, source.most_bytes)
    except _zstandard().ZstdError as error:
        where = source.place.where(source.shard.name)
        raise ValueError(f"{where} is not a file that zstd has made: {error}") from error


UNPACKED = Form("unpacked by zstd 2", _unpack)


def unpacked_bytes(files: LocalFiles, shard: Shard, *, in_frames: bool) -> int:
    """Return the uncompressed size of a shard: by its index, or by unpacking it."""
    if in_frames or files.is_here(shard, None):
        with files.open(shard).file as file:
            if (frames := frames_in(file)) is not None:
                return sum(frame.whole for frame in frames)
    with files.open(shard, UNPACKED).file as file:
        return file.seek(0, 2)


def framed(files: LocalFiles, shard: Shard, where: str) -> FramedFile:
    """Open a compressed shard for reading frame by frame."""
    with files.open(shard).file as file:
        frames = frames_in(file)
    if frames is None:
        raise ValueError(
            f"{where} has no index of frames: leave out unpack=False, or compress it with `spotrun "
            "data prepare --zstd`, or another program that writes zstd's seekable format"
        )
    return FramedFile(files.open(shard).mapped(), frames)


def _zstandard() -> Any:  # noqa: ANN401 - a module that may not be installed
    try:
        import zstandard  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ValueError(
            "shards that end with .zst need the package zstandard: pip install 'spotrun[data]'"
        ) from error
    return zstandard
