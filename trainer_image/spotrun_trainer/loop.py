"""From the first step to the last: what happens between steps."""

import time
from collections.abc import Iterator
from typing import Any, NoReturn

import torch
from torch import nn
from torch.optim import Optimizer

from spotrun_trainer import agreement, commit, platform_facts
from spotrun_trainer.batch import Batch
from spotrun_trainer.buffers import Buffers
from spotrun_trainer.checkpoint import CheckpointError
from spotrun_trainer.commit import Ballot
from spotrun_trainer.context import Context
from spotrun_trainer.data.source import Source
from spotrun_trainer.group import PeerLostError
from spotrun_trainer.interrupt import InterruptedStepError
from spotrun_trainer.logbook import say
from spotrun_trainer.restore import restore
from spotrun_trainer.rig import Rig
from spotrun_trainer.saves import FINISH_SECONDS, MARGIN_SECONDS, Saves
from spotrun_trainer.step import Step

CHECKSUM_STEPS = 100


class Loop:
    """The steps of a training in one world: enter, step after step, and complete or leave."""

    def __init__(
        self, context: Context, saves: Saves, source: Source, batch: Batch, total: int | None
    ) -> None:
        self.is_stopping = False  # run.stop() was called
        self._context = context
        self._saves = saves
        self._source = source
        self._batch = batch
        self._total = total
        self._samples = 0
        self._orders = context.orders()  # those that came before are about another process
        self._said = Ballot()  # by all together, in the step that was done last
        self._began = 0.0
        self._step_seconds = 0.0

    def steps(self) -> Iterator[Step]:
        """All steps that are left; one that was discarded comes again."""
        context = self._context
        try:
            rig = self._enter()
            while not self._is_over():
                self._began = time.monotonic()
                context.is_at_boundary = False
                yield Step(rig, self, context.step + 1, self._samples)
                if context.is_at_boundary:
                    self._act()
            self._complete()
        except PeerLostError as error:
            context.wait_for_next_world(error)
        finally:
            self._source.close()
            context.close()

    def done(self, said: Ballot) -> None:
        """A step was applied, on all processes."""
        self._step_seconds = time.monotonic() - self._began
        self._context.step += 1
        self._context.is_at_boundary = True
        self._samples += self._batch.global_batch
        self._said = said

    def discarded(self, error: Exception) -> None:
        """A step was not applied, on any process."""
        if isinstance(error, PeerLostError):
            self._context.wait_for_next_world(error)
        else:
            self._leave(f"step {self._context.step + 1} is dropped: {error}")

    def leave_now(self) -> NoReturn:
        """Outside of a step all processes have learned that one has to end: save, and leave."""
        context = self._context
        said = torch.tensor(commit.encode(self._vote()), dtype=torch.float64, device=context.device)
        context.group.all_reduce(said).wait()
        self._said = commit.decode(said.tolist())
        self._act()
        raise AssertionError("whoever said that it has to end says so again")

    def _enter(self) -> Rig:
        context = self._context
        self._say_if_idle()
        with context.meter.span("restore"):
            self._restore()
        context.reporter.tell(step=context.step, total=self._total, samples=self._samples)
        rig = Rig(
            group=context.group,
            source=self._source,
            batch=self._batch,
            buffers=Buffers(one for one in context.things if isinstance(one, nn.Module)),
            device=context.device,
            seed=context.seed,
            deterministic=context.deterministic,
            meter=context.meter,
            check_time=self._check_time,
            vote=self._vote,
            before_change=self._saves.before_change,
        )
        rig.use([one for one in context.things if isinstance(one, Optimizer)])
        # Until now there was nothing to lose, and SIGTERM ended the process as it always does.
        context.interrupt.listen()
        return rig

    def _restore(self) -> None:
        context = self._context
        restored = None
        if context.checkpoints is not None:
            restored = restore(
                context.seat, context.group, context.checkpoints, context.tracked, context.device
            )
        if restored is None:
            agreement.share(context.tracked.flatten().tensors, context.group, context.device)
            return
        if context.group.rank == 0:
            say(f"going on from {restored.name}")
        extra = restored.extra
        if context.deterministic:
            platform_facts.check(extra["platform"], platform_facts.facts(context.device))
        context.step, self._samples = extra["step"], extra["samples"]
        self._orders = extra["orders"] if context.seat.elastic else 0
        self._source.restore(extra["data"], self._samples)
        self._saves.restored(restored.name, context.step)

    def _act(self) -> None:
        """Do what all processes agreed on in the last step: save, leave."""
        said, context = self._said, self._context
        self._report()
        self._saves.look(self._step_seconds)
        if (said.save or said.leave) and not said.hopeless:
            self._orders = context.orders()
            self._saves.begin(self._extra())
        if not said.leave:
            return
        if context.interrupt.reason() is None and context.seat.elastic:
            self._finish_saving()
            context.wait_for_next_world(PeerLostError("a process of it was told to end"))
        hurry = ", with too little time to save it" if said.hopeless and context.place else ""
        self._leave(f"told to end, after step {context.step}{hurry}")

    def _report(self) -> None:
        context = self._context
        context.meter.step_done()
        context.reporter.tell(step=context.step, total=self._total, samples=self._samples)

    def _leave(self, why: str) -> NoReturn:
        self._finish_saving()
        self._context.leave(f"{why}; {self._saves.what_is_durable()}")

    def _finish_saving(self) -> None:
        """Wait for the last save as long as there is time."""
        interrupt = self._context.interrupt
        seconds = min(interrupt.seconds_left(), interrupt.grace_seconds) - MARGIN_SECONDS
        try:
            self._saves.finish(seconds)
        except CheckpointError as error:  # what was durable before still is
            say(str(error))

    def _complete(self) -> None:
        """The training is complete once its last state is durable."""
        context = self._context
        self._saves.begin(self._extra())
        if not self._saves.finish(FINISH_SECONDS):
            raise TimeoutError(
                "the training is complete, but its last checkpoint was not durable after "
                f"{FINISH_SECONDS:.0f} s; start it again, and it goes on from the one before"
            )
        context.reporter.tell(step=context.step, completed=True)

    def _extra(self) -> dict[str, Any]:
        context = self._context
        return {
            "step": context.step,
            "samples": self._samples,
            "orders": self._orders,
            "data": self._source.state(),
            "platform": platform_facts.facts(context.device) if context.deterministic else None,
        }

    def _vote(self) -> Ballot:
        """What this process has to say; it is asked at the end of a step."""
        context = self._context
        number = context.step + 1
        is_ordered = context.orders() > self._orders
        is_leaving = context.interrupt.reason() is not None
        is_hopeless = is_leaving and not self._saves.fits(context.interrupt.seconds_left())
        is_compared = context.deterministic and number % CHECKSUM_STEPS == 0
        return Ballot(
            save=int(is_ordered or self._saves.is_due(number)),
            leave=int(is_leaving),
            hopeless=int(is_hopeless),
            stop=int(self.is_stopping),
            checksum=agreement.checksum(context.tracked) if is_compared else 0,
        )

    def _check_time(self) -> None:
        interrupt = self._context.interrupt
        if interrupt.reason() and interrupt.seconds_left() < self._step_seconds:
            raise InterruptedStepError(
                f"{interrupt.seconds_left():.1f} s are left, and a step takes "
                f"{self._step_seconds:.1f} s"
            )

    def _is_over(self) -> bool:
        is_last = self._total is not None and self._context.step >= self._total
        return is_last or bool(self._said.stop)

    def _say_if_idle(self) -> None:
        size, microbatches = self._context.group.size, self._batch.microbatches
        if size > microbatches and self._context.group.rank == 0:
            say(
                f"{size} processes share {microbatches} microbatches, so {size - microbatches} of "
                "them have nothing to compute: choose a smaller microbatch, or fewer workers"
            )
