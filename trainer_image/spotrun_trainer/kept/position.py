"""The position of a training in its data: epochs, and batches of the current one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass
class Position:
    """Epochs that are done, and batches of the next one, those of all processes together.

    So it means the same samples at another number of processes, if a `DistributedSampler` deals
    them out in turn and the size of each process's batches stays the same.
    """

    epoch: int = 0
    batches: int = 0

    def skipped(self, processes: int) -> int:
        """Return how many batches each process has to skip.

        Rounded down: if they cannot be divided evenly, a few samples are trained on again.
        """
        return self.batches // processes

    def resume(self, processes: int) -> None:
        """Forget batches that are trained on again."""
        self.batches = self.skipped(processes) * processes

    def advance(self, processes: int) -> None:
        """Note that each process has done a batch."""
        self.batches += processes

    def end_epoch(self) -> None:
        """Note that an epoch is done."""
        self.epoch, self.batches = self.epoch + 1, 0

    def to_json(self) -> dict[str, int]:
        """Return it as it is kept."""
        return {"epoch": self.epoch, "batches": self.batches}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "Position":
        """Return the kept position; the start, if there is none."""
        return cls(int(kept.get("epoch", 0)), int(kept.get("batches", 0)))
