"""Reading a whole data file into the tensors, in several lanes if its hash allows that.

A lane is a stretch of the file with its own connection and thread. One connection is as fast as one
core copies and hashes, and some networks limit one to less than the machine may use. The hash of
the whole must follow from those of the stretches: CRC-32 allows this, SHA-256 does not.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor

from spotrun_trainer.checkpoint.format.data_files import CHUNK_BYTES, Stream, blaming, opened
from spotrun_trainer.checkpoint.format.digests import CRC32, crc32_of_both
from spotrun_trainer.checkpoint.format.manifest import Manifest, data_file
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.placing import put
from spotrun_trainer.checkpoint.format.shard_plan import Slice
from spotrun_trainer.checkpoint.format.storage import Storage
from spotrun_trainer.checkpoint.host_memory import bytes_of
from spotrun_trainer.state.flatten import Flat

LANES = 4
"""An agent serves 64 connections at a time, enough for sixteen processes that start together."""
LANE_BYTES = 16 << 20
"""The fewest bytes that are worth a connection and a thread."""


@dataclass(frozen=True)
class Lane:
    """A stretch of a data file: the slices in it, one after the other."""

    start: int  # the byte of the file; the header is read with the first lane
    stop: int
    slices: tuple[Slice, ...]


def read_data(place: Storage, name: Name, manifest: Manifest, flat: Flat) -> None:
    """Read a data file into the tensors; raises DamagedCheckpointError if its hash differs."""
    item_bytes = {one.tensor: flat.tensors[one.tensor].element_size() for one in manifest.slices}
    most = LANES if manifest.hashed_by == CRC32 else 1
    lanes = list(lanes_of(manifest, item_bytes, most))

    def read(lane: Lane) -> str:
        with torch.no_grad(), opened(place, name, manifest, [(lane.start, lane.stop)]) as file:
            stream = Stream(file, manifest.hashed_by, lane.start)
            if not lane.start:
                stream.skip(manifest.header_bytes)
            for one in lane.slices:
                _fill(flat.tensors[one.tensor], one, stream)
            return stream.hexdigest()

    with blaming(place, name, data_file(manifest.rank)):
        if len(lanes) == 1:
            digest = read(lanes[0])
        else:
            with ThreadPoolExecutor(len(lanes), "lanes") as pool:
                digest = _digest_of_all(lanes, list(pool.map(read, lanes)))
        if digest != manifest.digest:
            raise ValueError("its content is not what was written (its hash differs)")


def lanes_of(manifest: Manifest, item_bytes: dict[str, int], most: int) -> Iterator[Lane]:
    """Cut a data file into at most `most` lanes of about equal bytes, between elements."""
    num_lanes = max(1, min(most, manifest.file_bytes // LANE_BYTES))
    share, start, at = -(-manifest.file_bytes // num_lanes), 0, manifest.header_bytes
    slices = list[Slice]()
    for one in manifest.slices:
        size, first = item_bytes[one.tensor], one.start
        while first < one.stop:
            count = min(one.stop - first, max(1, -(-(start + share - at) // size)))
            slices.append(Slice(one.tensor, first, first + count))
            first, at = first + count, at + count * size
            if at >= start + share:
                yield Lane(start, at, tuple(slices))
                start, slices = at, []
    if slices or not start:
        yield Lane(start, at, tuple(slices))


def _digest_of_all(lanes: Sequence[Lane], digests: Sequence[str]) -> str:
    whole = int(digests[0], 16)
    for lane, digest in zip(lanes[1:], digests[1:], strict=True):
        whole = crc32_of_both(whole, int(digest, 16), lane.stop - lane.start)
    return f"{whole:08x}"


def _fill(tensor: Tensor, one: Slice, stream: Stream) -> None:
    if tensor.is_contiguous() and tensor.device.type == "cpu":
        stream.into(bytes_of(tensor.view(-1)[one.start : one.stop]))
        return
    step = CHUNK_BYTES // tensor.element_size()
    for start in range(one.start, one.stop, step):
        chunk = torch.empty(min(step, one.stop - start), dtype=tensor.dtype)
        stream.into(bytes_of(chunk))
        put(tensor, start, chunk[None])
