"""A worker with a faulty GPU that makes no step: its process may wait for the GPU forever."""

from spotrun_trainer.process.progress_report import TrainerProgress

STANDS_SECONDS = 30.0
STANDS_STEPS = 3.0  # the times of a step, if that is longer


class Standstill:
    """Remembers how far a worker was, and since when."""

    def __init__(self) -> None:
        self._at: tuple[int, int, int] | None = None
        self._since = 0.0

    def is_too_long(self, progress: TrainerProgress, now: float) -> bool:
        """Whether it has shown no sign of life for too long, since this is asked.

        Of a script that reports no steps, nothing is known.
        """
        at = progress.world_number, progress.step, progress.signs
        if at != self._at:
            self._at, self._since = at, now
        patience = max(STANDS_SECONDS, STANDS_STEPS * (progress.step_seconds or 0.0))
        return progress.in_process and now - self._since > patience
