"""Tensors whose elements lie in files, in row-major order, as a whole or in parts."""

import os
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from spotrun_trainer.checkpoint.format.reading.ranges import BUFFER_BYTES, read_range
from spotrun_trainer.checkpoint.format.reading.read_plan import Held, Source, plan_reads
from spotrun_trainer.checkpoint.places.directory import OpenDescriptor
from spotrun_trainer.parallel.division import Box
from spotrun_trainer.state.flatten import Spec

_MOST_BYTES = 2**60
_SHORT = reprlib.Repr()
_SHORT.maxstring = 80


@dataclass(frozen=True)
class Extent:
    """A part of a tensor, and where it begins in a file."""

    box: Box
    file: Path
    offset: int


class InFiles:
    """Tensors by name, and the file parts that contain them."""

    def __init__(self, specs: Mapping[str, Spec], extents: Mapping[str, Sequence[Extent]]) -> None:
        self._specs = specs
        self._extents = extents
        self._buffer = torch.empty(BUFFER_BYTES, dtype=torch.uint8)

    @property
    def specs(self) -> Mapping[str, Spec]:
        """The types and shapes of all tensors, in their order."""
        return self._specs

    def extents(self, name: str, box: Box) -> Sequence[Extent]:
        """Return the parts of a tensor that have elements in common with another part."""
        return [one for one in self._extents[name] if box.common(one.box).numel]

    def fill(self, name: str, box: Box, target: Tensor) -> None:
        """Read a part of a tensor, and only the bytes of each file that belong to it."""
        parts = self.extents(name, box)
        held = [
            Held(one.box, [Source(0, one.box.numel, number, one.offset)])
            for number, one in enumerate(parts)
        ]
        try:
            reads = plan_reads(box, held, target.element_size())
        except ValueError as error:
            raise ValueError(f"of {name[:80]!r} {error}") from error
        for read in reads:
            with opened(parts[read.rank].file) as descriptor, torch.no_grad():
                read_range(OpenDescriptor(descriptor), read, target, self._buffer)


@contextmanager
def opened(file: Path) -> Iterator[int]:
    """Open a regular file; errors about its content name the file."""
    # Non-blocking: opening a named pipe would wait for a writer.
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield descriptor
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    finally:
        os.close(descriptor)


def read_small(file: Path, most_bytes: int) -> bytes:
    """Return the content of a file; raises ValueError if it is larger than such a file can be."""
    if not file.is_file():
        raise ValueError(f"{file} does not exist, or is not a regular file")
    with file.open("rb") as stream:
        content = stream.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise ValueError(
            f"{file} has more than {most_bytes >> 20} MiB, which is too large for such a file"
        )
    return content


def file_in(folder: Path, name: object) -> Path:
    """Return a folder's file whose name was read; raises ValueError for one outside the folder."""
    if not isinstance(name, str) or name in {"", ".", ".."} or {"/", "\\", "\0"} & set(name):
        raise ValueError(f"{folder} names a file {shown(name)}, which is not in it")
    return folder / name


def shown(value: object) -> str:
    """Return a short text for a value that was read, because its whole text may be endless."""
    return _SHORT.repr(value)[:82]


def is_size(value: object) -> bool:
    """Whether a value that was read is a length, or a place in a file."""
    return type(value) is int and 0 <= value <= _MOST_BYTES
