"""Writing one rank's part: its slices as a safetensors file, then the manifest with its hash.

The file is written directly from the staged bytes, and hashed during the write.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spotrun_trainer.checkpoint.errors import CheckpointError
from spotrun_trainer.checkpoint.format.codes import CODES
from spotrun_trainer.checkpoint.format.digests import DIGESTS, SHA256
from spotrun_trainer.checkpoint.format.manifest import (
    Content,
    Manifest,
    data_file,
    manifest_file,
    sha256_of,
    write_manifest,
)
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.shard_plan import Slice
from spotrun_trainer.checkpoint.format.storage import SMALL_BYTES, Storage
from spotrun_trainer.state.flatten import Spec


@dataclass(frozen=True)
class Part:
    """The part of a checkpoint that one rank writes."""

    name: Name
    attempt: str
    rank: int
    size: int
    slices: tuple[Slice, ...]
    layout: Mapping[str, Spec]
    content: Content | None  # of the first rank of each part of the model
    shards: int = 1  # ranks that hold one copy of the model
    stages: int = 1  # groups of these that hold other layers each
    hashed_by: str = SHA256

    @property
    def bytes(self) -> int:
        """The bytes of its slices."""
        return sum(self.layout[one.tensor].itemsize * one.numel for one in self.slices)


def write_part(place: Storage, part: Part, staged: memoryview) -> str:
    """Write a rank's files durably; returns the hash of the manifest."""
    head = header(part.slices, part.layout)
    manifest = Manifest(
        attempt=part.attempt,
        rank=part.rank,
        size=part.size,
        header_bytes=len(head),
        file_bytes=len(head) + len(staged),
        digest=_write_data(place, part, head, staged),
        slices=part.slices,
        content=part.content,
        shards=part.shards,
        stages=part.stages,
        hashed_by=part.hashed_by,
    )
    text = write_manifest(manifest)
    if (size := max(len(head), len(text))) > SMALL_BYTES:
        raise CheckpointError(
            f"{part.name} could not be written: names and plain values take {size} bytes of JSON, "
            f"and at most {SMALL_BYTES} are read back; keep long lists in tensors"
        )
    place.write(part.name, manifest_file(part.rank), text, part.rank)
    return sha256_of(text)


def _write_data(place: Storage, part: Part, head: bytes, staged: memoryview) -> str:
    digest = DIGESTS[part.hashed_by]()
    content = (memoryview(head), staged)
    place.write_data(part.name, data_file(part.rank), content, digest.update)
    return digest.hexdigest()


def header(
    slices: Sequence[Slice], layout: Mapping[str, Spec], notes: Mapping[str, str] | None = None
) -> bytes:
    """Return the header of a safetensors file; a slice is a vector named `name[start:stop]`."""
    entries: dict[str, object] = {"__metadata__": {**(notes or {}), "format": "pt"}}
    offset = 0
    for one in slices:
        spec = layout[one.tensor]
        end = offset + spec.itemsize * one.numel
        whole = one.numel == spec.numel
        shape = [*spec.shape] if whole else [one.numel]
        code = CODES.get(spec.dtype)
        entries[one.tensor if whole else f"{one.tensor}[{one.start}:{one.stop}]"] = {
            "dtype": code or "U8",
            "shape": shape if code else [*shape, spec.itemsize],
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text
