"""Means and sums over a dataset, divided among all processes of the world."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from typing_extensions import override

from spotrun_trainer.data.order.sharding import Block, deal
from spotrun_trainer.data.source import Source
from spotrun_trainer.elastic.errors import PeerLostError, WorldChangedError
from spotrun_trainer.elastic.membership import Membership
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.elastic.world_context import Context
from spotrun_trainer.loop.evaluation.metrics import Metric, Totals
from spotrun_trainer.loop.loop import Loop
from spotrun_trainer.parallel.fsdp import drop_whole_tensors, sharded_parts
from spotrun_trainer.parallel.pipeline import InStages
from spotrun_trainer.process.device import moved

LossFunction = Callable[[Any, Any], Metric]
"""A function of model and batch that returns the batch's mean loss, or a sum and its weight."""
MetricsFunction = Callable[[Any, Any], Mapping[str, Metric]]
"""A function of model and batch that returns several metrics by name."""
R = TypeVar("R")


class InterruptedEvaluationError(Exception):
    """A process must end; all processes know, and stop evaluating."""


class Participants:
    """The processes of one evaluation outside of a training."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.stages = group.plan.pipeline
        self.copies, self.copy = group.peers.size, group.peers.rank

    @property
    def times(self) -> int:
        """The number of processes of each copy that count a batch."""
        return self.group.size // self.copies // self.stages

    @property
    def first(self) -> int:
        """The rank of the first process that counts batches: it belongs to the last stage."""
        return self.times * (self.stages - 1)

    def check(self) -> None:
        """Raise PeerLostError if the world is known to be broken."""
        self.group.check()

    def commit(self, totals: Tensor) -> None:
        """Sum over all processes, in place; raises WorldChangedError if that failed."""
        self.group.all_reduce(totals).wait()

    def must_end(self) -> bool:
        """Whether this process must stop: never here, because only a training must be saved."""
        return False


class Alone(Participants):
    """One copy of the model, which evaluates by itself although the world has several."""

    def __init__(self, world: Group) -> None:
        super().__init__(world.along("pp"))
        self.stages, self.copies, self.copy = self.group.size, 1, 0
        self._world = world

    @override
    def check(self) -> None:
        self._world.check()


class TrainingParticipants(Participants):
    """The processes of a training's world, where an evaluation ends with a commit."""

    def __init__(self, context: Context, membership: Membership) -> None:
        super().__init__(context.group)
        self._context = context
        self._membership = membership

    @override
    def commit(self, totals: Tensor) -> None:
        self._membership.commit(totals)

    @override
    def must_end(self) -> bool:
        return self._context.interrupt.reason() is not None


def repeat_until_committed(context: Context, loop: Loop, attempt: Callable[[Participants], R]) -> R:
    """Evaluate in one world after another until all processes have committed the result."""
    membership = loop.membership
    with membership.evaluation():
        while True:
            try:
                if membership.evaluates_alone:
                    # One copy alone cannot stop together with the others: the next step handles an
                    # interrupt.
                    return attempt(Alone(context.group))
                return _or_leave(loop, attempt, TrainingParticipants(context, membership))
            except WorldChangedError:
                continue
            except PeerLostError as error:
                membership.change(error)


def _or_leave(loop: Loop, attempt: Callable[[Participants], R], participants: Participants) -> R:
    try:
        return attempt(participants)
    except InterruptedEvaluationError:
        loop.save_and_leave()
        raise WorldChangedError from None


def metrics(
    context: Context,
    model: nn.Module,
    source: Source,
    microbatch: int,
    function: LossFunction | MetricsFunction,
    *,
    participants: Participants,
    stages: InStages | None = None,
) -> float | dict[str, float]:
    """Compute each metric over all samples, for all processes; raises WorldChangedError.

    `stages` is what the function calls instead of the model, if this process has one stage of it.
    """
    if not source.length:
        raise ValueError("run.evaluate needs a dataset with a length, and samples in it")
    rounds = -(-source.length // microbatch)
    totals = Totals(context.device)
    copies = participants.copies
    own = _batches(source, plan(source.length, microbatch, copies, participants.copy))
    alarm = _Alarm(participants, context.device)
    with evaluating(model), context.meter.span("evaluate"):
        for _ in range(-(-rounds // copies)):  # as many rounds as the busiest process has
            for given, samples in _at_most_one(own):
                with _of_a_whole_world(participants):
                    batch = moved(given, context.device)
                    found = stages.measured(function, batch) if stages else function(model, batch)
                    if found is not None:
                        totals.add(found, samples)
            alarm.look()
            context.reporter.sign()
        participants.check()
        # The first copy always has a batch.
        kinds, first = totals.kinds(), participants.first
        totals.agree(participants.group.text_from(first, kinds, device=context.device))
        participants.commit(numbers := totals.numbers())
    return totals.results(numbers, copies=participants.times)


def plan(length: int, microbatch: int, size: int, rank: int) -> list[Block]:
    """Return a process's part of a dataset; the last microbatch may be smaller, without repeats."""
    whole, rest = divmod(length, microbatch)
    dealt = deal(whole + bool(rest), size, rank)
    count = min(dealt.stop, whole) - dealt.start
    blocks = [Block(dealt.start * microbatch, count, microbatch)] if count > 0 else []
    if rest and dealt and dealt.stop > whole:
        blocks.append(Block(whole * microbatch, 1, rest))
    return blocks


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Set all modules to evaluation mode, without gradients; restore each one's mode afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode
        drop_whole_tensors(sharded_parts([model]))


@contextmanager
def _of_a_whole_world(participants: Participants) -> Iterator[None]:
    """Treat an error as the loss of a peer, if numbers of a broken world may have caused it."""
    try:
        yield
    except Exception as error:
        try:
            participants.check()
        except PeerLostError as lost:
            raise lost from error
        raise


class _Alarm:
    """A flag by which all processes learn in the same round that one of them must end."""

    def __init__(self, participants: Participants, device: torch.device) -> None:
        self._participants = participants
        self._device = device
        self._raise = self._ring()

    def look(self) -> None:
        """Raise InterruptedEvaluationError if a process set the flag in the previous round."""
        self._participants.check()
        self._raise()
        self._raise = self._ring()

    def _ring(self) -> Callable[[], None]:
        flag = torch.tensor([float(self._participants.must_end())], device=self._device)
        pending = self._participants.group.all_reduce(flag)

        def check() -> None:
            pending.wait()
            if flag.item():
                raise InterruptedEvaluationError

        return check


def _batches(source: Source, blocks: list[Block]) -> Iterator[tuple[Any, int]]:
    for block in blocks:
        for batch in source.microbatches(block):
            yield batch, block.microbatch


def _at_most_one(batches: Iterator[tuple[Any, int]]) -> Iterator[tuple[Any, int]]:
    for one in batches:
        yield one
        return
