"""Reading a checkpoint into the tensors of a training, of whatever size it was saved by.

Bytes are read straight into the tensors and hashed there, so that no memory is needed beside them.
(Not mapped: a file that is cut off under a mapping kills the process.) The headers of the data
files are never parsed; where slices lie follows from the manifests, and lengths and hashes are
compared before anything is used.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from spotrun_trainer.checkpoint.errors import DamagedCheckpointError
from spotrun_trainer.checkpoint.format.completion import find_marker
from spotrun_trainer.checkpoint.format.data_files import CHUNK_BYTES, Stream, blaming, opened
from spotrun_trainer.checkpoint.format.directory import MARKER, Place
from spotrun_trainer.checkpoint.format.manifest import (
    Content,
    Manifest,
    data_file,
    manifest_file,
    read_manifest,
    sha256_of,
)
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.placing import put
from spotrun_trainer.checkpoint.format.ranges import SavedPart, read_ranges, verify
from spotrun_trainer.checkpoint.format.shard_plan import Slice
from spotrun_trainer.checkpoint.host_memory import bytes_of
from spotrun_trainer.parallel.division import marked_anew
from spotrun_trainer.state.flatten import Flat, Spec
from spotrun_trainer.state.tracked import Tracked


@dataclass(frozen=True)
class Reader:
    """The process that reads: its part of the model, and its number among all that read."""

    shard: int = 0
    shards: int = 1
    rank: int = 0
    size: int = 1


ALONE = Reader()


def load(place: Place, name: Name, tracked: Tracked, reader: Reader = ALONE) -> dict[str, Any]:
    """Load a checkpoint, or this process's part of it; return the extra values saved with it.

    Raises DamagedCheckpointError if it is not what was written, and ValueError if it does not fit
    what is tracked.
    """
    manifests = _manifests(place, name)
    num_parts = _num_parts(place, name, manifests)
    own = _part(place, name, manifests, reader.shard % num_parts)
    with _fitting(name):
        here = tracked.divisions(own.shapes)
        is_alike = num_parts == reader.shards and own.is_divided_as(here)
        if not is_alike:
            _check_is_whole(own, num_parts, tracked, reader.shards)
        flat = tracked.landing(own.specs_for(here), marked_anew(own.content.values, here))
    if is_alike:
        _read_files(place, name, own, flat)
    else:
        saved = [_part(place, name, manifests, part) for part in _others_later(reader, num_parts)]
        verify(place, name, manifests[reader.rank :: reader.size])
        read_ranges(place, name, saved, flat, here)
    with _fitting(name):
        tracked.load(flat)
    return dict(own.content.extra)


def _others_later(reader: Reader, num_parts: int) -> list[int]:
    """Return the saved parts in an order that differs: some tensors are whole in all of them."""
    return [(reader.shard + part) % num_parts for part in range(num_parts)]


@contextmanager
def _fitting(name: Name) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{name} cannot be loaded: {error}") from error


def _read_files(place: Place, name: Name, part: SavedPart, flat: Flat) -> None:
    with torch.no_grad():
        for manifest in part.manifests:
            _read_data(place, name, manifest, flat)
        for alias, shared in part.content.aliases.items():
            _copy_unless_shared(flat.tensors[alias], flat.tensors[shared])


def _manifests(place: Place, name: Name) -> list[Manifest]:
    with blaming(place, name, MARKER):
        marker = find_marker(place, name)
    if marker is None:
        raise DamagedCheckpointError(
            f"{place.path(name, MARKER)} is not there: {name} was never completed"
        )
    manifests = []
    for rank, expected in enumerate(marker.manifests):
        with blaming(place, name, manifest_file(rank)):
            text = place.read(name, manifest_file(rank))
            if sha256_of(text) != expected:
                raise ValueError("it is not the one that was completed (its hash differs)")
            manifest = read_manifest(text)
            if (manifest.rank, manifest.size) != (rank, len(marker.manifests)):
                raise ValueError(f"it is rank {manifest.rank}'s of {manifest.size}")
            manifests.append(manifest)
    return manifests


def _num_parts(place: Place, name: Name, manifests: Sequence[Manifest]) -> int:
    """Return the number of processes that held a copy of the model together."""
    num_parts = manifests[0].shards
    for manifest in manifests:
        with blaming(place, name, manifest_file(manifest.rank)):
            if manifest.shards != num_parts or not num_parts or len(manifests) % num_parts:
                raise ValueError(
                    f"{manifest.shards} of {len(manifests)} ranks hold a copy of the model, by it"
                )
    return num_parts


def _check_is_whole(own: SavedPart, num_parts: int, tracked: Tracked, shards: int) -> None:
    """Raise ValueError if parts are not known to make up whole tensors, there or here."""
    is_known_there = num_parts == 1 or own.divisions
    is_known_here = shards == 1 or tracked.is_divided
    if not (is_known_there and is_known_here):
        raise ValueError(
            f"there {num_parts} processes hold a copy of the model together, here {shards}; go on "
            "with as many (Run(shards=...)), or let torch divide the model (Run(parallel=...))"
        )


def _part(place: Place, name: Name, manifests: Sequence[Manifest], part: int) -> SavedPart:
    """Return a part of the model as it was saved, once its slices are known to cover it."""
    num_parts = manifests[0].shards
    of_part = manifests[part::num_parts]
    content = _content(place, name, of_part)
    with blaming(place, name, manifest_file(of_part[0].rank)):
        return SavedPart.of(of_part, content, part, num_parts)


def _content(place: Place, name: Name, manifests: Sequence[Manifest]) -> Content:
    """Return the content by the first rank's manifest, once the slices are known to cover it."""
    with blaming(place, name, manifest_file(manifests[0].rank)):
        content = manifests[0].content
        if content is None:
            raise ValueError("it describes no tensors")
        _check_coverage(content.layout, manifests)
    for manifest in manifests:
        with blaming(place, name, data_file(manifest.rank)):
            described = manifest.header_bytes + sum(
                content.layout[one.tensor].itemsize * one.numel for one in manifest.slices
            )
            with opened(place, name, manifest) as descriptor:
                length = os.fstat(descriptor).st_size
            if not length == described == manifest.file_bytes:
                raise ValueError(
                    f"it has {length} bytes, where {manifest.file_bytes} were written and its "
                    f"slices take {described}"
                )
    return content


