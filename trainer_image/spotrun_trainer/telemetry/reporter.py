"""Tells the agent how the training is: at once what it acts upon, the rest from time to time."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from spotrun_trainer.process.ipc_files import TrainerProgress, write_progress

log = logging.getLogger(__name__)

CALM_SECONDS = 0.5
_URGENT = frozenset(
    {
        *("generation", "entering", "ready", "in_process", "broken"),
        *("checkpoint", "completed", "failure", "exiting"),
    }
)


_OF_EACH = frozenset({"generation", "entering", "ready", "in_process", "broken"})
"""What each process of a worker tells: the rest the first one tells for all of them."""


class Reporter:
    """Writes for the whole worker in its first process; in others only where these are.

    `measured` gives fields that are always known, and is asked only when something is written.
    """

    def __init__(
        self,
        directory: Path | None,
        *,
        local_rank: int = 0,
        local_size: int = 1,
        measured: Callable[[], Mapping[str, Any]] = dict,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory = directory
        self._local_rank = local_rank
        self._measured = measured if local_rank == 0 else dict
        self._clock = clock
        self._progress = TrainerProgress(processes=local_size if local_rank == 0 else 1)
        self._changes: dict[str, Any] = {}
        self._written_at = float("-inf")
        self._signs = 0
        self._is_mute = False
        self._lock = threading.Lock()  # a thread that saves tells too

    def tell(self, **changes: Any) -> None:  # noqa: ANN401 - the fields of TrainerProgress
        """Change what is told; never raises, for training does not end because a disk is full."""
        if self._directory is None:
            return
        if self._local_rank:
            changes = {name: value for name, value in changes.items() if name in _OF_EACH}
        with self._lock:
            if not changes and not self._is_mute:
                return
            is_urgent = any(
                name in _URGENT and value != getattr(self._progress, name)
                for name, value in changes.items()
            )
            self._changes |= changes
            if is_urgent or self._clock() - self._written_at >= CALM_SECONDS:
                self._write(self._directory)

    def sign(self) -> None:
        """Give a sign of life where no step is done: who gives none for long counts as hung."""
        self._signs += 1
        self.tell(signs=self._signs)

    def close(self) -> None:
        """Tell what has not been told yet."""
        with self._lock:
            if self._directory is not None and (self._changes or self._is_mute):
                self._write(self._directory)

    def _write(self, directory: Path) -> None:
        self._written_at = self._clock()
        try:
            self._progress = replace(self._progress, **{**self._measured(), **self._changes})
            self._changes.clear()
            write_progress(directory, self._progress, self._local_rank)
        except (OSError, ValueError) as error:
            if not self._is_mute:
                log.warning("progress cannot be told, and the training goes on: %s", error)
            self._is_mute = True
        else:
            self._is_mute = False
