"""Saving in the local tier, and a start from it: the training's side of `checkpoint/tiers/`."""

from typing import Any

import torch

from spotrun_trainer.checkpoint import (
    Checkpoints,
    DamagedCheckpointError,
    UnreadableCheckpointError,
)
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.tiers.newest import Found
from spotrun_trainer.checkpoint.tiers.settings import read_settings
from spotrun_trainer.checkpoint.tiers.tier import LocalTier, Vote
from spotrun_trainer.elastic.world_context import Context
from spotrun_trainer.loop.loading.restore import Restored, naming, readers_of
from spotrun_trainer.loop.saving.save_schedule import SaveSchedule
from spotrun_trainer.loop.state_sync import texts_of_all
from spotrun_trainer.step.vote import StepVote
from spotrun_trainer.telemetry.console import say

_WHERE = "the local tier"


class LocalSaving:
    """One process's saves in the local tier; without a local tier nothing happens."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._tier = _tier_of(context)
        self._met_in = -1  # the world

    def meet(self) -> None:
        """Learn, once in each world, where the other workers have their folders."""
        context = self._context
        if self._tier is None or self._has_met:
            return
        said = texts_of_all(context.group, self._tier.introduce(), context.device)
        self._tier.meet(
            said,
            context.rank_info.rank,
            context.rank_info.local_size,
            secret=context.rank_info.secret,
            attempt=context.attempt(),
        )
        self._met_in = context.rank_info.world_number
        self._report()

    def vote(self, step: int) -> Vote:
        """Return this process's vote at the end of a step."""
        if self._tier is None or not self._has_met:
            return Vote()
        return self._tier.vote(step, decides=self._context.group.rank == 0)

    def is_wanted(self, votes: StepVote) -> bool:
        """Whether all processes save now; notes the step that all of them have by these votes."""
        if self._tier is None:
            return False
        vote = Vote(votes.local, votes.local_busy, votes.local_failed)
        if (name := self._tier.conclude(vote)) is not None:
            self._context.trace.mark("kept", step=name.step)
            self._report()
        return self._tier.is_wanted(vote)

    def begin(self, extra: dict[str, Any]) -> None:
        """Begin to save the last step that was done."""
        assert self._tier is not None, "it is wanted"
        context = self._context
        with context.meter.span("checkpoint"):
            self._tier.save(
                f"step-{context.step}.g{context.rank_info.world_number}",
                context.tracked.flatten(),
                rank=context.group.rank,
                size=context.group.size,
                extra=extra,
                parameters=context.tracked.parameters(),
            )

    def before_change(self) -> None:
        """Return once tensors may change."""
        if self._tier is not None:
            self._tier.before_change()

    def step_took(self, seconds: float) -> None:
        """Note the length of a step: steps beside a save show its cost."""
        if self._tier is not None:
            self._tier.step_took(seconds)

    def pack(self) -> str | None:
        """Return what a joining worker needs: the step that all others have."""
        complete = self._tier.complete if self._tier is not None else None
        return None if complete is None else str(complete)

    def unpack(self, complete: str | None) -> None:
        """Continue from another process's `pack()`."""
        if self._tier is not None and complete is not None:
            self._tier.complete = Name.parse(complete)

    def restore(self, checkpoints: Checkpoints) -> Restored | None:
        """Load the newest step that all workers' folders have together, if no checkpoint is newer.

        A damaged step is deleted on all workers, and then the durable checkpoint counts. Without
        one the processes must be started again, because tensors hold a part of what was read. They
        must also be started again if a worker does not answer: its part may be whole, so nothing is
        deleted.
        """
        if self._tier is None:
            return None
        durable = self._newest_durable(checkpoints)
        found = self._find(self._tier, durable)
        if found is None:
            return None
        checkpoints.end_preload()
        extra, failure = self._try_load(self._tier, found)
        if failure is None:
            self._report()
            return Restored(str(found.name), extra, _WHERE, is_durable=False)
        if isinstance(failure, UnreadableCheckpointError):
            raise failure
        say(f"{found.name} of {_WHERE} is not loaded: {failure}")
        self._tier.forget()
        self._report()
        if not durable:
            raise DamagedCheckpointError(f"{found.name} of {_WHERE} cannot be loaded: {failure}")
        return None

    @property
    def _has_met(self) -> bool:
        return self._met_in == self._context.rank_info.world_number

    def _report(self) -> None:
        """Report which step the tier has whole; the next report of progress carries it."""
        self._context.reporter.update(kept=self.pack())

    def _newest_durable(self, checkpoints: Checkpoints) -> str:
        context, name = self._context, self._context.rank_info.restore
        if name is None and context.group.rank == 0:
            name = checkpoints.newest()
        return context.group.text_from(0, name or "", device=context.device)

    def _find(self, tier: LocalTier, durable: str) -> Found | None:
        context = self._context
        held = tier.held() if context.rank_info.local_rank == 0 else "[]"
        return tier.find(texts_of_all(context.group, held, context.device), durable)

    def _try_load(
        self, tier: LocalTier, found: Found
    ) -> tuple[dict[str, Any], DamagedCheckpointError | UnreadableCheckpointError | None]:
        """Return the extra values, or why some process could not load the step.

        All processes return the same kind of error.
        """
        context, extra, own = self._context, dict[str, Any](), None
        group = context.group
        try:
            with naming(_WHERE):
                extra = tier.load(
                    found,
                    context.tracked,
                    rank=group.rank,
                    size=group.size,
                    readers=readers_of(group, context.device),
                )
        except (DamagedCheckpointError, UnreadableCheckpointError) as error:
            own = error
        failed = [own is not None, isinstance(own, UnreadableCheckpointError)]
        said = torch.tensor([*map(float, failed)], device=context.device)
        num_failed, num_unreadable = group.total(said)
        if num_unreadable:
            words = f"{found.name} of {_WHERE} could not be read: {own or 'another rank said so'}"
            return extra, UnreadableCheckpointError(f"{words}; it is kept for the next start")
        if num_failed:
            return extra, own or DamagedCheckpointError("another rank could not read it")
        return extra, None


def _tier_of(context: Context) -> LocalTier | None:
    """Return the local tier of a TrainingJob's worker; it needs a durable place behind it."""
    rank_info = context.rank_info
    if context.place is None or not rank_info.elastic:
        return None
    if (settings := read_settings(context.env)) is None:
        return None
    return LocalTier(
        settings,
        SaveSchedule(settings.every),
        shard=rank_info.shard,
        shards=rank_info.shards,
        stages=rank_info.stages,
    )
