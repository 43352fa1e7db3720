"""What one process wants to come of a step: it says so in the vote at the step's end."""

from spotrun_trainer import agreement
from spotrun_trainer.commit import Ballot
from spotrun_trainer.context import Context
from spotrun_trainer.interrupt import InterruptedStepError
from spotrun_trainer.saves import Saves
from spotrun_trainer.seat import has_boundary

CHECKSUM_STEPS = 100


class Wishes:
    """To save, to leave, to end the training, to change worlds."""

    def __init__(self, context: Context, saves: Saves) -> None:
        self.is_stopping = False  # run.stop() was called
        self.orders = context.orders()  # to save, that were followed, or meant another process
        self.step_seconds = 0.0  # of the last step
        self._context = context
        self._saves = saves

    def ballot(self) -> Ballot:
        """As they are now."""
        context = self._context
        number = context.step + 1
        is_ordered = context.orders() > self.orders
        is_leaving = context.interrupt.reason() is not None
        is_hopeless = is_leaving and not self._saves.fits(context.interrupt.seconds_left())
        # Over all processes, so it compares nothing where they hold different parts of the model.
        is_alike = context.seat.shards == 1
        is_compared = context.deterministic and is_alike and number % CHECKSUM_STEPS == 0
        return Ballot(
            save=int(is_ordered or self._saves.is_due(number)),
            leave=int(is_leaving),
            hopeless=int(is_hopeless),
            stop=int(self.is_stopping),
            change=int(has_boundary(context.world(), context.seat.generation)),
            checksum=agreement.checksum(context.tracked) if is_compared else 0,
        )

    def check_time(self) -> None:
        """Raise InterruptedStepError if this process has to end before a step could."""
        interrupt = self._context.interrupt
        if interrupt.reason() and interrupt.seconds_left() < self.step_seconds:
            raise InterruptedStepError(
                f"{interrupt.seconds_left():.1f} s are left, and a step takes "
                f"{self.step_seconds:.1f} s"
            )
