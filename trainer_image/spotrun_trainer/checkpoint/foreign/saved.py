"""The whole tensors of one of our checkpoints, saved by any number of processes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from spotrun_trainer.checkpoint.format.data_files import blaming, opened
from spotrun_trainer.checkpoint.format.manifest import data_file, manifest_file
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.reading.ranges import BUFFER_BYTES, read_range, verify
from spotrun_trainer.checkpoint.format.reading.read_plan import Held, extents, plan_reads
from spotrun_trainer.checkpoint.format.reading.saved_parts import (
    manifests_of,
    num_parts_of,
    part_of,
)
from spotrun_trainer.checkpoint.format.reading.stages import in_stages, whole_of
from spotrun_trainer.checkpoint.format.storage import Storage
from spotrun_trainer.parallel.division import Box, marked_anew
from spotrun_trainer.state.flatten import JSON, Spec


class Saved:
    """A complete checkpoint whose description has been checked; content is read on request."""

    def __init__(self, place: Storage, name: Name) -> None:
        self.place = place
        self.name = name
        self.manifests = manifests_of(place, name)
        num_parts = num_parts_of(place, name, self.manifests)
        self.parts = [part_of(place, name, self.manifests, part) for part in range(num_parts)]
        self._values: Mapping[str, JSON] = self.parts[0].content.values
        with blaming(place, name, manifest_file(0)):
            self._layers = whole_of(self.parts)
            if self.parts[0].stages > 1:
                self.parts, self._values = in_stages(self.parts, self._layers)
        self._sources = [part.sources() for part in self.parts]
        self._buffer = torch.empty(BUFFER_BYTES, dtype=torch.uint8)

    @property
    def num_copies(self) -> int:
        """The number of copies of the model that were trained together."""
        return len(self.manifests) // len(self.parts)

    @property
    def num_stages(self) -> int:
        """The number of pipeline stages among which the layers of a copy were divided."""
        return self.parts[0].stages

    @property
    def parameters(self) -> Mapping[str, Sequence[Sequence[str]]]:
        """The names of each optimizer's parameters, by group, in the order of their numbers."""
        return self._layers.parameters

    @property
    def meshes(self) -> list[str]:
        """The names of the mesh dimensions by which torch divided tensors; empty without any."""
        found = dict[str, None]()
        for one in (one for part in self.parts for one in part.divisions.values()):
            found |= dict.fromkeys(one.by if isinstance(one.by, dict) else ())
        return list(found)

    @property
    def bytes(self) -> int:
        """The size of its data files."""
        return sum(one.file_bytes for one in self.manifests)

    @property
    def extra(self) -> Mapping[str, Any]:
        """The values that the training keeps for itself: its step, and its position in the data."""
        return self.parts[0].content.extra

    @cached_property
    def specs(self) -> Mapping[str, Spec]:
        """The types and shapes of the whole tensors, including those that share storage.

        If the script divides the model itself, parts may differ, and the first part counts.
        """
        found = dict[str, Spec]()
        for part in self.parts:
            for path, spec in part.whole.items():
                if found.setdefault(path, spec) != spec and not self.is_divided_by_script:
                    with blaming(self.place, self.name, manifest_file(part.manifests[0].rank)):
                        raise ValueError(
                            f"its tensor {path[:80]!r} does not match that of the other parts"
                        )
        return found

    @cached_property
    def aliases(self) -> dict[str, str]:
        """The names of tensors that share storage with another one, as tied weights do."""
        found = dict[str, str]()
        for part in self.parts:
            here = {own: path for path, own in part.paths.items()}
            aliases = part.content.aliases.items()
            found |= {here[path]: here[other] for path, other in aliases}
        return found

    @cached_property
    def values(self) -> dict[str, JSON]:
        """The state around the tensors, as if one process had saved it."""
        return dict(marked_anew(dict(self._values), {}))

    @property
    def is_divided_by_script(self) -> bool:
        """Whether each process of a copy tracked its own tensors, which only the script joins."""
        is_known = self.parts[0].stages > 1 or any(part.divisions for part in self.parts)
        return len(self.parts) > 1 and not is_known

    def fill(self, name: str, box: Box, target: Tensor) -> None:
        """Read a part of a tensor."""
        holders = [index for index, part in enumerate(self.parts) if name in part.paths]
        if not self.is_divided_by_script:
            self._fill(name, box, target, holders)
            return
        self._fill(name, box, target, holders[:1])
        for other in holders[1:]:
            self._compare(name, box, target, other)

    def verify(self, told: Callable[[int], object]) -> None:
        """Compare the hashes of all data files; raises DamagedCheckpointError."""
        verify(self.place, self.name, self.manifests, told)

    def _fill(self, name: str, box: Box, target: Tensor, holders: Iterable[int]) -> None:
        held = [Held(self.parts[one].box(name), self._sources[one][name]) for one in holders]
        first = manifest_file(self.manifests[0].rank)
        with blaming(self.place, self.name, first):
            reads = plan_reads(box, held, target.element_size())
        for read in reads:
            manifest = self.manifests[read.rank]
            with (
                torch.no_grad(),
                blaming(self.place, self.name, data_file(read.rank)),
                opened(self.place, self.name, manifest, extents([read])) as file,
            ):
                read_range(file, read, target, self._buffer)

    def _compare(self, name: str, box: Box, target: Tensor, other: int) -> None:
        there = torch.empty_like(target)
        if self.parts[other].whole[name] == self.specs[name]:
            self._fill(name, box, there, [other])
            if torch.equal(_bytes(there), _bytes(target)):
                return
        raise ValueError(
            f"{self.name} has {len(self.parts)} different tensors {name}: its script divides "
            "the model by itself (Run(shards=...)), and only the script knows how to put it "
            "together"
        )


def kind_of(value: JSON) -> str:
    """Return the kind of a tracked object, recognised by the form of its state."""
    if isinstance(value, dict) and "$module" in value:
        return "module"
    if isinstance(value, dict) and {"state", "param_groups"} <= value.keys():
        return "optimizer"
    return "object"


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.view(-1).view(torch.uint8)
