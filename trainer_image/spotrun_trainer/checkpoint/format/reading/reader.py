"""Reading a checkpoint into the tensors of a training, saved by any number of processes.

Bytes are read directly into the tensors and hashed there, so no other memory is needed.
(Files are not mapped: if a mapped file is cut off, the process is killed.) The headers of the data
files are never parsed: the places of slices follow from the manifests, and lengths and hashes are
compared before any content is used.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.reading.lanes import read_data
from spotrun_trainer.checkpoint.format.reading.ranges import (
    SavedPart,
    read_ranges,
    specs_for,
    specs_of,
    verify,
)
from spotrun_trainer.checkpoint.format.reading.saved_parts import (
    manifests_of,
    num_parts_of,
    part_of,
)
from spotrun_trainer.checkpoint.format.reading.stages import Layers, in_stages
from spotrun_trainer.checkpoint.format.reading.together import BY_ITSELF, Readers
from spotrun_trainer.checkpoint.format.shard_plan import Slice
from spotrun_trainer.checkpoint.format.storage import Storage
from spotrun_trainer.parallel.division import Division, marked_anew
from spotrun_trainer.state.flatten import Flat
from spotrun_trainer.state.tracked import Tracked


@dataclass(frozen=True)
class Reader:
    """The process that reads: its part of the model, and its number among all that read."""

    shard: int = 0
    shards: int = 1
    rank: int = 0
    size: int = 1
    stages: int = 1  # groups of a copy's processes with different layers
    readers: Readers = BY_ITSELF  # the processes that hold the same part


ALONE = Reader()


def load(place: Storage, name: Name, tracked: Tracked, reader: Reader = ALONE) -> dict[str, Any]:
    """Load a checkpoint, or this process's part of it; return the extra values saved with it.

    Raises DamagedCheckpointError if it is not what was written, and ValueError if it does not fit
    what is tracked.
    """
    readers = reader.readers
    manifests = manifests_of(place, name, readers)
    num_parts = num_parts_of(place, name, manifests)
    own = part_of(place, name, manifests, reader.shard % num_parts, readers)
    with _fitting(name):
        is_alike = _is_held_alike(own, num_parts, tracked, reader)
        saved, values = [own], own.content.values
        if not is_alike:
            _check_is_whole(own, num_parts, tracked, reader)
            order = _others_later(reader, num_parts)
            saved = [part_of(place, name, manifests, part, readers) for part in order]
            if max(own.stages, reader.stages) > 1:
                saved, values = in_stages(saved, _layers(tracked, reader))
        specs = specs_of(place, name, saved)
        here = tracked.divisions({path: spec.shape for path, spec in specs.items()})
        flat = tracked.landing(specs_for(specs, here), marked_anew(values, here))
    if is_alike:
        _read_files(place, name, own, flat, readers)
    else:
        readers.read(lambda: verify(place, name, manifests[reader.rank :: reader.size]))
        _read_parts(place, name, saved, flat, here=here, readers=readers)
    with _fitting(name):
        tracked.load(flat)
    return dict(own.content.extra)


def _is_held_alike(own: SavedPart, num_parts: int, tracked: Tracked, reader: Reader) -> bool:
    """Whether this process holds exactly what one of the saving processes held."""
    is_unsaid = own.stages == 1 and not own.content.parameters  # by a trainer that noted neither
    if num_parts != reader.shards or (own.stages != reader.stages and not is_unsaid):
        return False
    if own.stages > 1 and own.content.parameters != tracked.parameters():
        return False  # the same number of stages, but with different layers
    return own.is_divided_as(tracked.divisions(own.shapes))


def _layers(tracked: Tracked, reader: Reader) -> Layers:
    tensors = set(tracked.flatten().tensors) if reader.stages > 1 else None
    return Layers(tracked.parameters(), tensors)


def _others_later(reader: Reader, num_parts: int) -> list[int]:
    """Return the saved parts in an order of this process: some tensors are whole in all parts."""
    return [(reader.shard + part) % num_parts for part in range(num_parts)]


@contextmanager
def _fitting(name: Name) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{name} cannot be loaded: {error}") from error


def _read_files(place: Storage, name: Name, part: SavedPart, flat: Flat, readers: Readers) -> None:
    readers = readers.of_data(sum(one.file_bytes for one in part.manifests))

    def read() -> None:
        for manifest in readers.share(part.manifests):
            read_data(place, name, manifest, flat)

    with torch.no_grad():
        readers.read(read)
        readers.fill(flat.tensors, [one.slices for one in part.manifests])
        for alias, shared in part.content.aliases.items():
            _copy_unless_shared(flat.tensors[alias], flat.tensors[shared])


def _read_parts(
    place: Storage,
    name: Name,
    saved: Sequence[SavedPart],
    flat: Flat,
    *,
    here: Mapping[str, Division],
    readers: Readers,
) -> None:
    """Read tensors that are assembled from parts; processes that hold the same part take turns."""
    readers = readers.of_data(sum(tensor.nbytes for tensor in flat.tensors.values()))
    paths = sorted(flat.tensors, key=lambda path: (-flat.tensors[path].nbytes, path))
    own = Flat({path: flat.tensors[path] for path in readers.share(paths)}, {})
    readers.read(lambda: read_ranges(place, name, saved, own, here))
    items = [[Slice(path, 0, flat.tensors[path].numel())] for path in paths]
    readers.fill(flat.tensors, items)


def _check_is_whole(own: SavedPart, num_parts: int, tracked: Tracked, reader: Reader) -> None:
    """Raise ValueError if saved parts, or parts here, are not known to make up whole tensors."""
    is_known_there = num_parts == 1 or own.stages > 1 or own.divisions
    is_known_here = reader.shards == 1 or reader.stages > 1 or tracked.is_divided
    if not (is_known_there and is_known_here):
        raise ValueError(
            f"{num_parts} processes shared a copy of the model when it was saved, now "
            f"{reader.shards}; use as many again (Run(shards=...)), or let torch divide the "
            "model (Run(parallel=...))"
        )


def _copy_unless_shared(tensor: Tensor, source: Tensor) -> None:
    if tensor.data_ptr() != source.data_ptr():
        tensor.copy_(source)
