"""Checkpoints without collectives and without pickle: durable, or not there at all.

    step-N.gG/rank-R.safetensors   what rank R wrote: its slices of the state
    step-N.gG/rank-R.json          length and hash of that file, and the slices in it
    step-N.gG/COMPLETE             the hashes of all those manifests: all parts are there

torch.distributed.checkpoint keeps its index in a pickle (`.metadata`), which whoever loads a
checkpoint would have to trust; safetensors is as quick, and many tools read it.

`plan` says who writes what; `staging`, `writer`, `completion` and `saver` write; `reader` reads;
`retention` and `interval` say what may go and how often to save; `place` and `folder` touch files.
"""

from spotrun_trainer.checkpoint.checkpoints import Checkpoints
from spotrun_trainer.checkpoint.errors import (
    CheckpointError,
    DamagedCheckpointError,
    UnreadableCheckpointError,
)
from spotrun_trainer.checkpoint.folder_check import make_writable
from spotrun_trainer.checkpoint.format.directory import open_place
from spotrun_trainer.checkpoint.interval import interval_seconds
from spotrun_trainer.checkpoint.saver import Saved

__all__ = [
    "CheckpointError",
    "Checkpoints",
    "DamagedCheckpointError",
    "Saved",
    "UnreadableCheckpointError",
    "interval_seconds",
    "make_writable",
    "open_place",
]
