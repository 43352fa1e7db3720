"""Checkpoints without collectives and without pickle: a checkpoint is durable, or does not exist.

    step-N.gG/rank-R.safetensors   what rank R wrote: its slices of the state
    step-N.gG/rank-R.json          length and hash of that file, and the slices in it
    step-N.gG/COMPLETE             the hashes of all those manifests: all parts are there

torch.distributed.checkpoint keeps its index in a pickle (`.metadata`), which everybody who loads a
checkpoint would have to trust; safetensors is as fast, and many tools read it.

`format/` defines the files: `shard_plan` divides the slices among ranks, `writer` and `completion`
write, `reader` reads, and `storage` is the interface of a place for them. `places/` has the places:
a directory in a file system, and object stores. Here `staging` and `saver` save during training;
`retention` and `interval` decide what to delete and how often to save.
"""

from spotrun_trainer.checkpoint.checkpoints import Checkpoints
from spotrun_trainer.checkpoint.errors import (
    CheckpointError,
    DamagedCheckpointError,
    UnreadableCheckpointError,
)
from spotrun_trainer.checkpoint.interval import interval_seconds
from spotrun_trainer.checkpoint.places import open_storage
from spotrun_trainer.checkpoint.places.folder_check import make_writable
from spotrun_trainer.checkpoint.saver import Saved

__all__ = [
    "CheckpointError",
    "Checkpoints",
    "DamagedCheckpointError",
    "Saved",
    "UnreadableCheckpointError",
    "interval_seconds",
    "make_writable",
    "open_storage",
]
