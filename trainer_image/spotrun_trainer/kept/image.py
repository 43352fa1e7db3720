"""A state as one run of bytes, and back: a description's length, the description, the tensors.

The description is JSON: each tensor's type, shape and place, and all values that are no tensors.
"""

import ctypes
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from spotrun_trainer.state.flatten import DTYPES, Flat, Layout, Spec
from spotrun_trainer.state.tracked import Tracked

_ALIGNED = 64  # bytes; every type's size divides it
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class _Place:
    spec: Spec
    offset: int  # from the first tensor's first byte


class Writer:
    """Writes the state of what is tracked; it remembers the places of the tensors."""

    def __init__(self, tracked: Tracked) -> None:
        self._tracked = tracked
        self._layout: Layout | None = None
        self._offsets: dict[str, int] = {}
        self._bytes = 0
        self._table = ""  # JSON, because it stays the same from step to step

    def image(self, extra: Mapping[str, Any]) -> "Image":
        """Describe the state as it is now, together with other values."""
        flat = self._tracked.flatten()
        if flat.layout is not self._layout:
            self._place(flat.layout)
        values, others = json.dumps(flat.values), json.dumps(dict(extra))
        description = f'{{"tensors": {self._table}, "values": {values}, "extra": {others}}}'
        return Image(description.encode(), flat, self._offsets, self._bytes)

    def _place(self, layout: Layout) -> None:
        self._layout, self._bytes, self._offsets = layout, 0, {}
        for name, spec in layout.specs.items():
            self._offsets[name] = self._bytes
            self._bytes += _aligned(spec.numel * spec.itemsize)
        specs = dict(layout.specs) | {one: layout.specs[of] for one, of in layout.aliases.items()}
        table = {
            name: [spec.dtype, spec.shape, self._offsets[layout.aliases.get(name, name)]]
            for name, spec in specs.items()
        }
        self._table = json.dumps(table)


@dataclass(frozen=True)
class Image:
    """A state that is about to be written."""

    description: bytes
    flat: Flat
    offsets: Mapping[str, int]
    tensor_bytes: int

    @property
    def size(self) -> int:
        """The bytes that it takes."""
        return _aligned(_LENGTH.size + len(self.description)) + self.tensor_bytes

    def to_bytes(self) -> Tensor:
        """Return a copy of it in memory of its own."""
        memory = torch.empty(self.size, dtype=torch.uint8)
        self.write(memory)
        return memory

    def write(self, memory: Tensor) -> None:
        """Copy it into memory of its size; the state must not change meanwhile."""
        head = _LENGTH.pack(len(self.description)) + self.description
        ctypes.memmove(memory.data_ptr(), head, len(head))
        tensors = memory[_aligned(len(head)) :]
        for name, offset in self.offsets.items():
            _copy(self.flat.tensors[name].detach(), tensors[offset:])


def load(memory: Tensor, tracked: Tracked) -> dict[str, Any]:
    """Load a state into what is tracked; return the values beside it.

    Raises ValueError if it does not fit, as when the script has changed.
    """
    (length,) = _LENGTH.unpack(bytes(memory[: _LENGTH.size].tolist()))
    content = json.loads(ctypes.string_at(memory.data_ptr() + _LENGTH.size, length))
    tensors = memory[_aligned(_LENGTH.size + length) :]
    places = {
        name: _Place(Spec(dtype, tuple(shape)), offset)
        for name, (dtype, shape, offset) in content["tensors"].items()
    }
    specs = {name: place.spec for name, place in places.items()}
    landing = tracked.landing(specs, content["values"])
    for name, target in landing.tensors.items():
        source = _elements(tensors[places[name].offset :], places[name].spec)
        target.detach().copy_(source)
    tracked.load(landing)
    extra: dict[str, Any] = content["extra"]
    return extra


def _copy(source: Tensor, room: Tensor) -> None:
    if source.device.type == "cpu" and source.is_contiguous() and not _is_lazy(source):
        # In this thread alone: torch's own threads would spin and disturb the training.
        ctypes.memmove(room.data_ptr(), source.data_ptr(), source.nbytes)
    else:
        _elements(room, Spec.of(source)).copy_(source)


def _is_lazy(tensor: Tensor) -> bool:
    """Whether its bytes are not its values: conjugation and signs are applied when it is read."""
    return tensor.is_conj() or tensor.is_neg()


def _elements(memory: Tensor, spec: Spec) -> Tensor:
    run = memory[: spec.numel * spec.itemsize].view(DTYPES[spec.dtype])
    return run.view(spec.shape)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED
