"""A step of the training, as scripts see it."""

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Protocol

from torch import Tensor
from torch.amp import GradScaler
from torch.optim import Optimizer
from typing_extensions import Self

from spotrun_trainer.data.order.resumption import Resumption, ranges_of
from spotrun_trainer.data.order.sharding import Block
from spotrun_trainer.elastic.errors import PeerLostError, WorldChangedError
from spotrun_trainer.parallel.pipeline import PipelineSchedule
from spotrun_trainer.process.device import memory_of
from spotrun_trainer.process.interrupt import InterruptedStepError
from spotrun_trainer.step.batch import TooLargeError
from spotrun_trainer.step.device_check import DisputedStepError
from spotrun_trainer.step.phase import Outcome, Phase, RehearsedError, Schedule
from spotrun_trainer.step.step_context import StepContext
from spotrun_trainer.step.vote import StepVote, sum_votes
from spotrun_trainer.telemetry.out_of_memory import explain, is_out_of_memory

_DISCARDING = (
    PeerLostError,
    WorldChangedError,
    InterruptedStepError,
    RehearsedError,
    TooLargeError,
    DisputedStepError,
)


class StepObserver(Protocol):
    """The receiver of a step's outcome."""

    @property
    def settled(self) -> list[Outcome]:
        """The outcomes of the current step's applied phases; a step appends to them."""

    def done(self, votes: StepVote) -> None:
        """Called once all processes have applied the step."""

    def discarded(self, error: Exception) -> None:
        """Called if no process applies the step."""


