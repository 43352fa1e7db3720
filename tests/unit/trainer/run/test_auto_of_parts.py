"""`microbatch="auto"` where several processes hold a copy: all of them give a microbatch up.

As in `test_auto_microbatch.py` a full memory is played, by torch's own error: amid the layers of
one process, where its mates wait for it in a collective, or after the last of these.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from typing_extensions import override

from spotrun_trainer import Parallel, Run
from spotrun_trainer.loop.memory.batch_size import BatchSize
from tests.support.processes.trainer_world import Ended, run_alone, run_world
from tests.unit.trainer.run.elastic import Jobs, this_is
from tests.unit.trainer.run.fully_sharded import Blocks, divide_layers, own_part
from tests.unit.trainer.run.scripts import Trained, dataset
from tests.unit.trainer.run.sharded import (
    FOUR,
    assert_losses_among,
    leave_to_the_other_copy,
    summed,
)
from tests.unit.trainer.run.test_fully_sharded import whole
from tests.unit.trainer.run.test_worlds import DieInCollective

GLOBAL_BATCH = 24
FORWARD, BACKWARD, AFTER = "forward", "backward", "after"
SHARDED, DIVIDED = Parallel(shard=2), Parallel(shard=2, tensor=2)


@dataclass(frozen=True)
class Memory:
    """A memory that holds microbatches of so many samples; where it is full, and since when."""

    samples: int
    rank: int | None = None
    worker: str | None = None
    step: int = 1
    count: int = 0
    place: str = FORWARD

    def is_full(self, rank: int, step: int, count: int, samples: int) -> bool:
        is_here = self.worker is None or this_is(self.worker)
        is_here &= self.rank in {None, rank}
        return is_here and step >= self.step and count >= self.count and samples > self.samples


@dataclass(frozen=True)
class Auto:
    """A training, what fits, and what happens meanwhile."""

    parallel: Parallel = SHARDED
    memories: tuple[Memory, ...] = ()
    microbatch: Any = "auto"
    total: int = 5
    checkpoint: str | None = None
    meanwhile: Callable[[Run, int, int], None] | None = None


@dataclass(frozen=True)
class Seen:
    """What a process computed."""

    trained: Trained
    sizes: list[list[int]]  # of microbatches, also of those that were given up


class Full(torch.autograd.Function):
    """Runs out of memory in its backward pass."""

    @staticmethod
    @override
    def forward(_context: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    @override
    def backward(_context: Any, *_gradients: Tensor) -> Tensor:
        raise full()


def full() -> Exception:
    return torch.OutOfMemoryError("played: no memory is left")


@contextmanager
def too_little(model: Blocks, place: str) -> Iterator[None]:
    """Let a block in the middle run out of memory."""

    def fills(_block: nn.Module, _given: Any, result: Tensor) -> Tensor:
        if place == FORWARD:
            raise full()
        filled: Tensor = Full.apply(result)
        return filled

    hook = model.blocks["1"].register_forward_hook(fills)
    try:
        yield
    finally:
        hook.remove()


def train_auto(plan: Auto) -> Seen:
    run = Run(1, parallel=plan.parallel, checkpoint=plan.checkpoint, every="2 steps")
    model = Blocks()
    if plan.parallel.tensor > 1:
        divide_layers(model, run)
    model = run.prepare(model, shard=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    run.track(model=model, optimizer=optimizer)
    losses, sizes = [], list[list[int]]()
    for step in run.steps(
        dataset(),
        global_batch=GLOBAL_BATCH,
        microbatch=plan.microbatch,
        total=plan.total,
        num_workers=0,
    ):
        with step:
            sizes.append(computed := [])
            for count, (x, y) in enumerate(step):
                computed.append(len(y))
                if plan.meanwhile:
                    plan.meanwhile(run, step.number, count)
                here = run.rank, step.number, count, len(y)
                place = next((one.place for one in plan.memories if one.is_full(*here)), "")
                if place in {FORWARD, BACKWARD}:
                    with too_little(model, place):
                        step.backward(summed(model(x), y), weight=len(y))
                else:
                    step.backward(summed(model(x), y), weight=len(y))
                if place == AFTER:
                    raise full()
            if plan.meanwhile:
                plan.meanwhile(run, step.number, -1)
            step.update(optimizer, clip=1.0)
            losses.append(float(step.loss))
    return Seen(Trained(losses, own_part(model)), sizes)


@cache
def alone() -> Seen:
    plan = Auto(Parallel(), microbatch=6)
    return values([run_alone(train_auto, plan)])[0]


def values(ended: Sequence[Ended]) -> list[Seen]:
    assert [one.error for one in ended] == [""] * len(ended), "\n".join(one.said for one in ended)
    return [one.value for one in ended]


def assert_learned(plan: Auto, seen: Sequence[Seen]) -> None:
    """Every sample was used once, in its step: losses and weights are those of one process."""
    expected = alone().trained
    for one in seen:
        assert_losses_among(one.trained.losses, expected.losses)
        assert sum(one.sizes[-1]) * len(seen) // plan.parallel.tensor == GLOBAL_BATCH
    if plan.parallel.tensor > 1:
        return
    for first in range(0, len(seen), plan.parallel.size):
        learned = whole([one.trained for one in seen[first : first + plan.parallel.size]])
        for name, weights in expected.weights.items():
            if name != "seen":
                torch.testing.assert_close(learned[name], weights, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize(
    ("parallel", "processes", "memory", "tried"),
    [
        (SHARDED, 2, Memory(6, rank=1), [12, 6]),
        (SHARDED, 2, Memory(3, rank=0, step=2, place=BACKWARD), [12, 6, 3]),
        (SHARDED, 2, Memory(6, rank=1, step=3, place=AFTER), [12, 6]),
        (SHARDED, 2, Memory(6, place=BACKWARD), [12, 6]),
        (SHARDED, 4, Memory(3, rank=2, step=2, place=BACKWARD), [6, 3]),
        (DIVIDED, 4, Memory(6, rank=1, step=2), [12, 6]),
        (DIVIDED, 4, Memory(6, rank=3, step=2, place=AFTER), [12, 6]),
        (Parallel(tensor=2), 2, Memory(6, rank=1, place=BACKWARD), [24, 12, 6]),
    ],
    ids=str,
)
def test_all_that_hold_a_model_halve_together(
    parallel: Parallel, processes: int, memory: Memory, tried: list[int]
) -> None:
    plan = Auto(parallel, (memory,))
    seen = values(run_world(processes, train_auto, plan))
    assert_learned(plan, seen)
    for one in seen:
        sizes = [size for step in one.sizes for size in step]
        assert list(dict.fromkeys(sizes)) == tried


def test_a_later_microbatch_of_a_step_may_be_the_one_too_many() -> None:
    later = Memory(4, rank=1, step=3, count=1, place=BACKWARD)
    plan = Auto(memories=(Memory(6), later))
    first, second = seen = values(run_world(2, train_auto, plan))
    assert second.sizes == [[12], [], [6, 6], [6, 6], [6, 6], [], *[[3] * 4] * 3]
    assert first.sizes == second.sizes
    assert_learned(plan, seen)


def test_a_restored_training_begins_with_what_was_found(tmp_path: Path) -> None:
    plan = Auto(memories=(Memory(3, rank=1),), total=3, checkpoint=str(tmp_path))
    values(run_world(2, train_auto, plan))
    longer = replace(plan, total=5)
    seen = values(run_world(4, train_auto, longer))
    assert {size for one in seen for step in one.sizes for size in step} == {3}
    assert_learned(longer, seen)


@pytest.mark.parametrize(
    "death",
    [
        DieInCollective("a1", 2, takes_part=False, count=0),  # amid the votes
        DieInCollective("b1", 4, takes_part=True, count=0),
        DieInCollective("a1", 1, takes_part=True),  # in the commit by which the step is dropped
        DieInCollective("b0", 1, takes_part=False),
    ],
    ids=str,
)
def test_a_world_that_breaks_while_a_copy_gives_up_loses_nothing(
    jobs: Jobs, death: DieInCollective
) -> None:
    full = Memory(3, worker="a0", step=3, place=BACKWARD), Memory(3, worker="b1", step=4)
    plan = Auto(memories=full, meanwhile=death)
    job = jobs.start(train_auto, plan, workers=FOUR)
    others, _ = leave_to_the_other_copy(job, death.worker)
    seen = values(job.ended(*others))
    assert_learned(plan, seen)
    assert {size for one in seen for size in one.sizes[-1]} == {3}


def with_an_error_of_its_own() -> None:
    """The loop's last loss is not there where a step is given up."""
    run = Run(parallel=SHARDED)
    model = run.prepare(Blocks(), shard=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run.track(model=model, optimizer=optimizer)
    for step in run.steps(dataset(), global_batch=8, microbatch="auto", total=1, num_workers=0):
        with step:
            losses = []
            for x, y in step:
                with too_little(model, FORWARD):
                    losses.append(summed(model(x), y))
            step.backward(losses[-1], weight=1)
            step.update(optimizer)


def test_an_error_in_a_step_that_is_given_up_is_raised() -> None:
    for ended in run_world(2, with_an_error_of_its_own):
        assert "IndexError: list index out of range" in ended.error


def in_stages() -> None:
    run = Run(parallel=Parallel(pipeline=2))
    run.track(model=run.prepare(nn.Linear(2, 2)))
    run.steps(dataset(), global_batch=4, microbatch="auto")


def of_too_few_samples() -> None:
    run = Run(parallel=Parallel(shard=2))
    run.track(model=run.prepare(nn.Linear(2, 2), shard=True))
    run.steps(dataset(), global_batch=5, microbatch="auto")


def test_where_it_cannot_be_that_is_said() -> None:
    for ended in run_world(2, in_stages):
        assert "neither with the stages of a pipeline nor with shards=" in ended.error
    for ended in run_world(2, of_too_few_samples):
        assert "global_batch=5 cannot be divided evenly among the 2 processes" in ended.error


def test_sizes_divide_what_each_part_of_a_copy_gets() -> None:
    size, sizes = BatchSize(GLOBAL_BATCH, "auto", parts=4), [6]
    while (smaller := size.of(1).smaller) is not None:
        size.shrink(size.of(1).microbatch, is_logged=False)
        sizes.append(smaller)
    assert sizes == [6, 3, 1]
    assert size.of(3).microbatches % 4 == 0
