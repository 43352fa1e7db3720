"""A complete checkpoint as its manifests describe it: checked before any content is used."""

from collections.abc import Mapping, Sequence

from spotrun_trainer.checkpoint.errors import DamagedCheckpointError
from spotrun_trainer.checkpoint.format.data_files import blaming, opened
from spotrun_trainer.checkpoint.format.manifest import (
    Content,
    Manifest,
    Marker,
    data_file,
    manifest_file,
    read_manifest,
    read_marker,
    sha256_of,
)
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.reading.ranges import SavedPart
from spotrun_trainer.checkpoint.format.reading.together import BY_ITSELF, Readers
from spotrun_trainer.checkpoint.format.storage import MARKER, Storage
from spotrun_trainer.state.flatten import Spec


def manifests_of(place: Storage, name: Name, readers: Readers = BY_ITSELF) -> list[Manifest]:
    """Return the manifests of a checkpoint; raises DamagedCheckpointError if it is not whole."""
    markers = readers.read(lambda: {one: _marker(place, name) for one in readers.share([0])})
    with blaming(place, name, MARKER):
        marker = read_marker(readers.texts(markers)[0])
    own = readers.share(range(len(marker.manifests)))
    texts = readers.texts(readers.read(lambda: {rank: _text(place, name, rank) for rank in own}))
    return readers.read(lambda: _read(place, name, marker, texts))


def _read(place: Storage, name: Name, marker: Marker, texts: Mapping[int, bytes]) -> list[Manifest]:
    manifests = []
    for rank, expected in enumerate(marker.manifests):
        with blaming(place, name, manifest_file(rank)):
            text = texts[rank]
            if sha256_of(text) != expected:
                raise ValueError("it is not the one that was completed (its hash differs)")
            manifest = read_manifest(text)
            if (manifest.rank, manifest.size) != (rank, len(marker.manifests)):
                raise ValueError(f"it is the manifest of rank {manifest.rank} of {manifest.size}")
            manifests.append(manifest)
    return manifests


def _marker(place: Storage, name: Name) -> bytes:
    with blaming(place, name, MARKER):
        try:
            return place.read(name, MARKER)
        except FileNotFoundError:
            raise DamagedCheckpointError(
                f"{place.where(name, MARKER)} does not exist: {name} was never completed"
            ) from None


def _text(place: Storage, name: Name, rank: int) -> bytes:
    with blaming(place, name, manifest_file(rank)):
        return place.read(name, manifest_file(rank))


def num_parts_of(place: Storage, name: Name, manifests: Sequence[Manifest]) -> int:
    """Return the number of processes that held a copy of the model together."""
    num_parts = manifests[0].shards
    for manifest in manifests:
        with blaming(place, name, manifest_file(manifest.rank)):
            if manifest.shards != num_parts or not num_parts or len(manifests) % num_parts:
                raise ValueError(
                    f"it says that {manifest.shards} of {len(manifests)} ranks hold a copy of the "
                    "model"
                )
            stages = manifest.stages
            if stages != manifests[0].stages or not stages or num_parts % stages:
                raise ValueError(
                    f"it says that {num_parts} ranks hold {stages} stages of the model"
                )
    return num_parts


def part_of(
    place: Storage,
    name: Name,
    manifests: Sequence[Manifest],
    part: int,
    readers: Readers = BY_ITSELF,
) -> SavedPart:
    """Return a part of the model as it was saved, after checking that its slices cover it."""
    num_parts = manifests[0].shards
    of_part = manifests[part::num_parts]
    content = _content(place, name, of_part)
    readers.read(lambda: _check_lengths(place, name, readers.share(of_part), content))
    with blaming(place, name, manifest_file(of_part[0].rank)):
        return SavedPart.of(of_part, content, part, num_parts)


def _content(place: Storage, name: Name, manifests: Sequence[Manifest]) -> Content:
    """Return the content by the first rank's manifest, after checking that the slices cover it."""
    with blaming(place, name, manifest_file(manifests[0].rank)):
        content = manifests[0].content
        if content is None:
            raise ValueError("it describes no tensors")
        _check_coverage(content.layout, manifests)
    return content


def _check_lengths(
    place: Storage, name: Name, manifests: Sequence[Manifest], content: Content
) -> None:
    for manifest in manifests:
        with blaming(place, name, data_file(manifest.rank)):
            described = manifest.header_bytes + sum(
                content.layout[one.tensor].itemsize * one.numel for one in manifest.slices
            )
            with opened(place, name, manifest) as file:
                length = file.size
            if not length == described == manifest.file_bytes:
                raise ValueError(
                    f"it has {length} bytes, but {manifest.file_bytes} were written and its "
                    f"slices take {described}"
                )


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
            raise ValueError(
                f"the slices of {tensor[:80]!r} have {stop} elements, which is not its size"
            )
