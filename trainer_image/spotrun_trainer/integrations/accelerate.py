"""A loop with accelerate: progress, a save before each planned change, and where to continue.

accelerator = Accelerator(log_with=SpotrunTracker())
checkpoints = Checkpoints(accelerator, folder, total_steps=1000)
for step in range(checkpoints.restore(), 1000):
    ...
    checkpoints.step_done(step + 1)
"""

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch.distributed as dist
from accelerate import Accelerator
from accelerate.tracking import GeneralTracker
from typing_extensions import override

from spotrun_trainer.hooks.progress import progress
from spotrun_trainer.integrations.step_boundary import Order, StepBoundary
from spotrun_trainer.integrations.whole_checkpoint import (
    made_by_all,
    newest_first,
    newest_whole,
    number_of,
)

_PREFIX = "step-"
_DRAFT = "draft-"


class SpotrunTracker(GeneralTracker):
    """Reports to a TrainingJob the values that are given to `accelerator.log`.

    Its `step` is not reported: scripts give epochs there, too.
    """

    name = "spotrun"
    requires_logging_directory = False

    @property
    def tracker(self) -> "SpotrunTracker":
        """Return itself: there is no run of another library."""
        return self

    @override
    def store_init_configuration(self, values: Mapping[str, object]) -> None:
        """Do nothing: a job's parameters are in its template."""

    @override
    def log(self, values: Mapping[str, object], step: int | None = None, **_: Any) -> None:
        """Report all values that are numbers."""
        progress(
            metrics={
                name: value for name, value in values.items() if isinstance(value, int | float)
            }
        )


class Checkpoints:
    """Checkpoints of `save_state`, in folders by step: whole or not there at all.

    All ranks save after the same step before a planned change, and end there. They also save every
    `every_steps` steps, if it is given. Outside of a TrainingJob there are no planned changes.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        folder: str | Path,
        *,
        total_steps: int,
        every_steps: int | None = None,
        keep: int = 2,
    ) -> None:
        """Keep the `keep` newest; make this after `accelerator.prepare`, in all ranks."""
        if keep < 1 or (every_steps is not None and every_steps < 1):
            raise ValueError(
                f"keep={keep}, every_steps={every_steps}: give whole numbers from 1 on, or leave "
                "every_steps out to save before changes only"
            )
        size = dist.get_world_size() if dist.is_initialized() else 1
        if accelerator.num_processes != size:
            raise ValueError(
                f"{size} processes were started, but accelerate trains in each of them alone: "
                "without GPUs, give Accelerator(cpu=True) or set ACCELERATE_USE_CPU=true"
            )
        self._accelerator = accelerator
        self._folder = Path(folder)
        self._total_steps = total_steps
        self._every_steps = every_steps
        self._keep = keep
        self._boundary = StepBoundary()

    def restore(self) -> int:
        """Load the newest whole checkpoint, in all ranks; return how many steps are done."""
        found = newest_whole(newest_first(self._folder, _PREFIX))
        step = 0
        if found is not None:
            self._accelerator.load_state(str(found))
            step = number_of(found, _PREFIX)
        progress(step=step, total_steps=self._total_steps)
        self._boundary.open()
        return step

    def step_done(self, step: int) -> None:
        """Save, if all ranks have agreed to or it is time; `step` is the number of steps done."""
        progress(step=step)
        order = self._boundary.look()
        is_time = self._every_steps is not None and step % self._every_steps == 0
        if order is not Order.GO_ON or is_time:
            self.save(step)
        if step >= self._total_steps:
            self._boundary.close()  # the rest of the script must not be ended here
        elif order is Order.SAVE_AND_END:
            self._boundary.end(step)

    def save(self, step: int) -> None:
        """Save in all ranks; the folder gets its name when all have written."""
        began = time.monotonic()
        draft = self._folder / f"{_DRAFT}{step}"
        is_first = self._accelerator.is_main_process
        wait_for_all = self._accelerator.wait_for_everyone
        here = self._folder / f"{_PREFIX}{step}"
        with made_by_all(here, draft=draft, is_first=is_first, wait_for_all=wait_for_all):
            self._accelerator.save_state(str(draft))
        if is_first:
            for old in newest_first(self._folder, _PREFIX)[self._keep :]:
                shutil.rmtree(old, ignore_errors=True)
        wait_for_all()
        self._boundary.saved(time.monotonic() - began)
