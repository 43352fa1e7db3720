"""Reading a checkpoint that was written by processes that divided the model in another way.

Each process reads the ranges of the data files that it needs, and no more. Hashes cover whole
files: so the files are verified before, each by one of the processes, which then agree on the
result.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from spotrun_trainer.checkpoint.format.data_files import Stream, blaming, opened
from spotrun_trainer.checkpoint.format.manifest import (
    Content,
    Manifest,
    data_file,
    manifest_file,
)
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.placing import put
from spotrun_trainer.checkpoint.format.reading.read_plan import (
    SMALL_GAP_BYTES,
    Held,
    Read,
    Source,
    extents,
    plan_reads,
)
from spotrun_trainer.checkpoint.format.storage import OpenFile, Storage
from spotrun_trainer.checkpoint.host_memory import bytes_of
from spotrun_trainer.parallel.division import Box, Division, divisions_in
from spotrun_trainer.state.flatten import Flat, Spec

BUFFER_BYTES = 1 << 20
"""A buffer of this size stays in a core's cache between the reading and the copying."""
TOLD_BYTES = 64 << 20
"""Progress is reported after this many bytes: a tenth of a second, or a second on slow disks."""


@dataclass(frozen=True)
class SavedPart:
    """A part of the model as ranks have saved it: the whole model, if one process held a copy."""

    manifests: Sequence[Manifest]
    content: Content
    specs: Mapping[str, Spec]  # of the parts of tensors
    divisions: Mapping[str, Division]
    paths: Mapping[str, str]
    """The names of the tensors that count; the keys are the names that the reader uses."""

    @classmethod
    def of(
        cls, manifests: Sequence[Manifest], content: Content, part: int, parts: int
    ) -> "SavedPart":
        """Read the marks of divided tensors; raises ValueError for an invalid mark."""
        shared = {one: content.layout[other] for one, other in content.aliases.items()}
        specs = {**content.layout, **shared}

        def shape_of(path: str) -> tuple[int, ...]:
            if path not in specs:
                raise ValueError(f"its values name a tensor {path[:80]!r} that it does not have")
            return specs[path].shape

        values = dict(content.values)
        divisions = divisions_in(values, shape_of, part, parts)
        return cls(manifests, content, specs, divisions, {path: path for path in specs})

    @property
    def stages(self) -> int:
        """The number of groups of parts with different layers."""
        return self.manifests[0].stages

    @property
    def whole(self) -> dict[str, Spec]:
        """The types and shapes of the whole tensors."""
        return {
            path: Spec(self.specs[own].dtype, self._whole(own)) for path, own in self.paths.items()
        }

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the whole tensors."""
        return {path: self._whole(own) for path, own in self.paths.items()}

    def is_divided_as(self, here: Mapping[str, Division]) -> bool:
        """Whether a process that divides tensors in this way has the same parts of them."""
        boxes = {path: one.box for path, one in self.divisions.items()}
        return boxes == {path: one.box for path, one in here.items()}

    def box(self, path: str) -> Box:
        """Return the part of a tensor that this saved part has."""
        own = self.paths[path]
        known = self.divisions.get(own)
        return known.box if known is not None else Box.whole(self.specs[own].shape)

    def sources(self) -> dict[str, list[Source]]:
        """Return where in the data files each tensor is."""
        found = defaultdict[str, list[Source]](list)
        for manifest in self.manifests:
            offset = manifest.header_bytes
            for one in manifest.slices:
                found[one.tensor].append(Source(one.start, one.stop, manifest.rank, offset))
                offset += one.numel * self.specs[one.tensor].itemsize
        for each in found.values():
            each.sort(key=lambda one: one.start)
        aliases = self.content.aliases
        return {path: found[aliases.get(own, own)] for path, own in self.paths.items()}

    def _whole(self, path: str) -> tuple[int, ...]:
        known = self.divisions.get(path)
        return known.shape if known is not None else self.specs[path].shape


def specs_of(place: Storage, name: Name, saved: Iterable[SavedPart]) -> dict[str, Spec]:
    """Return the types and shapes of whole tensors; parts of different models differ in them.

    Only stages of a pipeline may have other tensors than the first part.
    """
    found, first = dict[str, Spec](), dict[str, Spec]()
    for part in saved:
        own = part.whole
        first = first or own
        with blaming(place, name, manifest_file(part.manifests[0].rank)):
            is_other = part.stages == 1 and own.keys() != first.keys()
            if is_other or any(found.setdefault(path, spec) != spec for path, spec in own.items()):
                raise ValueError("its tensors are not those of the other parts")
    return found


def specs_for(whole: Mapping[str, Spec], here: Mapping[str, Division]) -> dict[str, Spec]:
    """Return the types and shapes of the parts that a process has."""
    return {
        path: replace(spec, shape=here[path].box.shape) if path in here else spec
        for path, spec in whole.items()
    }


def verify(
    place: Storage,
    name: Name,
    manifests: Sequence[Manifest],
    told: Callable[[int], object] = lambda _bytes: None,
) -> None:
    """Compare the hashes of data files; raises DamagedCheckpointError.

    `told` is called with the progress.
    """
    for manifest in manifests:
        with (
            blaming(place, name, data_file(manifest.rank)),
            opened(place, name, manifest) as file,
        ):
            stream = Stream(file, manifest.hashed_by)
            for start in range(0, manifest.file_bytes, TOLD_BYTES):
                stream.skip(size := min(TOLD_BYTES, manifest.file_bytes - start))
                told(size)
            if stream.hexdigest() != manifest.digest:
                raise ValueError("its content is not what was written (its hash differs)")


def read_ranges(
    place: Storage,
    name: Name,
    saved: Sequence[SavedPart],
    flat: Flat,
    here: Mapping[str, Division],
) -> None:
    """Read this process's part of each tensor; of saved parts with the same content, the first."""
    manifests = {one.rank: one for part in saved for one in part.manifests}
    reads = _plan(place, name, saved, flat, here)
    of_rank = defaultdict[int, list[tuple[Read, Tensor]]](list)
    for path, ranges in reads.items():
        for read in ranges:
            of_rank[read.rank].append((read, flat.tensors[path].detach()))
    buffer = torch.empty(BUFFER_BYTES, dtype=torch.uint8)
    for rank, ranges_of_rank in sorted(of_rank.items()):
        in_order = sorted(ranges_of_rank, key=lambda one: one[0].offset)
        with (
            torch.no_grad(),
            blaming(place, name, data_file(rank)),
            opened(place, name, manifests[rank], extents(one for one, _ in in_order)) as file,
        ):
            for read, tensor in in_order:
                read_range(file, read, tensor, buffer)


