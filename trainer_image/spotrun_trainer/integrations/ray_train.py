"""`report(metrics, checkpoint=...)` as scripts for Ray Train call it; Ray is not needed.

    from spotrun_trainer.integrations import ray_train as train

A checkpoint is a folder that a worker has written. What all ranks report together becomes one
checkpoint of the job, in SPOTRUN_CHECKPOINT, and `get_checkpoint` returns the newest whole one.
"""

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import SupportsFloat

from spotrun_trainer.hooks.progress import progress
from spotrun_trainer.integrations.step_boundary import Order, StepBoundary
from spotrun_trainer.integrations.whole_checkpoint import (
    made_by_all,
    newest_first,
    newest_whole,
    number_of,
)

_PREFIX = "checkpoint_"
_DRAFT = "draft_"
_KEPT = 2
"""The number of checkpoints that are kept: a power cut may lose the last one with its disk's
cache."""


@dataclass(frozen=True)
class Checkpoint:
    """A folder with the state of a training."""

    path: Path

    @classmethod
    def from_directory(cls, path: str | Path) -> "Checkpoint":
        """Return the checkpoint that is in a folder."""
        return cls(Path(path))

    @contextmanager
    def as_directory(self) -> Iterator[str]:
        """Open the folder to read from."""
        yield str(self.path)


class Reporter:
    """The reports of one process to its job; all ranks make the same number."""

    def __init__(self, folder: Path, boundary: StepBoundary) -> None:
        self._folder = folder
        self._boundary = boundary
        self._order = Order.GO_ON
        self._goes_on_from = newest_whole(newest_first(folder, _PREFIX))
        last = newest_whole(newest_first(folder, _PREFIX), lambda _: True)  # also an incomplete one
        self._number = self._first_number = number_of(last, _PREFIX) if last is not None else 0
        self._reports = 0
        boundary.open()

    def report(
        self, metrics: Mapping[str, SupportsFloat], checkpoint: Checkpoint | None = None
    ) -> None:
        """Report metrics, keep a checkpoint, and end if that was the last one before a change."""
        self._reports += 1
        step = metrics.get("step")
        progress(step=step if isinstance(step, int) else None, metrics=metrics)
        self._order = max(self._order, self._boundary.look())
        if not self._boundary.is_so_for_any(checkpoint is not None):
            return
        self._keep(checkpoint)
        if self._order is Order.SAVE_AND_END:
            self._boundary.end(step if isinstance(step, int) else self._reports)
        self._order = Order.GO_ON

    @property
    def should_checkpoint(self) -> bool:
        """Whether the next report must have a checkpoint; the same in all ranks."""
        return self._order is not Order.GO_ON

    def _keep(self, checkpoint: Checkpoint | None) -> None:
        """Copy what this rank has written, if any; the checkpoint gets its name when all have."""
        began = time.monotonic()
        is_first = os.environ.get("RANK", "0") == "0"
        self._number += 1
        draft = self._folder / f"{_DRAFT}{self._number}"
        here = self._folder / f"{_PREFIX}{self._number:06}"
        wait_for_all = self._boundary.wait_for_all
        with made_by_all(here, draft=draft, is_first=is_first, wait_for_all=wait_for_all):
            if checkpoint is not None:
                shutil.copytree(checkpoint.path, draft, dirs_exist_ok=True)
        if is_first:
            self._remove_old()
        wait_for_all()
        self._boundary.saved(time.monotonic() - began)

    def _remove_old(self) -> None:
        made = self._number - self._first_number
        for old in newest_first(self._folder, _PREFIX)[_KEPT:]:
            # A newer one that is incomplete does not count instead of it.
            if old != self._goes_on_from or made >= _KEPT:
                shutil.rmtree(old, ignore_errors=True)


def report(metrics: Mapping[str, SupportsFloat], checkpoint: Checkpoint | None = None) -> None:
    """Report metrics, and keep a checkpoint if there is one; call it equally often in all ranks.

    The parts of all ranks become one checkpoint; ranks without a part wait for the others.

    With `step` among the metrics the job knows how far the training is. Where `should_checkpoint`
    asks for a checkpoint before a change, the process ends in the report that has one.
    """
    _reporter().report(metrics, checkpoint)


def should_checkpoint() -> bool:
    """Whether the next report must have a checkpoint: the job's workers are about to change."""
    return _reporter().should_checkpoint


def get_checkpoint() -> Checkpoint | None:
    """Return the newest whole checkpoint of the job; None if there is none."""
    found = newest_whole(newest_first(_folder(), _PREFIX))
    return Checkpoint(found) if found is not None else None


@cache
def _reporter() -> Reporter:
    return Reporter(_folder(), StepBoundary())


def _folder() -> Path:
    return Path(os.environ.get("SPOTRUN_CHECKPOINT", "checkpoints"))
