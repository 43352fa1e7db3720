"""The commit of one phase: every process gets the votes and sums of all, or the world breaks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from spotrun_trainer.process.device import put
from spotrun_trainer.step import vote
from spotrun_trainer.step.deterministic_reduce import sum_over
from spotrun_trainer.step.reduce.tree_sum import Node, TreeSum
from spotrun_trainer.step.step_context import StepContext
from spotrun_trainer.step.totals import Sums
from spotrun_trainer.step.vote import StepVote


@dataclass(frozen=True)
class Part:
    """One process's part in a commit."""

    dealt: Sequence[int]  # its microbatches
    sums: Sequence[Sums]  # of each of them in deterministic mode, else of all together
    missing: int  # parameters that got no gradient
    is_too_large: bool  # a microbatch did not fit
    square: Tensor | None  # its summand of the square of the gradient's norm, if that is summed


@dataclass(frozen=True)
class Committed:
    """The same in all processes."""

    votes: StepVote
    totals: Tensor
    square: Tensor | None


def commit(context: StepContext, part: Part) -> Committed:
    """Sum votes and numbers over all processes; either all of them get the sums, or none."""
    own = _own_vote(context, part)
    vectors = [one.vector(context.buffers) for one in part.sums]
    speeds = context.speeds.own()
    spoken = [*vote.encode(own), *speeds]
    votes = put(spoken, context.device)
    group, square = context.group, part.square
    if context.deterministic or group.is_divided_by_script:
        # Summed first, in a fixed order or over the same part of the model, so that all have the
        # sum when they commit.
        totals = _totals(context, part.dealt, vectors)
        context.commit(numbers := votes if square is None else torch.cat([votes, square]))
    else:  # all at once, because each wait for all others costs milliseconds
        vector, of_stage = _split(context, vectors[0])
        squares = [] if square is None else [square]
        context.commit(numbers := torch.cat([votes, vector, *squares]))
        totals = torch.cat([numbers[len(spoken) : len(spoken) + len(vector)], of_stage])
    # A single process has only its own vote, and need not wait for a GPU.
    told = spoken if group.size == 1 else numbers[: len(spoken)].tolist()
    outcome = vote.decode(told[: vote.SIZE])
    if context.group is not group:
        outcome = vote.without_plans(outcome)
    else:
        vote.check_equal(outcome, own, group.size)
        context.speeds.told(told[vote.SIZE :])
    if outcome.unknown:
        context.buffers.forget_agreement()
    return Committed(outcome, totals, None if square is None else numbers[-1:])


def _own_vote(context: StepContext, part: Part) -> StepVote:
    changed = set[int]().union(*(one.changed for one in part.sums))
    context.buffers.agree(context.group, changed, context.batch.microbatches)
    return replace(
        context.vote(),
        missing=part.missing,
        unknown=len(changed.difference(context.buffers.agreed)),
        too_large=int(part.is_too_large),
    )


def _split(context: StepContext, vector: Tensor) -> tuple[Tensor, Tensor]:
    """Return this process's summand of the sums over all, and what only its stage sums up.

    In a pipeline these are the changes of buffers: each stage has its own buffers.
    """
    group = context.group
    of_stage = vector[len(vector) :]
    if group.plan.pipeline > 1:
        vector, of_stage = vector.tensor_split([2 + len(context.sum_names)])
        if len(of_stage):
            group.sum_of_stage(of_stage)
    return (vector if group.counts else torch.zeros_like(vector)), of_stage


def _totals(context: StepContext, dealt: Sequence[int], vectors: Sequence[Tensor]) -> Tensor:
    if not context.deterministic:
        (vector,) = vectors
        context.group.peers.all_reduce(vector).wait()
        return vector
    tree = TreeSum[Tensor](torch.add)
    for number, vector in zip(dealt, vectors, strict=True):
        tree.push(Node(number, 1, vector))
    like = Sums(context.device, context.sum_names).vector(context.buffers)
    return sum_over(context.group.peers, tree.nodes, context.batch.microbatches, like=like)