def _check_coverage(layout: Mapping[str, Spec], manifests: Sequence[Manifest]) -> None:
    slices = sorted(
        (one.tensor, one.start, one.stop) for manifest in manifests for one in manifest.slices
    )
    reached = dict.fromkeys(layout, 0)
    for tensor, start, stop in slices:
        if reached.get(tensor) != start:
            raise ValueError(f"the slices of {tensor[:80]!r} leave a hole or overlap at {start}")
        reached[tensor] = stop
    for tensor, stop in reached.items():
        if stop != layout[tensor].numel:
            raise ValueError(f"of {tensor[:80]!r} there are {stop} elements")


def _read_data(place: Place, name: Name, manifest: Manifest, flat: Flat) -> None:
    with (
        blaming(place, name, data_file(manifest.rank)),
        opened(place, name, manifest) as descriptor,
    ):
        stream = Stream(descriptor)
        stream.skip(manifest.header_bytes)
        for one in manifest.slices:
            _fill(flat.tensors[one.tensor], one, stream)
        if stream.hexdigest() != manifest.sha256:
            raise ValueError("its content is not what was written (its hash differs)")


def _fill(tensor: Tensor, one: Slice, stream: Stream) -> None:
    if tensor.is_contiguous() and tensor.device.type == "cpu":
        stream.into(bytes_of(tensor.view(-1)[one.start : one.stop]))
        return
    step = CHUNK_BYTES // tensor.element_size()
    for start in range(one.start, one.stop, step):
        chunk = torch.empty(min(step, one.stop - start), dtype=tensor.dtype)
        stream.into(bytes_of(chunk))
        put(tensor, start, chunk[None])


def _copy_unless_shared(tensor: Tensor, source: Tensor) -> None:
    if tensor.data_ptr() != source.data_ptr():
        tensor.copy_(source)
