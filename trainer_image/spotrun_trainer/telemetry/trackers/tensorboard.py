"""TensorBoard's event files, by torch's writer; the package `tensorboard` must be installed."""

from collections.abc import Mapping
from pathlib import Path

from spotrun_trainer.telemetry.trackers.tracker import Logged, numbers


class TensorBoard:
    """Scalars in event files; TensorBoard itself drops what a later file repeats."""

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - takes a second

        self._make = SummaryWriter
        self._folder = folder
        self._writer: SummaryWriter | None = None

    def begin(self, step: int) -> None:
        """Open a file that tells readers to forget this step and later ones of older files."""
        self.close()
        self._writer = self._make(str(self._folder), purge_step=step)

    def record(self, step: int, time: float, values: Mapping[str, Logged]) -> None:
        """Write the numbers of a step."""
        assert self._writer is not None, "it has begun"
        for name, value in numbers(values).items():
            self._writer.add_scalar(name, value, step, walltime=time)

    def flush(self) -> None:
        """Make them visible to readers."""
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
