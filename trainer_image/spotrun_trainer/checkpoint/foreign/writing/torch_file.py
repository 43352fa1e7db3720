"""A file as `torch.save` writes it, made without the whole state in memory.

torch writes it from tensors without content, and leaves room for the content (`skip_data`). We fill
the room piece by piece. We do not write the archive's checksums, which torch does not compare, so
`unzip` calls the file damaged.
"""

import copy
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.serialization import skip_data

from spotrun_trainer.checkpoint.foreign.chosen import Chosen, tensors_in
from spotrun_trainer.checkpoint.foreign.source import PIECE_BYTES, contents


def write(path: Path, chosen: Chosen, told: Callable[[int], object]) -> None:
    """Write the state: it is read by `torch.load(path, weights_only=True)`."""
    with skip_data(materialize_fake_tensors=True):
        torch.save(_as_on_host(chosen.state), path)
    places = _places(path, chosen)
    buffer = torch.empty(PIECE_BYTES, dtype=torch.uint8)
    with path.open("r+b", buffering=0) as stream:
        for tensor_path, place in places.items():
            for piece in contents(chosen.saved, tensor_path, buffer):
                _write_at(stream.fileno(), piece, place)
                place += len(piece)  # noqa: PLW2901 - the next piece follows it
                told(len(piece))


def _as_on_host(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state whose tensors look to torch like host tensors; they have no content yet."""
    with FakeTensorMode():
        tensors = {id(one): torch.empty(one.shape, dtype=one.dtype) for one in tensors_in(state)}
    return copy.deepcopy(state, tensors)


def _places(path: Path, chosen: Chosen) -> dict[str, int]:
    """Return the place of each tensor's content in the file, by the tensor's path."""
    # torch numbers storages in the order in which it meets them.
    numbers = dict[str, int]()
    for tensor in tensors_in(chosen.state):
        numbers.setdefault(chosen.path(tensor), len(numbers))
    archive: Any = torch._C.PyTorchFileReader(str(path))  # noqa: SLF001 - torch.load's own
    offsets = {name: archive.get_record_offset(f"data/{at}") for name, at in numbers.items()}
    size = path.stat().st_size
    for name, offset in offsets.items():
        spec = chosen.spec(name)
        assert offset + spec.numel * spec.itemsize <= size, "room was left for each tensor"
    return offsets


def _write_at(descriptor: int, content: memoryview, place: int) -> None:
    while content:
        count = os.pwrite(descriptor, content, place)
        content, place = content[count:], place + count
