"""One pass over a step's microbatches, up to one update: gradients, commit, apply."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor
from torch.amp import GradScaler
from torch.optim import Optimizer

from spotrun_trainer.data.order.sharding import deal_to
from spotrun_trainer.parallel.pipeline import PipelineSchedule, compute
from spotrun_trainer.process.device import moved
from spotrun_trainer.process.rng import seed_all
from spotrun_trainer.step.batch import TooLargeError
from spotrun_trainer.step.checks.optimizers import check_inner, check_tracked, check_unfrozen
from spotrun_trainer.step.checks.schedules import check_schedules
from spotrun_trainer.step.commit.apply import apply
from spotrun_trainer.step.commit.commit import Part, commit
from spotrun_trainer.step.commit.norm import square_of_part
from spotrun_trainer.step.gradients import Gradients, clear
from spotrun_trainer.step.loss_guard import check_scaler, is_of_numbers
from spotrun_trainer.step.step_context import StepContext
from spotrun_trainer.step.totals import Sums
from spotrun_trainer.step.vote import StepVote

_OUTSIDE = -1  # outside microbatches random draws are the same on every rank


class RehearsedError(Exception):
    """A joining worker has computed a step as a rehearsal, which is not applied."""


class Schedule(Protocol):
    """A learning rate schedule as in torch."""

    def step(self) -> object:
        """Take one step."""


@dataclass(frozen=True)
class Outcome:
    """The result of a phase, the same for all processes."""

    votes: StepVote
    totals: Tensor
    norm: Tensor | None = None
    skipped: str = ""  # why nothing was applied


class Phase:
    """One phase: microbatches, gradients, commit, update.

    Nothing is applied before the commit has returned: by then every process has all sums, so either
    all of them apply the step, or the world has broken and the step is repeated. If the world
    breaks in a later phase, an applied phase has its outcome already, and computes nothing.
    """

    def __init__(
        self,
        context: StepContext,
        step: int,
        number: int,
        outcome: Outcome | None = None,
        *,
        gives_up: bool = False,
        is_kept: bool = False,
    ) -> None:
        """Begin a phase; `is_kept` says that computed microbatches are kept if the world breaks."""
        self._context = context
        self._is_settled = outcome is not None
        self.outcome = outcome
        self._key = (context.seed, step, number)
        self._number = number
        dealt: Sequence[int] = deal_to(context.batch.microbatches, context.group.share)
        if context.resumption is not None:
            dealt = context.resumption.computes
        self._gives_up = gives_up  # it computes nothing, and votes to drop the step
        self._dealt = dealt[: 0 if gives_up else 1 if context.is_rehearsal else None]
        self._partial = context.begin_partial() if is_kept else None
        if self._partial is not None:
            self._sums = [self._partial.sums]
        else:
            self._sums = [] if context.deterministic else [self._new_sums()]
        self._present: Sums | None = None  # of the microbatch that is being computed
        self._since_inner: float | Tensor = 0.0  # weight of losses
        self._is_begun = False
        self._is_through = False

    def microbatches(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the microbatches of this process, on its device."""
        if self._is_begun:
            raise ValueError(
                "a step gives its microbatches only once: to train two models on them, "
                'use `with step.phase("name"):` for each'
            )
        self._is_begun = True
        if self._is_settled:
            return
        context = self._context
        context.begin_phase(self._number, are_sent=self._gives_up)
        context.speeds.start(begins_step=self._number == 0)
        for number in self._dealt:
            context.check()
            with context.meter.span("data"):
                batch = next(batches)
            if context.deterministic:  # one for each leaf of the tree
                self._sums.append(self._new_sums())
            self._present = self._sums[-1] if self._partial is None else self._new_sums()
            if number == self._dealt[-1]:
                context.expect_last()
            seed_all(*self._key, number)
            context.sums = self._present
            yield moved(batch, context.device)
            context.sums = None
            context.check_fits()
            self._take(number)
        context.speeds.stop(len(self._dealt) * context.batch.microbatch)
        if self._number == 0 and context.computed_again is not None and not self._gives_up:
            yield from self._compute_again(context.computed_again, batches)
        seed_all(*self._key, _OUTSIDE)
        self._is_through = True

    def _compute_again(self, number: int, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield a microbatch of another process, whose gradients are compared and then dropped."""
        context = self._context
        context.check()
        batch = next(batches)
        seed_all(*self._key, number)
        context.sums = self._present = self._new_sums()
        yield moved(batch, context.device)
        context.sums = self._present = None
        if context.device_check is not None:
            context.device_check.note_second(context.present_gradients())
        for gradients in context.all_gradients():
            clear(gradients.parameters)
        context.buffers.set_back()

    def backward(
        self,
        loss: Tensor,
        weight: float | Tensor | None,
        times: float | Tensor | None = None,
    ) -> None:
        """Compute gradients of a loss, times `times` if given, and count it with its weight."""
        if self._context.group.plan.pipeline > 1:
            raise ValueError(
                "step.backward was called on a stage of a pipeline, which has no loss of its own: "
                "call step.pipeline(schedule, x, target=y, weight=y.numel())"
            )
        if weight is None:
            raise ValueError(
                "step.backward needs weight=, the number of things (targets, tokens) whose losses "
                "it sums, or mean_of=, the number over which it is the mean"
            )
        if loss.numel() != 1:
            raise ValueError(
                f"step.backward got a loss of shape {tuple(loss.shape)}, but it takes one number: "
                'its mean with mean_of=, or its sum with weight=, not reduction="none"'
            )
        scaler = self._context.scaler
        plain, scaled = (loss.detach(), loss) if scaler is None else scaler.scaled(loss)
        if (
            times is not None
        ):  # not earlier: the scaler would not recognize a loss that it has scaled
            plain, scaled = plain * times, scaled * times
        self._summing.add(plain.reshape(()), weight)
        self._since_inner = self._since_inner + weight
        scaled.backward()  # type: ignore[no-untyped-call]

    def inner_update(self, optimizer: Optimizer, clip: float | None) -> None:
        """Update by this process's gradients alone; `update` later sums up the results."""
        context = self._context
        if context.inner.count == 0:
            check_inner(context, optimizer)
            context.finish_giving()  # the tracked state changes, so no process may read it any more
            context.before_change()
        context.inner.update(optimizer, self._since_inner, clip)
        self._since_inner = 0.0

    def pipeline(
        self,
        make: Callable[[], PipelineSchedule],
        inputs: Sequence[Any],
        target: Any,  # noqa: ANN401 - the script's
        weight: float | Tensor,
    ) -> None:
        """Run a schedule on a microbatch, and count its loss with its weight."""
        context, group = self._context, self._context.group
        if group.plan.pipeline == 1:
            raise ValueError(
                "step.pipeline needs Run(parallel=Parallel(pipeline=...)) with 2 stages or more: "
                "if one process has all layers, call step.backward"
            )
        stage = group.plan.stage_of(group.number)
        is_first, is_last = stage == 0, stage == group.plan.pipeline - 1
        schedule = context.schedules.of(make, group)
        loss = compute(schedule, inputs, target, is_first=is_first, is_last=is_last)
        group.check()  # the numbers of a broken world are useless
        self._summing.add(loss.to(context.device), weight)

    def update(
        self,
        optimizers: Sequence[Optimizer],
        clip: float | None,
        schedules: Sequence[Schedule],
        scaler: GradScaler | None = None,
    ) -> Outcome:
        """Sum over all processes, commit, and only then change anything."""
        if self._is_settled and self.outcome is not None:
            self._is_settled = False
            return self.outcome
        self._check_through()
        context = self._context
        context.group.check()  # the last microbatch may come from a broken world
        group = context.group
        if clip is not None and group.is_divided_by_script:
            raise ValueError(
                "clip= needs the norm of the whole gradient, but a process has the gradient of "
                "its part of the model only: leave clip out if Run(shards=...) is above 1"
            )
        check_schedules(schedules)
        check_tracked(context, optimizers, schedules)
        is_in_parts = group.is_divided_by_script or group.plan.pipeline > 1
        check_scaler(context.scaler, scaler, is_in_parts=is_in_parts)
        if context.is_rehearsal:
            raise RehearsedError
        gradients = [context.gradients(optimizer) for optimizer in optimizers]
        self._hand_over(gradients)
        check_unfrozen(context, optimizers)
        with context.meter.span("communicate"):
            if self._number == 0 and context.device_check is not None:
                context.device_check.compare(self._key[1], group.peers)
            missing = context.reduce(self._number, optimizers)
            square = square_of_part(context, gradients, is_clipped=clip is not None)
            is_too_large = self._gives_up or context.is_given_up
            part = Part(self._dealt, self._sums, missing, is_too_large, square)
            committed = commit(context, part)
            context.partial = context.resumption = None  # all apply it, or all drop it
        votes = committed.votes
        if votes.too_large:
            context.buffers.forget_agreement()  # some have computed nothing that changes a buffer
            context.begin_anew()
            raise TooLargeError(context.batch.microbatch, is_agreed=True)
        context.before_change()
        some_missing = votes.missing > 0
        totals, square = committed.totals, committed.square
        norm, skipped = apply(
            context, gradients, totals, clip, some_missing=some_missing, square=square
        )
        context.drop_whole_tensors()
        self._conclude(gradients, is_applied=not skipped, some_missing=some_missing)
        for moving in () if skipped else (*optimizers, *schedules):
            moving.step()
        if context.scaler is not None:
            context.scaler.update(is_finite=not is_of_numbers(skipped))
        context.drop_gradients()
        self.outcome = Outcome(votes, totals, norm, skipped)
        return self.outcome

    @property
    def loss(self) -> Tensor:
        """The global mean; `float(loss)` waits for it."""
        if self.outcome is None:
            raise ValueError(
                "step.loss is known after step.update(...): it is a sum over all processes"
            )
        return self.outcome.totals[0] / self.outcome.totals[1]

    @property
    def weight(self) -> float | None:
        """The weight of this process's microbatches; None where it is in a tensor."""
        weights = [one.weight for one in self._sums]
        return None if any(isinstance(one, Tensor) for one in weights) else float(sum(weights))

    @property
    def sums(self) -> dict[str, Tensor]:
        """The script's own numbers, each summed over all microbatches."""
        if self.outcome is None:
            raise ValueError(
                "step.sums is known after step.update(...): they are sums over all processes"
            )
        names = self._context.sum_names
        return dict(zip(names, self.outcome.totals[2 : 2 + len(names)].unbind(), strict=True))

    @property
    def skipped(self) -> str:
        """The reason why nothing was applied; an empty text if it was."""
        if self.outcome is None:
            raise ValueError("step.skipped is known after step.update(...)")
        return self.outcome.skipped

    @property
    def norm(self) -> Tensor:
        """The gradient's norm before it was clipped."""
        if self.outcome is None or self.outcome.norm is None:
            raise ValueError("step.norm is known after step.update(..., clip=...)")
        return self.outcome.norm

    def check_updated(self, what: str) -> None:
        """Raise ValueError if it was not updated."""
        if self.outcome is None:
            raise ValueError(
                f"{what} ended without step.update(...): every process must call it in every step, "
                "even if it was dealt no microbatches, because all processes agree there"
            )

    def _new_sums(self) -> Sums:
        return Sums(self._context.device, self._context.sum_names)

    @property
    def _summing(self) -> Sums:
        """The sums of the current microbatch; after the last one, those of all."""
        return self._present or self._sums[-1]

    def _take(self, microbatch: int) -> None:
        context = self._context
        check = context.device_check if self._number == 0 else None
        if check is not None and check.is_compared(microbatch, context.group.peers.rank):
            check.note_first(context.present_gradients())
        for gradients in context.all_gradients():
            gradients.take(microbatch)
        is_last = microbatch == context.batch.microbatches - 1
        self._summing.add_changes(context.buffers.take_changes(is_last=is_last))
        if self._partial is not None and self._present is not None:
            self._partial.take(microbatch, self._present)
        self._present = None

    def _hand_over(self, gradients: Sequence[Gradients]) -> None:
        """Use the result of the inner steps as this process's gradient."""
        context = self._context
        if context.inner.count == 0:
            return
        if context.inner.count != len(self._dealt):
            raise ValueError(
                f"step.inner_update was called {context.inner.count} times in {len(self._dealt)} "
                "microbatches: call it once after each step.backward"
            )
        context.inner.hand_over(sum(one.weight for one in self._sums))
        for one in gradients:
            one.take(self._dealt[-1])

    def _conclude(
        self, gradients: Sequence[Gradients], *, is_applied: bool, some_missing: bool
    ) -> None:
        """Keep what the step leaves to the next one in this process only, or undo it."""
        if not is_applied:
            self._context.inner.set_back()
            return
        for one in gradients:
            one.note_applied(some_missing=some_missing)
        self._context.inner.keep()

    def _check_through(self) -> None:
        if self.outcome is not None:
            raise ValueError(
                "step.update was called twice: for two optimizers and one loss give both, "
                'step.update(a, b); for two losses use `with step.phase("name"):` for each'
            )
        if not self._is_through:
            raise ValueError(
                "step.update was called before the end of the step's microbatches: let the loop "
                "`for batch in step` run to its end, without break, or the sums are of another "
                "batch"
            )
