"""Weights & Biases: one run for a job, however often it is restarted."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spotrun_trainer.telemetry.trackers.tracker import Identity, Logged


class WeightsAndBiases:
    """A run with the job's UID as its id; a repeated step keeps its first values."""

    def __init__(self, job: Identity, folder: Path | None) -> None:
        import wandb  # noqa: PLC0415 - takes a second

        if wandb.run is not None:
            raise RuntimeError("the script has started a W&B run itself")
        self._run: Any = wandb.init(
            id=job.uid or None,
            name=job.name or None,
            group=job.namespace or None,
            # Offline there is nothing to resume: sent later, the same id makes it one run.
            resume="allow" if job.uid and not _is_offline() else None,
            dir=str(folder) if folder is not None else None,
            settings=wandb.Settings(console="off", silent=True),
        )

    def begin(self, step: int) -> None:
        """Do nothing: W&B leaves out the steps that it has."""

    def record(self, step: int, time: float, values: Mapping[str, Logged]) -> None:
        """Send the values of a step."""
        self._run.log(dict(values), step=step)

    def flush(self) -> None:
        """Do nothing: W&B sends by itself."""

    def close(self) -> None:
        """End the run; the next process resumes it."""
        self._run.finish()


def _is_offline() -> bool:
    return os.environ.get("WANDB_MODE") == "offline"
