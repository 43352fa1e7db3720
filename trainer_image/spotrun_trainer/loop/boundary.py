"""The boundary between two steps, at which all processes do what they have voted for together."""

from spotrun_trainer.elastic.errors import LeftError
from spotrun_trainer.elastic.membership import Membership
from spotrun_trainer.elastic.world_context import Context
from spotrun_trainer.loop import completion
from spotrun_trainer.loop.position import Position
from spotrun_trainer.loop.saving.saving import Saving
from spotrun_trainer.loop.voter import Voter
from spotrun_trainer.step.device_check import DeviceCheck
from spotrun_trainer.step.vote import StepVote


class Boundary:
    """Acts on the votes of the last step: save, leave, change worlds."""

    def __init__(
        self,
        context: Context,
        saving: Saving,
        position: Position,
        voter: Voter,
        membership: Membership,
        *,
        device_check: DeviceCheck | None,
    ) -> None:
        self._context = context
        self._saving = saving
        self._position = position
        self._voter = voter
        self._membership = membership
        self._device_check = device_check
        self._save_waits = False  # for a step in which devices are checked

    def enter(self) -> None:
        """Begin in a new world: a process that has joined does not know which saves wait."""
        self._save_waits = False

    def act(self, votes: StepVote) -> None:
        """Act on the votes of all processes."""
        context = self._context
        self._report()
        self._saving.look(self._voter.step_seconds, votes)
        self._save(votes)
        if votes.leave and (
            context.interrupt.reason() is not None or not context.rank_info.elastic
        ):
            hurry = ", with too little time to save it" if votes.hopeless and context.place else ""
            completion.leave(
                context, self._saving, f"told to end, after step {context.step}{hurry}"
            )
        elif votes.leave:
            self._membership.change(LeftError("a process of it was told to end"))
        elif votes.change:
            self._membership.change(None)

    def _report(self) -> None:
        context = self._context
        context.meter.step_done()
        context.console_log.steps_done = context.step
        context.reporter.update(**self._position.told())

    def _save(self, votes: StepVote) -> None:
        """Begin the saves that are due, unless they would keep wrong numbers.

        Non-finite numbers may come from the weights, and such weights must not replace a good
        checkpoint.
        """
        is_good = not self._position.streak.steps and self._is_checked
        is_wanted = not votes.hopeless and (votes.leave or (self._is_save_due(votes) and is_good))
        is_wanted_locally = self._saving.local.is_wanted(votes) and is_good
        if not (is_wanted or is_wanted_locally):
            return
        if not completion.are_weights_finite(self._context):
            return
        if is_wanted_locally:
            self._saving.local.begin(self._position.pack())
        if is_wanted:
            self._voter.orders = self._context.orders()
            self._saving.begin(self._position.pack())

    @property
    def _is_checked(self) -> bool:
        """Whether devices were checked in the last step, if they are checked at all."""
        return self._device_check is None or self._device_check.is_done

    def _is_save_due(self, votes: StepVote) -> bool:
        """Whether to save, by the votes of this step or of one in which devices were not checked.

        Such a save waits for the next step, which is checked. So no checkpoint has the work of a
        device that goes on computing wrong numbers.
        """
        is_due = bool(votes.save) or self._save_waits
        self._save_waits = is_due and not self._is_checked
        if self._save_waits and self._device_check is not None:
            self._device_check.request()
        return is_due