class Step:
    """A context manager around one step's work; if the world breaks in it, the step is repeated.

    Iterating yields the microbatches of this process, on its device.
    """

    def __init__(
        self,
        context: StepContext,
        observer: StepObserver,
        number: int,
        samples: int,
        *,
        gives_up: bool = False,
        resumption: Resumption | None = None,
    ) -> None:
        """Make a step; one that gives up computes nothing, and makes all processes drop it.

        `resumption` is this process's part of a step that continues after the world broke.
        """
        self.number = number  # the first is 1
        self._context = context
        self._observer = observer
        self._samples = samples  # used before this step
        self._gives_up = gives_up
        self._resumption = resumption
        self._given = list(observer.settled)  # outcomes applied before the world broke
        self._phases: list[Phase] = []
        self._kept: list[Any] | None = None  # batches, for phases that use them again
        self._is_left = False

    def __enter__(self) -> Self:
        self._context.begin(self.number, self._resumption)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> bool:
        self._is_left = True
        if error is None:
            self._current().check_updated(f"step {self.number}")
            self._observer.done(sum_votes([outcome.votes for outcome in self._observer.settled]))
            return False
        if isinstance(error, Exception) and not isinstance(error, _DISCARDING):
            # Numbers of a broken world are useless.
            error = self._context.lost() or self._too_large(error)
        goes_on = isinstance(error, (PeerLostError, WorldChangedError))
        self._context.discard(goes_on=goes_on)
        if not isinstance(error, _DISCARDING):
            return False
        self._observer.discarded(error)
        return True

    def __iter__(self) -> Iterator[Any]:
        return self._current().microbatches(self._load())

    def backward(
        self,
        loss: Tensor,
        *,
        weight: float | Tensor | None = None,
        mean_of: float | Tensor | None = None,
    ) -> None:
        """Compute gradients of a loss that is a mean, of `mean_of=y.numel()` things.

        For a loss that is their sum give `weight=y.numel()` instead.
        """
        if mean_of is None:
            self._current().backward(loss, weight)
            return
        if weight is not None:
            raise ValueError(
                "step.backward got weight= and mean_of=: give weight= with a sum, or "
                "mean_of= with a mean"
            )
        self._current().backward(loss, mean_of, times=mean_of)

    def pipeline(
        self,
        make: Callable[[], PipelineSchedule],
        *inputs: Any,  # noqa: ANN401 - the script's
        target: Any,  # noqa: ANN401
        weight: float | Tensor,
    ) -> None:
        """Compute gradients of a microbatch through the stages of a pipeline.

        `make` returns torch's schedule, whose loss is a sum of `weight` things; it is called once
        in each world. The first stage takes `inputs`, the last one `target`.
        """
        self._current().pipeline(make, inputs, target, weight)

    def inner_update(self, optimizer: Optimizer, *, clip: float | None = None) -> None:
        """Update this process's weights by itself, after `backward`; the others do the same.

        `step.update` then goes back to the weights at the start of the step, and uses the mean
        distance that the processes have moved as the gradient of an outer optimizer. Track that
        one, but not this one: its state belongs to the process. A microbatch is the batch of an
        inner step.
        """
        self._current().inner_update(optimizer, clip)

    def update(
        self,
        *optimizers: Optimizer,
        clip: float | None = None,
        schedule: Schedule | tuple[Schedule, ...] = (),
        scaler: GradScaler | None = None,
    ) -> None:
        """Sum gradients over all processes, commit, clip them to the norm `clip`, and step.

        A gradient is the sum of all losses' gradients divided by the sum of all weights. If the
        loss or a gradient is not finite, or there is no weight, all skip the step (`skipped`).
        """
        schedules = schedule if isinstance(schedule, tuple) else (schedule,)
        group = self._context.group
        outcome = self._current().update(optimizers, clip, schedules, scaler)
        if len(self._phases) > len(self._given):
            self._observer.settled.append(outcome)
        if self._context.group is not group and self._kept is not None:
            # The rest is divided again, and this phase's batches will not be loaded again.
            raise WorldChangedError

    @property
    def loss(self) -> Tensor:
        """The mean over all processes, known after `update`; `float(step.loss)` waits for it."""
        return self._result("step.loss").loss

    @property
    def sums(self) -> dict[str, Tensor]:
        """The sums of `run.sum`'s numbers over all processes, known after `update`."""
        return self._result("step.sums").sums

    @property
    def skipped(self) -> str:
        """The reason why the update changed nothing, known after it; an empty text if it did."""
        return self._result("step.skipped").skipped

    @property
    def norm(self) -> Tensor:
        """The norm of the gradient before it was clipped, known after `update(clip=...)`."""
        return self._result("step.norm").norm

    @property
    def weight(self) -> float | None:
        """The weight of this process's microbatches in the first phase; None if a tensor has it."""
        return self._phases[0].weight if self._phases else None

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Begin a phase: a part of the step with its own losses and update, on the same data."""
        if self._kept is None:
            if self._phases:
                raise ValueError(
                    f"the phase {name} began after the step's own loop: put that loop into a phase "
                    "too"
                )
            self._kept = []
        self._phases.append(self._open())
        yield
        self._phases[-1].check_updated(f"phase {name} of step {self.number}")

    def _too_large(self, error: Exception) -> Exception:
        """Return the error that a script's error means for a step: a smaller microbatch may fit."""
        context = self._context
        batch, is_amid_microbatch = context.batch, context.sums is not None
        # Another process of this copy gave up: then numbers are useless.
        is_given_up = is_amid_microbatch and context.is_given_up
        if not is_out_of_memory(error) and not is_given_up:
            return error
        can_shrink = batch.may_shrink and batch.smaller is not None and context.can_give_up
        if not is_given_up and not (is_amid_microbatch and can_shrink):
            explain(
                error,
                held=context.held_bytes(),
                capacity=memory_of(context.device),
                batch=(batch.global_batch, batch.microbatch),
            )
            return error
        traceback.clear_frames(error.__traceback__)  # they hold the microbatch's activations
        try:
            context.give_up()
        except PeerLostError as lost:
            return lost
        return TooLargeError(context.batch.microbatch, is_agreed=False)

    def _result(self, what: str) -> Phase:
        if self._is_left:
            # Raised in every step, not only in the first one after a worker was lost.
            raise ValueError(
                f"{what} was read after `with step:` had ended: read it inside, after "
                "step.update(...); a step that is dropped because a worker was lost has none"
            )
        return self._current()

    def _current(self) -> Phase:
        if not self._phases:
            self._phases.append(self._open())
        return self._phases[-1]

    def _open(self) -> Phase:
        number = len(self._phases)
        outcome = self._given[number] if number < len(self._given) else None
        is_kept = self._kept is None and not self._gives_up
        return Phase(
            self._context,
            self.number,
            number,
            outcome,
            gives_up=self._gives_up,
            is_kept=is_kept and outcome is None,
        )

    def _load(self) -> Iterator[Any]:
        if self._kept:
            yield from self._kept
            return
        context = self._context
        for block in self._blocks():
            for batch in context.source.microbatches(block):
                if self._kept is not None:
                    self._kept.append(batch)
                yield batch
        if (number := context.computed_again) is not None:
            size = context.batch.microbatch
            yield from context.source.microbatches(Block(self._samples + number * size, 1, size))

    def _blocks(self) -> list[Block]:
        context, resumption = self._context, self._context.resumption
        block = context.batch.block(self._samples, context.group.share)
        if context.is_rehearsal:
            return [replace(block, microbatches=1, stride=0)]
        if resumption is None:
            return [block]
        size = context.batch.microbatch
        return [
            replace(block, start=self._samples + first * size, microbatches=end - first)
            for first, end in ranges_of(resumption.computes)
        ]
