"""A file as `torch.save` writes it: a dict of tensors, or a dict that contains such dicts by name.

Nothing but tensors and plain values is unpickled (`weights_only`). The file is mapped, so parts
that are not read take no memory.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from spotrun_trainer.parallel.division import Box
from spotrun_trainer.state.flatten import DTYPES, MOST_DEPTH, Spec


class InMemory:
    """Tensors that are in memory, or mapped."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = tensors
        self._specs = {name: Spec.of(one) for name, one in tensors.items()}

    @property
    def specs(self) -> Mapping[str, Spec]:
        """The types and shapes of all tensors, in their order."""
        return self._specs

    def fill(self, name: str, box: Box, target: Tensor) -> None:
        """Copy a part of a tensor."""
        part = self._tensors[name]
        for dim, (offset, size) in enumerate(zip(box.offsets, box.shape, strict=True)):
            part = part.narrow(dim, offset, size)
        with torch.no_grad():
            target.copy_(part)


def open_file(file: Path) -> InMemory:
    """Open a file; tensors in dicts in it are named by their keys, with dots between."""
    if not file.is_file():
        raise ValueError(f"{file} does not exist, or is not a regular file")
    try:
        content = torch.load(file, map_location="cpu", mmap=True, weights_only=True)
    except Exception as error:  # a file can make torch fail in any way
        why = str(error).partition("\n")[0][:120]
        raise ValueError(f"{file} is not a file of weights made by torch.save: {why}") from error
    return InMemory(dict(_tensors(content, "", 0)))


def _tensors(content: object, path: str, depth: int) -> Iterator[tuple[str, Tensor]]:
    if isinstance(content, Tensor):
        if content.dtype in DTYPES.values() and content.layout is torch.strided:
            yield path, content.detach()
    elif isinstance(content, Mapping) and depth < MOST_DEPTH:
        for key, one in content.items():
            yield from _tensors(one, f"{path}.{key}" if path else str(key), depth + 1)
