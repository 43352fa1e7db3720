"""The loader with real workers: the same batches whatever their number, and what is kept."""

import random
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spotrun_trainer.data.order.sharding import Block, Share, block_of
from spotrun_trainer.data.source import Source, open_source
from tests.unit.trainer.data.datasets import Augmented, Logged, Numbers, Stream

torch.set_num_threads(1)


def opened(dataset: Any, num_workers: int, **more: Any) -> Source:
    return open_source(dataset, microbatch=4, seed=5, num_workers=num_workers, **more)


def taken(source: Source, blocks: list[Block]) -> list[Any]:
    return [batch for block in blocks for batch in source.microbatches(block)]


def steps(count: int, *, size: int = 1, rank: int = 0) -> list[Block]:
    """Blocks of steps of 16 samples."""
    return [block_of(16 * step, 16, 4, Share(size, rank)) for step in range(count)]


def indices(batches: list[Any]) -> list[int]:
    return [int(index) for batch in batches for index in batch]


@pytest.fixture(scope="module")
def shared() -> Iterator[Source]:
    """Two workers that many tests ask, in any order."""
    source = opened(Numbers(50), 2)
    yield source
    source.close()


@pytest.mark.parametrize("num_workers", [1, 3])
def test_batches_are_the_same_bits_whatever_the_number_of_workers(num_workers: int) -> None:
    # 6 steps of 16 samples go across the end of an epoch of 50.
    alone = taken(opened(Augmented(50), 0), steps(6))
    source = opened(Augmented(50), num_workers)
    loaded = taken(source, steps(6))
    source.close()

    assert len(alone) == len(loaded) == 24
    for one, other in zip(alone, loaded, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_random_numbers_differ_from_sample_to_sample_and_epoch_to_epoch() -> None:
    batches = taken(opened(Augmented(32), 0), steps(4))

    for kind in range(3):
        drawn = torch.cat([batch["drawn"][kind].reshape(4, -1)[:, 0] for batch in batches])
        assert len(set(drawn.tolist())) == 64


def test_loading_in_the_training_process_leaves_its_generators_alone() -> None:
    def draw() -> tuple[float, float, float]:
        return random.random(), torch.rand(1).item(), np.random.rand()  # noqa: S311

    random.seed(1), torch.manual_seed(1), np.random.seed(1)
    expected = draw()
    random.seed(1), torch.manual_seed(1), np.random.seed(1)
    taken(opened(Augmented(50), 0), steps(1))

    assert expected == draw()


@given(st.data())
@settings(max_examples=40)
def test_a_block_is_what_its_numbers_say_whatever_was_expected_before(
    shared: Source, data: st.DataObject
) -> None:
    for _ in range(4):
        blocks = st.builds(
            Block, st.integers(0, 120), st.integers(0, 6), st.integers(1, 9), st.integers(0, 60)
        )
        if data.draw(st.booleans()):
            shared.expect(data.draw(blocks))
        block = data.draw(blocks)
        count = data.draw(st.integers(0, block.microbatches))
        batches = [batch for batch, _ in zip(shared.microbatches(block), range(count))]  # noqa: B905

        numbers = range(block.start, block.start + count * block.microbatch)
        alone = opened(Numbers(50), 0)
        expected = list(alone.microbatches(Block(block.start, count, block.microbatch)))
        assert indices(expected) == indices(batches)
        assert len(numbers) == len(indices(batches))


def test_the_steps_of_all_ranks_are_the_steps_of_one() -> None:
    sources = [opened(Numbers(50), 1) for _ in range(3)]
    together = [
        indices(taken(source, [block]))
        for number in range(4)
        for rank, source in enumerate(sources)
        for block in [steps(number + 1, size=3, rank=rank)[-1]]
    ]
    for source in sources:
        source.close()

    assert indices(taken(opened(Numbers(50), 0), steps(4))) == [*chain.from_iterable(together)]


def redealt(*numbers: list[int], rank: int) -> list[Block]:
    """Blocks of steps of 16 microbatches, which are dealt with these numbers."""
    return [
        block_of(64 * step, 64, 4, Share(len(one), rank, dealt=one))
        for step, one in enumerate(numbers)
    ]


@pytest.mark.parametrize("rank", [0, 1])
def test_another_dealing_drops_what_it_does_not_need_and_reads_nothing_twice(
    tmp_path: Path, rank: int
) -> None:
    dataset = Logged(64 * 8, tmp_path / "log")
    source = opened(dataset, 2, shuffle=False)
    used = indices(taken(source, redealt(*[[8, 8]] * 3, *[[10, 6]] * 3, rank=rank)))
    source.close()

    counts = [8, 8, 8, 10, 10, 10] if rank == 0 else [8, 8, 8, 6, 6, 6]
    firsts = [64 * step + (0 if rank == 0 else 64 - 4 * n) for step, n in enumerate(counts)]
    assert used == [
        one for first, n in zip(firsts, counts, strict=True) for one in range(first, first + 4 * n)
    ]
    read = dataset.used()
    assert len(read) == len(set(read))
    ahead = 4 * 2 * 2  # samples in the microbatches that two workers have loaded ahead
    assert len(read) - len(used) <= 2 * ahead  # at the change, and at the end


def test_a_stream_goes_back_a_little_for_another_dealing() -> None:
    dealings = [[8, 8], [8, 8], [4, 12], [4, 12], [12, 4], [8, 8]]
    whole = indices_of_stream(opened(Stream(1000), 0), redealt(*[[16]] * len(dealings), rank=0))
    sources = [opened(Stream(1000), 1) for _ in range(2)]
    blocks = [redealt(*dealings, rank=rank) for rank in range(2)]
    parts = [
        indices_of_stream(source, [blocks[rank][step]])
        for step in range(len(dealings))
        for rank, source in enumerate(sources)
    ]
    for source in sources:
        source.close()

    assert [*chain.from_iterable(parts)] == whole


def indices_of_stream(source: Source, blocks: list[Block]) -> list[int]:
    return [int(sample[0]) for batch in taken(source, blocks) for sample in batch]
