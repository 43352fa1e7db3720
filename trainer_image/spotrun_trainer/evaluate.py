"""The mean of a loss over a dataset, dealt to all processes of the world."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from spotrun_trainer.context import Context
from spotrun_trainer.data.deal import Block, deal
from spotrun_trainer.data.source import Source
from spotrun_trainer.device import moved
from spotrun_trainer.group import Group

Result = Tensor | tuple[Tensor, float | Tensor]
LossFunction = Callable[[Any, Any], Result]
"""Of the model and a batch: the batch's mean loss, or a sum and its weight."""


class InterruptedEvaluationError(Exception):
    """Some process has to end; all of them know, and none goes on evaluating."""


def mean_loss(
    context: Context,
    model: nn.Module,
    source: Source,
    microbatch: int,
    loss: LossFunction,
    *,
    group: Group,
    commit: Callable[[Tensor], None],
) -> float:
    """The mean over all samples, the same on all processes of the group.

    `commit` sums over them, or raises WorldChangedError.
    """
    if not source.length:
        raise ValueError("run.evaluate needs a dataset with a length, and samples in it")
    rounds = -(-source.length // microbatch)
    totals = torch.zeros(2, dtype=torch.float64, device=context.device)
    peers = group.peers
    own = _batches(source, plan(source.length, microbatch, peers.size, peers.rank))
    alarm = _Alarm(context, group)
    with evaluating(model), context.meter.span("evaluate"):
        for _ in range(-(-rounds // peers.size)):  # as many as the busiest process has
            for batch, samples in _at_most_one(own):
                result = loss(model, moved(batch, context.device))
                totals += _weighted(result, samples, context.device)
            alarm.look()
            context.reporter.sign()
        commit(totals)
    mean: float = (totals[0] / totals[1]).item()
    return mean


def plan(length: int, microbatch: int, size: int, rank: int) -> list[Block]:
    """A process's part of a dataset; the last microbatch is smaller, so that no sample is twice."""
    whole, rest = divmod(length, microbatch)
    dealt = deal(whole + bool(rest), size, rank)
    count = min(dealt.stop, whole) - dealt.start
    blocks = [Block(dealt.start * microbatch, count, microbatch)] if count > 0 else []
    if rest and dealt and dealt.stop > whole:
        blocks.append(Block(whole * microbatch, 1, rest))
    return blocks


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """All modules in evaluation mode, without gradients; afterwards each in its own mode again."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


class _Alarm:
    """Tells all processes in the same round that one has to end: the round before says so."""

    def __init__(self, context: Context, group: Group) -> None:
        self._context = context
        self._group = group
        self._raise = self._ring()

    def look(self) -> None:
        """Raise InterruptedEvaluationError if a process said so in the round before."""
        self._group.check()
        self._raise()
        self._raise = self._ring()

    def _ring(self) -> Callable[[], None]:
        said = torch.tensor([float(self._context.interrupt.reason() is not None)])
        said = said.to(self._context.device)
        pending = self._group.all_reduce(said)

        def check() -> None:
            pending.wait()
            if said.item():
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


def _weighted(result: Result, samples: int, device: torch.device) -> Tensor:
    loss, weight = result if isinstance(result, tuple) else (result * samples, samples)
    return torch.stack(
        [
            loss.double().reshape(()),
            torch.as_tensor(weight, dtype=torch.float64, device=device).reshape(()),
        ]
    )
