"""Checkpoints of torch.distributed.checkpoint, read range by range from the files' content.

A chunk in them is an archive as `torch.save` makes it. Its description is loaded without content,
by torch's reader for untrusted files, and its content is read from its place in the file.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.utils import _create_file_view
from typing_extensions import override

from spotrun_trainer.checkpoint.foreign.reading import inert_pickle
from spotrun_trainer.checkpoint.foreign.reading.file_ranges import (
    Extent,
    InFiles,
    file_in,
    is_size,
    read_small,
    shown,
)
from spotrun_trainer.checkpoint.format.manifest import MOST_DIMENSIONS
from spotrun_trainer.parallel.division import Box
from spotrun_trainer.state.flatten import DTYPES, Spec

INDEX = ".metadata"
INDEX_BYTES = 256 << 20
"""The most bytes that are read of an index: some million chunks."""


@dataclass(frozen=True)
class _Chunk(Extent):
    """A part of a tensor as an archive of its own, from the offset on."""

    bytes: int


class _InArchives(InFiles):
    """Tensors in chunks; the place of each chunk's content is found when it is read."""

    def __init__(self, specs: Mapping[str, Spec], chunks: Mapping[str, Sequence[_Chunk]]) -> None:
        super().__init__(specs, chunks)
        self._known: dict[_Chunk, Extent] = {}

    @override
    def extents(self, name: str, box: Box) -> Sequence[Extent]:
        """Return the content of the chunks that overlap a part."""
        return [self._content(name, one) for one in super().extents(name, box)]

    def _content(self, name: str, chunk: Extent) -> Extent:
        assert isinstance(chunk, _Chunk)
        if chunk not in self._known:
            spec = Spec(self.specs[name].dtype, chunk.box.shape)
            self._known[chunk] = _content(chunk, spec)
        return self._known[chunk]


def open_folder(folder: Path) -> InFiles:
    """Open a folder; raises ValueError if its index is not valid."""
    index = folder / INDEX
    content = read_small(index, INDEX_BYTES)
    try:
        described = inert_pickle.read(content)
        specs = dict(_specs(_entries(described, "state_dict_metadata")))
        places = dict(_places(folder, _entries(described, "storage_data")))
        chunks = {
            name: [_chunk(name, box, places) for box in boxes] for name, (_, boxes) in specs.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{index} is not the index of a checkpoint: {str(error)[:200]}") from error
    return _InArchives({name: spec for name, (spec, _) in specs.items()}, chunks)


def _entries(described: Any, key: str) -> Iterable[tuple[Any, Any]]:  # noqa: ANN401 - may be anything
    entries = described.state[key]
    if not isinstance(entries, dict):
        raise TypeError(f"its {key} is not a dict")
    return entries.items()


def _specs(entries: Iterable[tuple[Any, Any]]) -> Iterable[tuple[str, tuple[Spec, list[Box]]]]:
    for name, record in entries:
        if not record.what.endswith(".TensorStorageMetadata"):
            continue  # a plain value
        dtype = record.state["properties"].state[0].what.removeprefix("torch.")
        spec = Spec(dtype, _sizes(record.state["size"]))
        boxes = [
            Box(_sizes(one.state["offsets"]), _sizes(one.state["sizes"]))
            for one in record.state["chunks"]
        ]
        if type(name) is not str or not all(box.is_within(spec.shape) for box in boxes):
            raise ValueError(f"{shown(name)} has chunks outside of its shape")
        if dtype in DTYPES:  # no caller can ask for tensors of other types
            yield name, (spec, boxes)


def _places(
    folder: Path, entries: Iterable[tuple[Any, Any]]
) -> Iterable[tuple[tuple[str, tuple[int, ...]], tuple[Path, int, int]]]:
    for index, record in entries:
        if index.state.get("offset") is None:
            continue
        if record.state.get("transform_descriptors"):
            raise ValueError("its files are compressed, which is not supported")
        where = file_in(folder, record.state["relative_path"])
        if type(index.state["fqn"]) is not str:
            raise ValueError(f"{shown(index.state['fqn'])} is not a name")
        offset, length = _sizes_of([record.state["offset"], record.state["length"]])
        yield (index.state["fqn"], _sizes(index.state["offset"])), (where, offset, length)


def _chunk(
    name: str, box: Box, places: dict[tuple[str, tuple[int, ...]], tuple[Path, int, int]]
) -> _Chunk:
    if (name, box.offsets) not in places:
        raise ValueError(f"a chunk of {name[:80]!r} is in none of its files")
    file, offset, length = places[name, box.offsets]
    return _Chunk(box, file, offset, length)


def _sizes(record: Any) -> tuple[int, ...]:  # noqa: ANN401 - may be anything
    """Return the numbers in a torch.Size."""
    (sizes,) = record.arguments
    return _sizes_of(sizes)


def _sizes_of(sizes: Any) -> tuple[int, ...]:  # noqa: ANN401 - may be anything
    if not isinstance(sizes, (list, tuple)) or len(sizes) > MOST_DIMENSIONS:
        raise ValueError(f"{shown(sizes)} is no shape")
    if not all(is_size(one) for one in sizes):
        raise ValueError(f"{shown(sizes)} is no shape")
    return tuple(sizes)


def _content(chunk: _Chunk, spec: Spec) -> Extent:
    """Return where the content of a chunk is; raises ValueError if it belongs to another tensor."""
    if not chunk.file.is_file() or chunk.file.stat().st_size < chunk.offset + chunk.bytes:
        raise ValueError(f"{chunk.file} does not exist, or was cut off")
    with chunk.file.open("rb") as stream:
        try:
            view: Any = _create_file_view(stream, chunk.offset, chunk.bytes)
            tensor = torch.load(view, map_location="meta", weights_only=True)
            view.seek(0)
            archive: Any = torch._C.PyTorchFileReader(view)  # noqa: SLF001 - torch.load's own
            place, size = (archive.get_record_offset("data/0"), archive.get_record_size("data/0"))
        except Exception as error:  # an archive can make torch fail in any way
            why = str(error).partition("\n")[0][:120]
            raise ValueError(f"{chunk.file} cannot be read at {chunk.offset}: {why}") from error
    if not isinstance(tensor, Tensor) or not tensor.is_contiguous() or tensor.storage_offset():
        raise ValueError(f"{chunk.file} has no contiguous tensor at {chunk.offset}")
    needed = spec.numel * spec.itemsize
    if Spec.of(tensor) != spec or size < needed or place + needed > chunk.bytes:
        raise ValueError(
            f"{chunk.file} has a different tensor at {chunk.offset} than its index says"
        )
    return Extent(chunk.box, chunk.file, chunk.offset + place)
