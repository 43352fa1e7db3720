"""torchtitan's Trainer: progress, loss, and a save before each planned change.

trainer = config.build()
follow(trainer)
trainer.train()
"""

import logging
import time
from typing import TYPE_CHECKING, Any

from spotrun_trainer.hooks.progress import progress
from spotrun_trainer.integrations.step_boundary import Order, StepBoundary

if TYPE_CHECKING:
    from torchtitan.trainer import Trainer

log = logging.getLogger(__name__)


def follow(trainer: "Trainer") -> None:
    """Report to a TrainingJob how far a Trainer is, and save before its workers change.

    Call it in all ranks, before `trainer.train()`. All ranks save after the same step, by the
    Trainer's own checkpointer and into its folder, and end there; `train()` continues from the
    newest one. Outside of a TrainingJob it does nothing.
    """
    followed = _Followed(trainer)
    trainer.checkpointer.load = followed.load
    trainer.checkpointer.save = followed.save
    trainer.metrics_processor.log = followed.log
    trainer.train = followed.train


class _Followed:
    """Stands between a Trainer and its checkpointer, which it calls after each step."""

    def __init__(self, trainer: Any) -> None:  # noqa: ANN401 - its class has types of many libraries
        self._trainer = trainer
        self._checkpointer = trainer.checkpointer
        self._load, self._save = trainer.checkpointer.load, trainer.checkpointer.save
        self._log, self._train = trainer.metrics_processor.log, trainer.train
        self._boundary = StepBoundary()
        self._saves = self._checkpointer.enable and not self._checkpointer.load_only
        self._ends = False

    def train(self) -> None:
        """Train as usual; code after the training does not run if a change ends it."""
        self._train()
        if self._ends:  # torch's @record around it treats the exit as a return
            raise SystemExit(0)

    def load(self, step: int = -1) -> bool:
        """Load as usual, report where the training continues, and listen for planned changes."""
        is_loaded: bool = self._load(step)
        progress(step=self._trainer.step, total_steps=self._trainer.config.training.steps)
        if self._saves:
            self._boundary.open()
        else:
            log.warning(
                "the Trainer saves no checkpoints: a change of the job's workers loses the steps "
                "so far"
            )
        return is_loaded

    def save(self, curr_step: int, last_step: bool = False) -> bool:
        """Save as usual, and if all ranks have agreed to."""
        progress(step=curr_step)
        is_saved: bool = self._save(curr_step, last_step)
        if last_step:
            self._boundary.close()
        if last_step or not self._saves:
            return is_saved
        order = self._boundary.look()
        if order is Order.GO_ON:
            return is_saved
        began = time.monotonic()
        if not is_saved:
            self._save_now(curr_step)
        self._checkpointer.maybe_wait_for_saving()
        self._boundary.wait_for_all()
        self._boundary.saved(time.monotonic() - began)
        if order is Order.SAVE_AND_END:
            self._ends = True
            self._boundary.end(curr_step)
        return True

    def log(self, step: int, global_avg_loss: float, *others: object, **more: object) -> None:
        """Log as usual, and report the loss."""
        self._log(step, global_avg_loss, *others, **more)
        progress(loss=global_avg_loss)

    def _save_now(self, step: int) -> None:
        """Save between two of the checkpointer's own turns, which are multiples of its interval."""
        interval = self._checkpointer.interval
        self._checkpointer.interval = 1
        try:
            self._save(step)
        finally:
            self._checkpointer.interval = interval
