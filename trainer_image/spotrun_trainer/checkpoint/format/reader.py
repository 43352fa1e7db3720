"""Reading a checkpoint into the tensors of a training, of whatever size it was saved by.

Bytes are read straight into the tensors and hashed there, so that no memory is needed beside them.
(Not mapped: a file that is cut off under a mapping kills the process.) The headers of the data
files are never parsed; where slices lie follows from the manifests, and lengths and hashes are
compared before anything is used.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from spotrun_trainer.checkpoint.errors import DamagedCheckpointError, UnreadableCheckpointError
from spotrun_trainer.checkpoint.format.completion import find_marker
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
from spotrun_trainer.checkpoint.format.shard_plan import Slice
from spotrun_trainer.checkpoint.host_memory import bytes_of
from spotrun_trainer.checkpoint.storage_retries import is_lasting, reading
from spotrun_trainer.state.flatten import Flat, Spec
from spotrun_trainer.state.tracked import Tracked

CHUNK_BYTES = 4 << 20


def load(
    place: Place, name: Name, tracked: Tracked, shard: int = 0, shards: int = 1
) -> dict[str, Any]:
    """Load part `shard` of a checkpoint's `shards` parts; return the extra values saved with it.

    Raises DamagedCheckpointError if it is not what was written, and ValueError if it does not fit
    what is tracked.
    """
    manifests = _of_part(name, _manifests(place, name), shard, shards)
    content = _content(place, name, manifests)
    specs = {**content.layout, **{one: content.layout[of] for one, of in content.aliases.items()}}
    try:
        flat = tracked.landing(specs, content.values)
    except ValueError as error:
        raise ValueError(f"{name} cannot be loaded: {error}") from error
    with torch.no_grad():
        for manifest in manifests:
            _read_data(place, name, manifest, flat)
        for alias, shared in content.aliases.items():
            _copy_unless_shared(flat.tensors[alias], flat.tensors[shared])
    try:
        tracked.load(flat)
    except ValueError as error:
        raise ValueError(f"{name} cannot be loaded: {error}") from error
    return dict(content.extra)


def _manifests(place: Place, name: Name) -> list[Manifest]:
    with _blaming(place, name, MARKER):
        marker = find_marker(place, name)
    if marker is None:
        raise DamagedCheckpointError(
            f"{place.path(name, MARKER)} is not there: {name} was never completed"
        )
    manifests = []
    for rank, expected in enumerate(marker.manifests):
        with _blaming(place, name, manifest_file(rank)):
            text = place.read(name, manifest_file(rank))
            if sha256_of(text) != expected:
                raise ValueError("it is not the one that was completed (its hash differs)")
            manifest = read_manifest(text)
            if (manifest.rank, manifest.size) != (rank, len(marker.manifests)):
                raise ValueError(f"it is rank {manifest.rank}'s of {manifest.size}")
            manifests.append(manifest)
    return manifests


def _of_part(
    name: Name, manifests: Sequence[Manifest], shard: int, shards: int
) -> Sequence[Manifest]:
    saved = {manifest.shards for manifest in manifests}
    if saved != {shards} or len(manifests) % shards:
        there = " or ".join(map(str, sorted(saved)))
        raise ValueError(
            f"{name} cannot be loaded: there {there} processes hold a copy of the model together, "
            f"here {shards}; go on with as many (Run(shards=...))"
        )
    return manifests[shard::shards]


def _content(place: Place, name: Name, manifests: Sequence[Manifest]) -> Content:
    """Return the content by the first rank's manifest, once the slices are known to cover it."""
    with _blaming(place, name, manifest_file(manifests[0].rank)):
        content = manifests[0].content
        if content is None:
            raise ValueError("it describes no tensors")
        _check_coverage(content.layout, manifests)
    for manifest in manifests:
        with _blaming(place, name, data_file(manifest.rank)):
            described = manifest.header_bytes + sum(
                content.layout[one.tensor].itemsize * one.numel for one in manifest.slices
            )
            with _opened(place, name, manifest) as descriptor:
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
        _blaming(place, name, data_file(manifest.rank)),
        _opened(place, name, manifest) as descriptor,
    ):
        stream = _Stream(descriptor)
        stream.skip(manifest.header_bytes)
        for one in manifest.slices:
            _fill(flat.tensors[one.tensor], one, stream)
        if stream.hexdigest() != manifest.sha256:
            raise ValueError("its content is not what was written (its hash differs)")


class _Stream:
    """A file read from its start, hashed as it goes."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._digest = hashlib.sha256()

    def skip(self, size: int) -> None:
        chunk = bytearray(min(size, CHUNK_BYTES))
        for start in range(0, size, CHUNK_BYTES):
            self.into(memoryview(chunk)[: size - start])

    def into(self, target: memoryview) -> None:
        for start in range(0, len(target), CHUNK_BYTES):
            chunk = left = target[start : start + CHUNK_BYTES]
            while left:
                if not (count := os.readv(self._descriptor, [left])):
                    raise ValueError("it ended early")
                left = left[count:]
            self._digest.update(chunk)

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


def _fill(tensor: Tensor, one: Slice, stream: _Stream) -> None:
    if tensor.is_contiguous() and tensor.device.type == "cpu":
        stream.into(bytes_of(tensor.view(-1)[one.start : one.stop]))
        return
    step = CHUNK_BYTES // tensor.element_size()
    for start in range(one.start, one.stop, step):
        chunk = torch.empty(min(step, one.stop - start), dtype=tensor.dtype)
        stream.into(bytes_of(chunk))
        _put(tensor, start, chunk)


def _put(tensor: Tensor, start: int, chunk: Tensor) -> None:
    """Set a run of elements in row-major order, whatever the order in memory."""
    stop = start + chunk.numel()
    if tensor.is_contiguous():
        tensor.view(-1)[start:stop] = chunk
        return
    if tensor.element_size() == 1:  # not all operations know the types of 8 bits
        tensor, chunk = tensor.view(torch.uint8), chunk.view(torch.uint8)
    places = torch.unravel_index(torch.arange(start, stop), tensor.shape)
    tensor[tuple(one.to(tensor.device) for one in places)] = chunk.to(tensor.device)


def _copy_unless_shared(tensor: Tensor, source: Tensor) -> None:
    if tensor.data_ptr() != source.data_ptr():
        tensor.copy_(source)


@contextmanager
def _opened(place: Place, name: Name, manifest: Manifest) -> Iterator[int]:
    descriptor = place.open(name, data_file(manifest.rank))
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _blaming(place: Place, name: Name, file: str) -> Iterator[None]:
    """Turn an error in a file into one that names the file."""
    path = place.path(name, file)
    try:
        with reading(path):
            yield
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    except UnreadableCheckpointError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and is_lasting(cause):
            raise _damaged(path, str(cause.strerror)) from cause
        raise


def _damaged(path: Path, why: str) -> DamagedCheckpointError:
    return DamagedCheckpointError(f"{path} is damaged: {why}; load an older checkpoint")
