"""Datasets are mixed by weight, and a number of samples says where each of them is."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun_trainer.data import mix
from spotrun_trainer.data.map_dataset import MapDataset
from spotrun_trainer.data.mixing import PLACES, counts_of
from spotrun_trainer.data.order.sharding import Block
from spotrun_trainer.data.source import open_source


def letters(letter: str, count: int) -> MapDataset:
    return [f"{letter}{number}" for number in range(count)]


def drawn(count: int, first: int = 0, seed: int = 1, *, shuffle: bool = True) -> list[str]:
    mixed = mix([letters("a", 10), letters("b", 300)], weights=[0.25, 0.75])
    order = mixed.order(seed, shuffle=shuffle)
    return [str(mixed[order.sample(number).index]) for number in range(first, first + count)]


def test_each_is_drawn_as_often_as_its_weight_says() -> None:
    assert Counter(one[0] for one in drawn(PLACES)) == {"a": PLACES // 4, "b": 3 * PLACES // 4}
    few = Counter(one[0] for one in drawn(2000))
    assert 440 < few["a"] < 560


def test_each_gives_all_its_samples_before_one_comes_again() -> None:
    mixed = mix([letters("a", 10), letters("b", 30)], weights=[1, 1])
    order = mixed.order(1, shuffle=True)
    samples = [order.sample(number) for number in range(2 * PLACES)]

    for first, count in ((0, 10), (10, 30)):
        own = [one for one in samples if first <= one.index < first + count]
        for epoch in range(len(own) // count):
            passed = own[epoch * count : (epoch + 1) * count]
            assert {one.epoch for one in passed} == {epoch}
            assert len({one.index for one in passed}) == count


def test_unshuffled_each_is_read_in_its_order() -> None:
    own = [one for one in drawn(100, shuffle=False) if one[0] == "b"]
    assert own == [f"b{number}" for number in range(len(own))]


def test_it_goes_on_at_any_number() -> None:
    whole = drawn(40_000)
    assert drawn(1000, first=PLACES - 500) == whole[PLACES - 500 : PLACES + 500]
    assert drawn(100, first=39_900) == whole[39_900:]


@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=6))
def test_a_weight_is_met_within_a_place(weights: list[float]) -> None:
    counts = counts_of(weights)

    assert sum(counts) <= PLACES
    for count, weight in zip(counts, weights, strict=True):
        assert abs(count / sum(counts) - weight / sum(weights)) <= 1 / PLACES


@pytest.mark.parametrize(
    ("weights", "says"),
    [([1], "2 datasets and 1 weights"), ([1, 0], "more than 0"), ([1, 1e-9], "less than 1 / ")],
)
def test_mistakes_are_told(weights: list[float], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        mix([letters("a", 2), letters("b", 2)], weights)


def test_a_checkpoint_with_other_weights_is_refused() -> None:
    def opened(weights: list[float]) -> object:
        mixed = mix([letters("a", 20), letters("b", 20)], weights)
        return open_source(mixed, microbatch=2, seed=1, num_workers=0)

    source = opened([1, 1])
    state = source.state()  # type: ignore[attr-defined]
    opened([1, 1]).restore(state, 8)  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"mix .* then, mix .* now"):
        opened([1, 2]).restore(state, 8)  # type: ignore[attr-defined]


def test_a_source_loads_from_it() -> None:
    mixed = mix([letters("a", 20), letters("b", 20)], [1, 1])
    source = open_source(mixed, microbatch=4, seed=1, num_workers=1)
    try:
        batches = list(source.microbatches(Block(0, 5, 4)))
    finally:
        source.close()
    loaded = [one for batch in batches for one in batch]  # type: ignore[attr-defined]
    assert len(loaded) == 20
    assert {one[0] for one in loaded} == {"a", "b"}
