"""One process's votes at the end of a step: to save, leave, stop, or change worlds."""

from torch.optim import Optimizer

from spotrun_trainer.elastic.rank_info import has_boundary
from spotrun_trainer.elastic.world_context import Context
from spotrun_trainer.loop import state_sync
from spotrun_trainer.loop.saving.saving import Saving
from spotrun_trainer.process.interrupt import InterruptedStepError
from spotrun_trainer.step.vote import StepVote

CHECKSUM_STEPS = 100
PART_STEPS = 10  # the interval at which a part is compared


class Voter:
    """Casts the votes of one process."""

    def __init__(self, context: Context, saving: Saving, stage: int = 0) -> None:
        self.is_stopping = False  # run.stop() was called
        self.orders = context.orders()  # to save: obeyed, or meant for an earlier process
        self.step_seconds = 0.0  # of the last step
        self._compared_in = -1  # the world
        self._context = context
        self._stage = stage  # the index of the stage that this process trains
        self._saving = saving

    def vote(self) -> StepVote:
        """Return the present vote."""
        context = self._context
        number, checksum = context.step + 1, self._checksum()
        is_ordered = context.orders() > self.orders
        is_leaving = context.interrupt.reason() is not None
        is_hopeless = is_leaving and not self._saving.fits(context.interrupt.seconds_left())
        local = self._saving.local.vote(number)
        return StepVote(
            local=local.due,
            local_busy=local.busy,
            local_failed=local.failed,
            save=int(is_ordered or self._saving.is_due(number)),
            leave=int(is_leaving),
            hopeless=int(is_hopeless),
            stop=int(self.is_stopping or context.stops() > self._stage),
            change=int(has_boundary(context.world(), context.rank_info.world_number)),
            durable=int(self._saving.is_durable),
            unsaved=int(self._saving.has_failed),
            checksum=checksum,
        )

    def _checksum(self) -> int:
        """Return the checksum to compare in the current step; 0 if none.

        It covers all weights when a world begins, and later one part at a time, all within
        CHECKSUM_STEPS. In deterministic mode it covers the whole state every CHECKSUM_STEPS.
        """
        context, number = self._context, self._context.step + 1
        # It is summed over all processes, so it is useless if they hold different parts.
        if context.rank_info.shards > 1 or context.group.size == 1:
            return 0
        optimizers = [one for one in context.things if isinstance(one, Optimizer)]
        if self._compared_in != context.rank_info.world_number:
            self._compared_in = context.rank_info.world_number
            return state_sync.checksum_of_weights(optimizers)
        if context.deterministic and number % CHECKSUM_STEPS == 0:
            return state_sync.checksum(context.tracked)
        turn, rest = divmod(number, PART_STEPS)
        parts = CHECKSUM_STEPS // PART_STEPS
        return 0 if rest else state_sync.checksum_of_weights(optimizers, turn % parts, parts)

    def check_time(self) -> None:
        """Raise InterruptedStepError if this process must end before a step can."""
        interrupt = self._context.interrupt
        if interrupt.reason() and interrupt.seconds_left() < self.step_seconds:
            raise InterruptedStepError(
                f"{interrupt.seconds_left():.1f} s are left, and a step takes "
                f"{self.step_seconds:.1f} s"
            )
