"""Shards are shuffled, then samples within windows: each sample once, few shards at a time."""

from hypothesis import given
from hypothesis import strategies as st

from spotrun_trainer.data.order.windows import WindowedOrder

LENGTHS = st.lists(st.integers(0, 40), min_size=1, max_size=12).filter(sum)


@given(LENGTHS, st.integers(1, 100), st.integers(0, 3), st.integers(0, 2))
def test_an_epoch_has_each_sample_once(
    lengths: list[int], window: int, seed: int, epoch: int
) -> None:
    order, total = WindowedOrder(lengths, window, seed=seed, shuffle=True), sum(lengths)
    samples = [order.sample(epoch * total + number) for number in range(total)]

    assert {sample.epoch for sample in samples} == {epoch}
    assert sorted(sample.index for sample in samples) == list(range(total))


@given(LENGTHS, st.integers(1, 100))
def test_a_window_needs_the_shards_of_one_stretch_of_the_line(
    lengths: list[int], window: int
) -> None:
    order, total = WindowedOrder(lengths, window, seed=1, shuffle=True), sum(lengths)
    shard_of = [shard for shard, length in enumerate(lengths) for _ in range(length)]
    shards = [shard_of[order.sample(number).index] for number in range(total)]
    windows = [set(shards[at : at + window]) for at in range(0, total, window)]

    for shard in set(shards):
        needed = [number for number, one in enumerate(windows) if shard in one]
        assert needed == list(range(needed[0], needed[-1] + 1))
        assert len(needed) <= lengths[shard] // window + 2


def test_epochs_and_seeds_have_other_orders() -> None:
    def indices(seed: int, epoch: int) -> list[int]:
        order = WindowedOrder([50] * 8, 100, seed=seed, shuffle=True)
        return [order.sample(epoch * 400 + number).index for number in range(400)]

    assert indices(1, 0) == indices(1, 0)
    assert len({tuple(indices(seed, epoch)) for seed in (1, 2) for epoch in (0, 1)}) == 4


def test_without_shuffling_it_is_the_order_of_the_shards() -> None:
    order = WindowedOrder([3, 2], None, seed=1, shuffle=False)

    assert [order.sample(number).index for number in range(7)] == [0, 1, 2, 3, 4, 0, 1]


def test_the_order_stays_the_same_for_ever() -> None:
    """Checkpoints rely on it."""
    order = WindowedOrder([4, 3, 5], 6, seed=7, shuffle=True)

    assert [order.sample(number).index for number in range(12)] == EXPECTED


EXPECTED = [10, 0, 7, 11, 8, 9, 4, 1, 5, 6, 2, 3]


def test_shards_of_other_lengths_are_another_order() -> None:
    states = [WindowedOrder(one, 6, seed=1, shuffle=True).state() for one in ([4, 3], [3, 4])]

    assert states[0] != states[1]
