"""A checkpoint of torch.distributed.checkpoint, written by torch's own writer in this process.

Its planner asks for each tensor when it writes it. Large ones are planned as chunks, like those of
several processes, so that only one chunk is in memory; every loader joins chunks.
"""

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import (
    DefaultSavePlanner,
    create_default_local_save_plan,
)
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
)
from torch.distributed.checkpoint.planner import (
    SavePlan,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)
from torch.distributed.checkpoint.state_dict_saver import save
from typing_extensions import override

from spotrun_trainer.checkpoint.foreign.chosen import Chosen
from spotrun_trainer.checkpoint.foreign.source import pieces
from spotrun_trainer.parallel.division import Box
from spotrun_trainer.state.flatten import DTYPES

FILES = re.compile(r"\.metadata")
"""The names of the files in every such folder; data files have other names with more processes."""
CHUNK_BYTES = 64 << 20
"""Each chunk is an archive of its own, and takes a call to load."""


def write(folder: Path, chosen: Chosen, told: Callable[[int], object]) -> None:
    """Write the state: `dcp.load(model.state_dict(), checkpoint_id=folder)` reads it."""
    planner = _Planner(chosen, told)
    writer = FileSystemWriter(folder, per_thread_copy_ahead=0)  # one tensor after the other
    with warnings.catch_warnings():  # about the missing process group
        warnings.simplefilter("ignore", UserWarning)
        try:
            save(chosen.state, storage_writer=writer, planner=planner, no_dist=True)
        except CheckpointException as error:  # it wraps every exception, Ctrl-C as well
            raise next(cause for cause, _ in error.failures.values()) from None


class _Planner(DefaultSavePlanner):
    def __init__(self, chosen: Chosen, told: Callable[[int], object]) -> None:
        super().__init__()
        self._chosen = chosen
        self._told = told
        self._boxes = dict[MetadataIndex, tuple[str, Box]]()
        self._written = torch.empty(0)

    @override
    def create_local_plan(self) -> SavePlan:
        """Plan the chunks of tensors here, and everything else as torch does."""
        values = {k: one for k, one in self.state_dict.items() if not isinstance(one, Tensor)}
        items = [*create_default_local_save_plan(values, is_coordinator=True).items]
        for name, one in self.state_dict.items():
            if isinstance(one, Tensor):
                items += self._chunks(name, self._chosen.path(one))
        self.plan = SavePlan(items, planner_data=self.mappings)
        return self.plan

    def _chunks(self, name: str, path: str) -> list[WriteItem]:
        spec, items = self._chosen.spec(path), []
        for number, box in enumerate(pieces(spec.shape, spec.itemsize, CHUNK_BYTES)):
            index = MetadataIndex(name, box.offsets, number)
            self._boxes[index] = path, box
            chunk = ChunkStorageMetadata(torch.Size(box.offsets), torch.Size(box.shape))
            properties = TensorProperties(dtype=DTYPES[spec.dtype])
            data = TensorWriteData(chunk, properties, torch.Size(spec.shape))
            items.append(WriteItem(index, WriteItemType.SHARD, tensor_data=data))
        return items

    @override
    def resolve_data(self, write_item: WriteItem) -> Any:
        """Read the content that is written next."""
        if write_item.type == WriteItemType.BYTE_IO:
            return super().resolve_data(write_item)
        path, box = self._boxes[write_item.index]
        # The writer keeps what it has written in memory until it ends.
        self._written.untyped_storage().resize_(0)
        content = self._written = torch.empty(
            box.shape, dtype=DTYPES[self._chosen.spec(path).dtype]
        )
        self._chosen.saved.fill(path, box, content)
        self._told(content.nbytes)
        return content
