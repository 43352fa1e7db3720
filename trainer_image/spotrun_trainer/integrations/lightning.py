"""Lightning's Trainer: progress, a save before each planned change, and where to continue.

trainer = Trainer(**size_of_world(), callbacks=[SpotrunCallback(folder)])
trainer.fit(model, ckpt_path=newest_checkpoint(folder))
"""

import os
import shutil
import time
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from typing_extensions import override

from spotrun_trainer.hooks.progress import progress
from spotrun_trainer.integrations.step_boundary import Order, StepBoundary
from spotrun_trainer.integrations.whole_checkpoint import newest_whole

_PREFIX = "before-change-"
_SUFFIX = ".ckpt"


class SpotrunCallback(Callback):
    """Reports to a TrainingJob how far the Trainer is, and saves before its workers change.

    All ranks save after the same step, into `folder`, and end there. Outside of a TrainingJob it
    does nothing.
    """

    def __init__(self, folder: str | Path) -> None:
        super().__init__()
        self._folder = Path(folder)
        self._boundary = StepBoundary()
        self._step = 0

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Report where the training continues, and listen for planned changes from now on."""
        self._step = trainer.global_step
        progress(step=self._step, total_steps=_total_steps(trainer))
        self._boundary.open()

    @override
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Save, if all ranks have agreed to; a batch that only accumulates gradients is no step."""
        if trainer.global_step == self._step:
            return
        self._step = trainer.global_step
        progress(step=self._step)
        if self._step % trainer.log_every_n_steps == 0:
            progress(metrics=trainer.callback_metrics)
        order = self._boundary.look()
        if order is not Order.GO_ON:
            self._save(trainer)
        if order is Order.SAVE_AND_END:
            self._boundary.end(self._step)

    @override
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Give signals back to the script."""
        self._boundary.close()

    def _save(self, trainer: Trainer) -> None:
        began = time.monotonic()
        # Lightning deletes its own checkpoints by its own rules; of these one is enough.
        before = sorted(self._folder.glob(f"{_PREFIX}*{_SUFFIX}"))
        here = self._folder / f"{_PREFIX}{self._step}{_SUFFIX}"
        trainer.save_checkpoint(here)
        self._boundary.wait_for_all()
        if trainer.is_global_zero:
            for old in before:
                if old != here:
                    _remove(old)
        self._boundary.saved(time.monotonic() - began)


def newest_checkpoint(folder: str | Path) -> str | None:
    """Return the newest whole checkpoint in a folder and its subfolders; None if there is none.

    An incomplete one is skipped. Call it in all processes: the first decides.
    """
    files = sorted(Path(folder).rglob(f"*{_SUFFIX}"), key=lambda file: file.stat().st_mtime)
    found = newest_whole(reversed(files))
    return str(found) if found is not None else None


def size_of_world() -> dict[str, int]:
    """Return the Trainer's `num_nodes` and `devices` for this world; none without torchrun.

    The Trainer does not look them up itself, and refuses a world of another size.
    """
    names = {"num_nodes": "GROUP_WORLD_SIZE", "devices": "LOCAL_WORLD_SIZE"}
    return {name: int(os.environ[said]) for name, said in names.items() if said in os.environ}


def _remove(checkpoint: Path) -> None:
    if checkpoint.is_dir():  # of DeepSpeed, or of FSDP in shards
        shutil.rmtree(checkpoint, ignore_errors=True)
    else:
        checkpoint.unlink(missing_ok=True)


def _total_steps(trainer: Trainer) -> int | None:
    steps = trainer.estimated_stepping_batches
    return int(steps) if 0 <= steps < float("inf") else None
