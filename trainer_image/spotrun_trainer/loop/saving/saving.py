"""Saving the training: the schedule, the names, and the reports of checkpoints."""

import threading
import time
from contextlib import suppress
from typing import Any

from spotrun_trainer.checkpoint import (
    CheckpointError,
    Checkpoints,
    Saved,
    open_storage,
)
from spotrun_trainer.elastic.world_context import Context
from spotrun_trainer.loop.loading.restore import Restored
from spotrun_trainer.loop.saving.checkpoint_owner import owner_of
from spotrun_trainer.loop.saving.local_saving import LocalSaving
from spotrun_trainer.loop.saving.save_schedule import SaveSchedule
from spotrun_trainer.step.vote import StepVote
from spotrun_trainer.telemetry.console import say

MARGIN_SECONDS = 2.0  # for the last report, and for the process to end
FINISH_SECONDS = 1800.0
_SIGN_SECONDS = 5.0


class Saving:
    """One process's saves of its training."""

    def __init__(self, context: Context, schedule: SaveSchedule) -> None:
        self._context = context
        self._schedule = schedule
        self._in_flight: str | None = None
        self._begun: str | None = None  # the last save of this world
        self._begun_step = -1
        self._orders: dict[str, int] = {}  # the orders that came before the last save was begun
        self._durable: str | None = None
        self._acknowledged: str | None = None
        self._pruning: threading.Thread | None = None
        place = context.place
        self._storage = open_storage(place) if place is not None else None
        self._owner = owner_of(context, self._storage) if self._storage is not None else None
        self.local = LocalSaving(context)
        self.is_complete = False  # the training is complete, and its last checkpoint is durable
        self.has_failed = False  # could not write this process's part of the last save

    @property
    def is_in_flight(self) -> bool:
        """Whether a save is in flight."""
        return self._in_flight is not None

    @property
    def is_durable(self) -> bool:
        """Whether this process knows that the save that was begun last in this world is durable."""
        return self._begun is not None and self._begun == self._durable

    def check_place(self) -> None:
        """Refuse a place that cannot be written, before there is work to lose."""
        if self._storage is not None:
            self._storage.check()

    def take_place(self) -> None:
        """Take the folder, before anything in it is read; raises FolderInUseError.

        Under spotrun this first waits the grace period for workers of a deleted job to end.
        """
        interrupt, is_of_a_job = self._context.interrupt, self._context.rank_info.elastic
        if self._owner is not None and self._context.group.rank == 0:
            self._owner.take(patience_seconds=interrupt.grace_seconds if is_of_a_job else 0.0)

    def keep_place(self) -> None:
        """Keep other trainings out, if this is the world's first process; else leave it to that."""
        if self._owner is not None and self._context.group.rank == 0:
            self._owner.keep()
        elif self._owner is not None:
            self._owner.leave(is_over=False)

    def keep_place_while_waiting(self) -> None:
        """Keep other trainings out while there is no world: its first process may be lost."""
        if self._owner is not None:
            self._owner.stand_in()

    def leave_place(self) -> None:
        """Give up the folder: this process stops training, while others of its job may continue."""
        rank_info = self._context.rank_info
        if self._owner is not None:
            self._owner.leave(
                is_over=self.is_complete or not rank_info.elastic or rank_info.size == 1
            )

    def is_due(self, step: int) -> bool:
        """Whether to save at the end of this step, by the clock of rank 0."""
        context = self._context
        if context.checkpoints is None or context.group.rank != 0 or self.is_in_flight:
            return False
        answer = context.answer()
        self._schedule.follow(answer.save_every if answer is not None else None)
        return self._schedule.is_due(step)

    def fits(self, seconds: float) -> bool:
        """Whether a save that begins now will be durable within this time."""
        context = self._context
        if context.checkpoints is None:
            return False
        needed = context.checkpoints.estimate_seconds(
            context.tracked.flatten(), size=context.group.size
        )
        return needed + MARGIN_SECONDS <= seconds

    def begin(self, extra: dict[str, Any]) -> None:
        """Begin to save the last step that was done."""
        context = self._context
        if context.checkpoints is None or self._begun_step == context.step:
            return
        self._check_owner()
        name = f"step-{context.step}.g{context.rank_info.world_number}"
        orders = context.orders()
        with context.meter.span("checkpoint"):
            context.checkpoints.save(
                name,
                context.tracked.flatten(),
                rank=context.group.rank,
                size=context.group.size,
                extra=extra,
                parameters=context.tracked.parameters(),
            )
        self._in_flight, self._begun, self._begun_step = name, name, context.step
        self._orders = {name: orders}
        self.has_failed = False
        self._schedule.begun()

    def begin_alone(self, extra: dict[str, Any]) -> None:
        """Begin to save if there is time, and no other process whose part would be missing."""
        context = self._context
        has_time = self.fits(context.interrupt.seconds_left())
        if context.group.size == 1 and context.step > 0 and has_time:
            self.begin(extra)

    def before_change(self) -> None:
        """Return once tensors may change."""
        if self._context.checkpoints is not None:
            self._context.checkpoints.before_change()
        self.local.before_change()

    def look(self, step_seconds: float, votes: StepVote) -> None:
        """Note saves that have become durable or have failed; another process may have seen it."""
        self.local.step_took(step_seconds)
        self._schedule.step_took(step_seconds, is_saving=self.is_in_flight)
        self._check_owner()
        if self._context.checkpoints is None or self._in_flight is None:
            return
        if votes.durable:
            self._context.checkpoints.completed(self._in_flight)
        try:
            saved = self._context.checkpoints.finished()
        except CheckpointError as error:  # training is unharmed, and the next save may succeed
            self.failed(error)
            return
        if saved is not None:
            self._note(saved)
        elif votes.unsaved:  # without that part no process can complete the checkpoint
            self._context.checkpoints.wait_no_more()
            self.drop()
        self._prune_acknowledged()

    def look_while_waiting(self) -> None:
        """Note saves that have become durable, without checks or deletions."""
        if not self.is_in_flight:
            return
        try:
            self.finish(0.0)
        except CheckpointError as error:  # earlier checkpoints stay durable
            self.failed(error)

    def failed(self, error: CheckpointError) -> None:
        """Log why a save failed, tell the operator, and forget it."""
        say(str(error))
        self._context.reporter.update(save_failure=str(error))
        self.drop()
        self.has_failed = True

    def drop(self) -> None:
        """Forget the save in flight, so that the same step may be saved again."""
        self._in_flight, self._begun, self._begun_step = None, None, -1

    def finish(self, seconds: float) -> bool:
        """Wait until the save in flight is durable; return False if it takes longer."""
        context = self._context
        if context.checkpoints is None or not self.is_in_flight:
            return True
        with context.meter.span("checkpoint"):
            is_done = self._wait(context.checkpoints, seconds)
        saved = context.checkpoints.finished()
        if saved is not None:
            self._note(saved)
        return is_done

    def count_stored(self) -> None:
        """Measure the stored bytes, which cost money; one process does this, in any thread.

        If the store does not answer, it is done after the next save.
        """
        meter, checkpoints = self._context.store_meter, self._context.checkpoints
        if meter is None or checkpoints is None:
            return
        with suppress(OSError):
            if (stored := checkpoints.stored()) is not None:
                meter.note_stored(stored.bytes, stored.checkpoints)

    def _wait(self, checkpoints: Checkpoints, seconds: float) -> bool:
        """Wait, and report signs of life, so that the wait does not count as a hang."""
        until = time.monotonic() + seconds
        while not checkpoints.wait(max(0.0, min(until - time.monotonic(), _SIGN_SECONDS))):
            if time.monotonic() >= until:
                return False
            self._context.reporter.sign()
        return True

    def entered(self) -> None:
        """Enter another world: the parts of processes that left will not come."""
        if self._context.checkpoints is not None:
            self._context.checkpoints.enter(self._context.attempt())
        self._begun, self.has_failed = None, False
        if self.is_in_flight:
            self.drop()
            self._schedule.dropped()

    def restored(self, found: Restored, step: int) -> None:
        """Note where the training began; a loaded checkpoint need not be saved again."""
        named, reporter = self._context.rank_info.restore, self._context.reporter
        if not found.is_durable:
            self._durable = named
            reporter.update(step=step, restored=found.name)
            return
        self._durable, self._begun_step = found.name, step
        if named is None:  # the operator did not know about it
            reporter.update(
                step=step, checkpoint=found.name, checkpoint_orders=0, restored=found.name
            )

    def what_is_durable(self) -> str:
        """Return a phrase for the log: the checkpoint from which a next start continues."""
        if self._context.checkpoints is None:
            return "nothing was saved, because there is no place for checkpoints (checkpoint=...)"
        return f"the newest durable checkpoint: {self._durable or 'none'}"

    def _check_owner(self) -> None:
        if self._owner is not None:
            self._owner.check()

    def _note(self, saved: Saved) -> None:
        self._schedule.saved(saved)
        self._context.reporter.update(
            checkpoint=saved.name,
            checkpoint_orders=self._orders.get(saved.name, 0),
            save_failure=None,
            save_seconds=self._schedule.cost_seconds,
        )
        self._durable = saved.name
        if saved.name == self._in_flight:
            self._in_flight = None
        if not self._context.rank_info.elastic:
            self._prune(saved.name)

    def _prune(self, acknowledged: str) -> None:
        checkpoints = self._context.checkpoints
        if checkpoints is None or self._context.group.rank != 0:
            return
        if self._pruning is not None and self._pruning.is_alive():
            return  # the next prune deletes these as well
        self._acknowledged = acknowledged
        world, here = self._context.world(), self._context.rank_info.world_number
        world_number = max(here, world.number if world is not None else 0)
        answer = self._context.answer()
        keep = answer.keep if answer is not None else None

        def prune() -> None:
            try:
                checkpoints.prune(acknowledged, world_number=world_number, keep=keep)
            except OSError as error:
                say(f"old checkpoints could not be deleted: {error}")
            self.count_stored()

        # During training, because on a network file system deleting takes as long as writing.
        self._pruning = threading.Thread(target=prune, name="prune", daemon=True)
        self._pruning.start()

    def _prune_acknowledged(self) -> None:
        """Prune only after an acknowledgement, because the operator may still need older ones."""
        acknowledged = self._context.acknowledged()
        if acknowledged not in {None, self._acknowledged}:
            self._prune(str(acknowledged))
