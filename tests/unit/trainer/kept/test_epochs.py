"""A loop over a loader goes on with the batch after the last one that was kept."""

from itertools import chain
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler

import spotrun_trainer
from tests.support.processes.trainer_world import run_world
from tests.unit.trainer.kept.trainings import Worker, on

SAMPLES, BATCH, EPOCHS = 48, 4, 2
NUMBERS: Any = range(SAMPLES)
Seen = list[tuple[int, int]]  # epoch, sample


def deal_out(stop_at: int) -> Seen:
    """Go through epochs, until so many steps are done; the samples are dealt out to all."""
    dist.init_process_group("gloo")
    sampler: DistributedSampler[int] = DistributedSampler(NUMBERS, seed=3)
    loader = DataLoader(NUMBERS, BATCH, sampler=sampler)
    kept = spotrun_trainer.keep(model=nn.Linear(1, 1))
    seen: Seen = []
    for epoch in kept.epochs(EPOCHS):
        sampler.set_epoch(epoch)
        for batch in kept.batches(loader):
            if kept.step == stop_at:
                return seen
            seen += [(epoch, int(sample)) for sample in batch]
    return seen


def draw(stop_at: int) -> tuple[Seen, list[float]]:
    """Go through epochs in an order that is drawn; return random numbers of the steps, too."""
    kept = spotrun_trainer.keep(model=nn.Linear(1, 1), seed=4)
    loader = DataLoader(NUMBERS, BATCH, shuffle=True, collate_fn=with_noise)
    seen, drawn = list[tuple[int, int]](), list[float]()
    for epoch in kept.epochs(EPOCHS):
        for batch, noise in kept.batches(loader):
            if kept.step == stop_at:
                return seen, drawn
            seen += [(epoch, sample) for sample in batch]
            drawn += [noise, float(torch.rand(1))]
    return seen, drawn


def with_noise(batch: list[int]) -> tuple[list[int], float]:
    """As a transform that draws random numbers in the process that trains."""
    return batch, float(torch.rand(1))


def run(function: Any, stop_at: int, *workers: Worker) -> list[Any]:
    ended = run_world(len(workers), function, stop_at, by_rank=on(*workers))
    assert [one.error for one in ended] == [""] * len(ended), "\n".join(one.said for one in ended)
    return [one.value for one in ended]


ALL = sorted((epoch, sample) for epoch in range(EPOCHS) for sample in range(SAMPLES))


@pytest.mark.parametrize(
    ("before", "stop_at", "after", "again"),
    [(2, 4, 2, 0), (2, 4, 1, 0), (2, 6, 2, 0), (2, 8, 3, 4), (2, 12, 1, 0), (1, 3, 2, 4)],
)
def test_every_sample_is_seen_once_an_epoch(
    before: int, stop_at: int, after: int, again: int
) -> None:
    """`again` samples are seen twice, where batches cannot be dealt out evenly."""
    workers = [Worker() for _ in range(max(before, after))]
    by_rank = run(deal_out, stop_at, *workers[:before]) + run(deal_out, -1, *workers[:after])
    seen = list(chain.from_iterable(by_rank))
    assert sorted(set(seen)) == ALL
    assert len(seen) == len(ALL) + again


@pytest.mark.parametrize("stop_at", [1, 5, 12, 15])
def test_orders_and_numbers_are_drawn_as_without_a_break(stop_at: int) -> None:
    worker = Worker()
    ((seen, drawn),) = run(draw, stop_at, worker)
    ((more_seen, more_drawn),) = run(draw, -1, worker)
    assert [(seen + more_seen, drawn + more_drawn)] == run(draw, -1, Worker())
