"""The progress that a worker's processes report, carried over from those that have ended."""

from pathlib import Path

from spotrun_trainer.agent import next_action
from spotrun_trainer.process.ipc_files import ProgressFile
from spotrun_trainer.process.progress_report import TrainerProgress


class CarriedProgress:
    """The newest progress: that of the present processes, once they report any."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file = ProgressFile(directory)
        self._carried = TrainerProgress()  # the last progress of the processes of earlier worlds
        self.saves_on_order = False  # once its processes have shown that, the next ones do as well
        self._forget()

    def read(self) -> TrainerProgress:
        """Return the trainer's last report of its progress."""
        progress = self._file.read()
        self.saves_on_order = self.saves_on_order or next_action.saves_on_order(progress)
        is_empty = progress == TrainerProgress(saves_on_order=progress.saves_on_order)
        return self._carried if is_empty else progress

    def carry_on(self) -> None:
        """Keep what stays true after the processes that reported it; others are about to start."""
        last = self.read()
        self._carried = TrainerProgress(
            world_number=last.world_number,
            step=last.step,
            total=last.total,
            samples=last.samples,
            step_seconds=last.step_seconds,
            signs=last.signs,
            checkpoint=last.checkpoint,
            checkpoint_orders=last.checkpoint_orders,
            kept=last.kept,
        )
        self._forget()

    def _forget(self) -> None:
        """Delete the progress files of the last processes; the next ones begin without."""
        for file in self._directory.glob("progress*.json"):
            file.unlink(missing_ok=True)
