"""The trainer's reports to its agent: urgent fields at once, the others from time to time."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from spotrun import wire
from spotrun_trainer.process.ipc_files import write_progress
from spotrun_trainer.process.progress_report import TrainerProgress

log = logging.getLogger(__name__)

CALM_SECONDS = 0.5
_URGENT = frozenset(
    {
        *("world_number", "entering", "ready", "in_process", "broken"),
        *("checkpoint", "completed", "failure", "exiting", "save_failure"),
    }
)


_OF_EACH = frozenset({"world_number", "entering", "ready", "in_process", "broken", "save_failure"})
"""The fields that each process of a worker reports; the first reports the others for all."""


class Reporter:
    """Reports for the whole worker in its first process; in others only their world.

    `measured` returns fields that are always known, and is called only when something is written.
    So is `store`, with the number of the world: each process reports its requests to the object
    store.
    """

    def __init__(
        self,
        directory: Path | None,
        *,
        local_rank: int = 0,
        local_size: int = 1,
        measured: Callable[[], Mapping[str, Any]] = dict,
        store: Callable[[int], wire.StoreUse] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory = directory
        self._local_rank = local_rank
        self._measured = measured if local_rank == 0 else dict
        self._store = store
        self._clock = clock
        self._progress = TrainerProgress(processes=local_size if local_rank == 0 else 1)
        self._changes: dict[str, Any] = {}
        self._written_at = float("-inf")
        self._signs = 0
        self._has_failed = False
        self._lock = threading.Lock()  # a thread that saves reports, too

    def update(self, **changes: Any) -> None:  # noqa: ANN401 - the fields of TrainerProgress
        """Change the report; never raises, because a full disk must not end a training."""
        if self._directory is None:
            return
        if self._local_rank:
            changes = {name: value for name, value in changes.items() if name in _OF_EACH}
        with self._lock:
            if not changes and not self._has_failed and self._store is None:
                return
            is_urgent = any(
                name in _URGENT and value != getattr(self._progress, name)
                for name, value in changes.items()
            )
            self._changes |= changes
            if is_urgent or self._clock() - self._written_at >= CALM_SECONDS:
                self._write(self._directory)

    def sign(self) -> None:
        """Report a sign of life outside of steps: a worker without any counts as hung."""
        self._signs += 1
        self.update(signs=self._signs)

    def close(self) -> None:
        """Write what has not been written yet."""
        with self._lock:
            if self._directory is not None and (
                self._changes or self._has_failed or self._store is not None
            ):
                self._write(self._directory)

    def _write(self, directory: Path) -> None:
        self._written_at = self._clock()
        try:
            self._progress = replace(self._progress, **{**self._measured(), **self._changes})
            if self._store is not None:
                use = self._store(self._progress.world_number)
                self._progress = replace(self._progress, store=use)
            self._changes.clear()
            write_progress(directory, self._progress, self._local_rank)
        except (OSError, ValueError) as error:
            if not self._has_failed:
                log.warning("progress cannot be reported; the training continues: %s", error)
            self._has_failed = True
        else:
            self._has_failed = False
