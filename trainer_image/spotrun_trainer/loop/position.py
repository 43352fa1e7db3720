"""The position of a training in its steps and data: what checkpoints hold besides the tensors."""

from collections.abc import Mapping
from typing import Any

from spotrun_trainer.data.source import Source
from spotrun_trainer.elastic.world_context import Context
from spotrun_trainer.loop.memory.batch_size import BatchSize
from spotrun_trainer.loop.voter import Voter
from spotrun_trainer.process import reproducibility
from spotrun_trainer.state.carry_over import apply_changes, given_options
from spotrun_trainer.state.stage_course import StageCourse
from spotrun_trainer.step.loss_guard import Streak
from spotrun_trainer.telemetry.console import say


class Position:
    """The position of a training; its step is in the context, where others read it, too."""

    def __init__(
        self,
        context: Context,
        source: Source,
        batch_size: BatchSize,
        voter: Voter,
        *,
        stage: StageCourse,
        total: int | None,
        counts_in_stage: bool,
    ) -> None:
        self.samples = 0  # used in this stage
        self.streak = Streak()
        self._context = context
        self._source = source
        self._batch_size = batch_size
        self._voter = voter
        self._stage = stage
        self._total = total
        self._counts_in_stage = counts_in_stage  # `total` was given as epochs
        self._given = given_options(context.tracked.things)  # before a checkpoint is loaded

    @property
    def last_step(self) -> int | None:
        """The step that ends this stage; None: no step does."""
        return self._stage.last_step(self._total, counts_here=self._counts_in_stage)

    def told(self) -> dict[str, int | None]:
        """Return what the operator is told about it."""
        samples = self._stage.samples_before + self.samples
        return {"step": self._context.step, "total": self.last_step, "samples": samples}

    def begin(self) -> None:
        """Begin at the first step."""
        self._context.step = self.samples = 0
        self._batch_size.limit = None  # a limit from a rehearsal holds for this process only

    def pack(self) -> dict[str, Any]:
        """Return what `go_on` continues from, here or in another process."""
        context = self._context
        return {
            "step": context.step,
            "samples": self.samples,
            "orders": self._voter.orders,
            "not_finite": self.streak.steps,
            "microbatch": self._batch_size.limit,
            "data": self._source.state(),
            "given": self._given,
            **self._stage.extra(),
            "platform": reproducibility.facts(context.device) if context.deterministic else None,
        }

    def go_on(self, packed: dict[str, Any]) -> None:
        """Continue from there."""
        context = self._context
        if context.deterministic:
            reproducibility.check(packed["platform"], reproducibility.facts(context.device))
        context.end_preload()
        context.step, self.samples = packed["step"], packed["samples"]
        self.streak.steps = packed.get("not_finite", 0)
        self._batch_size.limit = packed.get("microbatch")
        self._voter.orders = packed["orders"] if context.rank_info.elastic else 0
        if not self._stage.go_on(packed):
            self._source.restore(packed["data"], self.samples)
        else:
            self._begin_stage(packed["data"])

    def keep_new_options(self, packed: Mapping[str, Any]) -> None:
        """Keep optimizer options that the script has changed since the checkpoint."""
        apply_changes(self._context.tracked.things, packed.get("given", {}), self._given)

    def _begin_stage(self, data: object) -> None:
        """Continue in the data of the previous stage, or begin other data at its start."""
        if self._context.group.rank == 0:
            say(self._stage.words)
        self._batch_size.limit = None  # it was found with other samples
        if self._source.state() == data:
            self._source.restore(self._source.state(), self.samples)
        else:
            self._stage.samples_before += self.samples
            self.samples = 0
