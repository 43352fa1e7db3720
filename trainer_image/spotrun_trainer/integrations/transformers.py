"""Hugging Face's Trainer: progress, a save before each planned change, and where to continue.

trainer = Trainer(..., callbacks=[SpotrunCallback()])
trainer.train(resume_from_checkpoint=newest_checkpoint(trainer.args.output_dir))
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from typing_extensions import override

from spotrun_trainer.hooks.progress import progress
from spotrun_trainer.integrations.step_boundary import Order, StepBoundary
from spotrun_trainer.integrations.whole_checkpoint import (
    has_whole_files,
    newest_first,
    newest_whole,
)

_PREFIX = "checkpoint-"
_STATE = "trainer_state.json"
"""The last file that the Trainer writes into a checkpoint."""
_UNFINISHED = "checkpoint-is-incomplete.txt"
"""A file beside it while the Trainer's own save on SIGTERM (enable_jit_checkpoint) is under way."""


class SpotrunCallback(TrainerCallback):
    """Reports to a TrainingJob how far the Trainer is, and saves before its workers change.

    All ranks save after the same step, and end there. Outside of a TrainingJob it does nothing.
    """

    def __init__(self) -> None:
        self._boundary = StepBoundary()
        self._ends = False
        self._step_ended_at: float | None = None

    @override
    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Report where the training continues, and listen for planned changes from now on."""
        progress(step=state.global_step, total_steps=state.max_steps)
        self._boundary.open()

    @override
    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> TrainerControl:
        """Save, if all ranks have agreed to."""
        progress(step=state.global_step, total_steps=state.max_steps)
        order = self._boundary.look()
        if order is not Order.GO_ON:
            control.should_save = True  # may be taken back after an evaluation ("best")
        if order is Order.SAVE_AND_END and not control.should_training_stop:
            self._ends = True
            control.should_evaluate = False  # there may be no time for it
        self._step_ended_at = None if control.should_evaluate else time.monotonic()
        return control

    @override
    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Note how long it took, and end if that was the last save."""
        ended_at = self._step_ended_at
        self._boundary.saved(None if ended_at is None else time.monotonic() - ended_at)
        self._step_ended_at = None
        if self._ends:
            self._boundary.end(state.global_step)

    @override
    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, object] | None = None,
        **_: Any,
    ) -> None:
        """Report loss and metrics, those of an evaluation as well."""
        logged = (logs or {}).items()
        progress(metrics={name: value for name, value in logged if isinstance(value, int | float)})

    @override
    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Give signals back to the script."""
        self._boundary.close()


def newest_checkpoint(output_dir: str | Path) -> str | None:
    """Return the newest whole checkpoint of a Trainer's folder; None if there is none.

    An incomplete one is skipped. Call it in all processes: the first decides.
    """
    found = newest_whole(newest_first(Path(output_dir), _PREFIX), _is_whole)
    return str(found) if found is not None else None


def _is_whole(checkpoint: Path) -> bool:
    is_finished = (checkpoint / _STATE).is_file() and not (checkpoint / _UNFINISHED).exists()
    return is_finished and has_whole_files(checkpoint)
