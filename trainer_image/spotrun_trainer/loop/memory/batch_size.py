"""The size of a step's microbatches: set by the script, or the largest that fits into memory.

"auto" begins with the largest size with which each process gets one. If a microbatch runs out of
memory in any process, all drop the step, and it is repeated with microbatches of half the size,
from the same samples. The found limit belongs to the training: it is saved in checkpoints, and sent
to joining workers.
"""

from typing import Literal

from spotrun_trainer.elastic.world_context import Context
from spotrun_trainer.step.batch import MOST_SAMPLES, Batch, largest_microbatch
from spotrun_trainer.telemetry.console import say

Microbatch = int | Literal["auto"]


class BatchSize:
    """The division of a step's samples in worlds of any size."""

    def __init__(self, global_batch: int, microbatch: Microbatch, parts: int = 1) -> None:
        """`parts` are the processes of a copy with samples of their own."""
        if isinstance(microbatch, str) and microbatch != "auto":
            raise ValueError(f'microbatch={microbatch!r}: give a number of samples, or "auto"')
        self.global_batch = global_batch
        self.limit: int | None = None  # larger microbatches did not fit; None: all fitted
        self._given = microbatch
        self._parts = parts
        self._said = 0
        self.of(1)  # raises for numbers that do not fit together

    @property
    def most_microbatches(self) -> int:
        """The most microbatches that a step may have, of all processes together."""
        if self._given == "auto":
            return self.global_batch
        return self.global_batch // self._given

    def check(self, context: Context) -> None:
        """Raise ValueError if microbatches cannot change their size."""
        if self._given != "auto":
            return
        if context.deterministic:
            raise ValueError(
                'microbatch="auto" depends on the memory and the number of the processes, and '
                "deterministic=True promises the same bits for all of them: give microbatch= a "
                "number"
            )
        if context.rank_info.shards > 1 and (context.mesh is None or context.rank_info.stages > 1):
            raise ValueError(
                'microbatch="auto" works neither with the stages of a pipeline nor with shards=: '
                "if one of the processes that share a model runs out of memory, the others wait "
                "for its message; give microbatch= a number (`kubectl tjob plan` says "
                "what fits)"
            )

    def of(self, processes: int) -> Batch:
        """Return the batch for this many processes."""
        if self._given != "auto":
            return Batch(self.global_batch, self._given)
        most = MOST_SAMPLES if self.limit is None else self.limit
        of_a_part, rest = divmod(max(0, self.global_batch), self._parts)
        # With a remainder no size works: `Batch.check_parts` reports that.
        size = 1 if rest or not of_a_part else largest_microbatch(of_a_part, processes, most)
        return Batch(self.global_batch, size, may_shrink=True, parts=self._parts)

    def shrink(self, microbatch: int, *, is_logged: bool) -> None:
        """Note that a size did not fit."""
        self.limit = Batch(self.global_batch, microbatch, parts=self._parts).smaller or 1
        if is_logged:
            say(
                f"a microbatch of {microbatch} samples did not fit into memory: the step is "
                f"repeated in microbatches of {self.limit} at most, and "
                f"global_batch={self.global_batch} stays"
            )

    def say_if_new(self, batch: Batch) -> None:
        """Log the chosen size, once."""
        if batch.may_shrink and batch.microbatch != self._said:
            say(
                f"microbatches have {batch.microbatch} samples, and a step has "
                f"{batch.microbatches} of them"
            )
            self._said = batch.microbatch

    def say_if_idle(self, processes: int) -> None:
        """Log it if some of the processes get no microbatch."""
        microbatches = self.most_microbatches
        if processes > microbatches:
            say(
                f"{processes} processes share {microbatches} microbatches, so "
                f"{processes - microbatches} of them have nothing to compute: choose a smaller "
                "microbatch, or fewer workers"
            )