def _plan(
    place: Storage, name: Name, saved: Sequence[SavedPart], flat: Flat, here: Mapping[str, Division]
) -> dict[str, list[Read]]:
    """Return what to read of each tensor; raises ValueError for parts that form no model."""
    sources = [part.sources() for part in saved]
    plans = {}
    with blaming(place, name, manifest_file(saved[0].manifests[0].rank)):
        for path, tensor in flat.tensors.items():
            wanted = here[path].box if path in here else Box.whole(tuple(tensor.shape))
            pairs = zip(saved, sources, strict=True)
            held = [Held(one.box(path), of[path]) for one, of in pairs if path in one.paths]
            try:
                plan = plan_reads(wanted, held, tensor.element_size())
            except ValueError as error:
                raise ValueError(f"with the other parts, of {path[:80]!r} {error}") from error
            if plan:
                plans[path] = plan
    return plans


def read_range(file: OpenFile, read: Read, tensor: Tensor, buffer: Tensor) -> None:
    """Read ranges into a tensor: directly, or through a buffer if that takes fewer calls."""
    is_direct = tensor.is_contiguous() and tensor.device.type == "cpu"
    is_of_small = read.rows > 1 and read.step - read.bytes <= SMALL_GAP_BYTES
    if read.rows > 1 and (read.step > len(buffer) or (is_direct and not is_of_small)):
        for row in range(read.rows):
            offset, target = read.offset + row * read.step, read.target + row * read.target_step
            read_range(file, Read(read.rank, offset, read.bytes, target), tensor, buffer)
    elif is_direct and read.rows == 1:
        memory = bytes_of(tensor.view(-1))
        file.read_into(read.offset, memory[read.target : read.target + read.bytes])
    elif read.rows == 1:
        for start in range(0, read.bytes, len(buffer)):
            size = min(len(buffer), read.bytes - start)
            one = Read(read.rank, read.offset + start, size, read.target + start)
            _read_rows(file, one, 1, tensor, buffer)
    else:
        most = len(buffer) // read.step
        for row in range(0, read.rows, most):
            offset, target = read.offset + row * read.step, read.target + row * read.target_step
            some = replace(read, offset=offset, target=target)
            _read_rows(file, some, min(most, read.rows - row), tensor, buffer)


def _read_rows(file: OpenFile, read: Read, rows: int, tensor: Tensor, buffer: Tensor) -> None:
    """Read rows and the bytes between them in one call; the buffer has room for both."""
    span = buffer[: (rows - 1) * read.step + read.bytes]
    file.read_into(read.offset, bytes_of(span))
    size = tensor.element_size()
    elements = span.view(tensor.dtype)
    found = elements.as_strided((rows, read.bytes // size), (read.step // size, 1))
    put(tensor, read.target // size, found, read.target_step // size)
