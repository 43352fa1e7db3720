"""The order of the samples: a permutation, as random as it has to be, and the same for ever."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import factorial, isqrt, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun_trainer.data.order.shuffle import Order, Sample, permutation


def shuffled(seed: int, epoch: int, length: int) -> list[int]:
    index = permutation(seed, epoch, length)
    return [index(position) for position in range(length)]


def deviations(counts: Sequence[int]) -> float:
    """How far counts are from equal: chi-square, in standard deviations of it."""
    expected = sum(counts) / len(counts)
    chi_square = sum((count - expected) ** 2 / expected for count in counts)
    freedom = len(counts) - 1
    return (chi_square - freedom) / sqrt(2 * freedom)


@given(st.integers(), st.integers(0, 1000), st.integers(1, 3000))
def test_every_index_comes_once_in_an_epoch(seed: int, epoch: int, length: int) -> None:
    assert list(range(length)) == sorted(shuffled(seed, epoch, length))


@given(st.integers(), st.integers(1, 500), st.lists(st.integers(0, 10**6), max_size=20))
def test_a_sample_is_looked_up_alone(seed: int, length: int, numbers: list[int]) -> None:
    order = Order(length, seed=seed, shuffle=True)
    backwards = {number: order.sample(number) for number in sorted(numbers, reverse=True)}

    for number in numbers:
        epoch, position = divmod(number, length)
        assert Sample(epoch, shuffled(seed, epoch, length)[position]) == backwards[number]


def test_without_shuffling_samples_come_as_they_are() -> None:
    order = Order(10, seed=1, shuffle=False)

    assert [Sample(0, 9), Sample(1, 0), Sample(1, 1)] == [order.sample(n) for n in (9, 10, 11)]


@pytest.mark.parametrize(
    ("seed", "epoch", "length", "expected"),
    [
        (0, 0, 1, [0]),
        (1, 0, 10, [4, 1, 8, 3, 6, 2, 0, 5, 7, 9]),
        (1, 1, 10, [0, 7, 3, 2, 8, 4, 6, 9, 5, 1]),
        (2, 0, 10, [7, 1, 6, 2, 8, 9, 4, 5, 3, 0]),
        (-7, 3, 255, [73, 136, 134, 49, 103, 181, 164, 156, 28, 176]),
        (1, 0, 256, [87, 71, 51, 187, 62, 226, 56, 97, 155, 22]),
        (
            1,
            0,
            1_281_167,
            [884906, 214843, 326894, 728683, 1102589, 485432, 790856, 819287, 19549, 885220],
        ),
        (
            2**64 + 1,
            2**40,
            10**12,
            [
                378856587116,
                653670691878,
                245882293368,
                312622955284,
                7283562394,
                14210232229,
                801887383974,
                627857063831,
                867958701457,
                874533208777,
            ],
        ),
    ],
)
def test_the_order_is_the_same_for_ever(
    seed: int, epoch: int, length: int, expected: list[int]
) -> None:
    # Checkpoints hold no order: these values must not change, or resumed trainings go wrong.
    index = permutation(seed, epoch, length)

    assert expected == [index(position) for position in range(min(length, 10))]


def test_the_end_of_a_great_epoch_is_reached_as_quickly_as_its_beginning() -> None:
    length = 10**15
    index = permutation(1, 0, length)

    assert len({index(length - 1 - position) for position in range(1000)}) == 1000


@pytest.mark.parametrize("length", [2, 3, 4, 5, 6])
def test_all_orders_of_a_few_samples_are_equally_likely(length: int) -> None:
    orders = Counter(tuple(shuffled(seed, 0, length)) for seed in range(20 * factorial(length)))

    assert factorial(length) == len(orders)
    assert abs(deviations(list(orders.values()))) < 5


@pytest.mark.parametrize("length", [7, 16, 60, 300])
def test_every_index_is_equally_likely_at_every_position(length: int) -> None:
    epochs = [shuffled(1, epoch, length) for epoch in range(600)]
    places = Counter((p, i) for epoch in epochs for p, i in enumerate(epoch))
    counts = [places[p, i] for p in range(length) for i in range(length)]

    assert abs(deviations(counts)) < 5


@pytest.mark.parametrize("length", [9, 60, 255, 256, 1000])
def test_neighbours_are_at_no_likely_distance(length: int) -> None:
    # In the grid of the Feistel network, positions next to each other, and one row apart.
    columns = isqrt(length - 1) + 1
    epochs = [shuffled(1, epoch, length) for epoch in range(200)]
    for apart in (1, columns):
        distances = Counter(
            (after - before) % length
            for epoch in epochs
            for before, after in zip(epoch, epoch[apart:], strict=False)
        )

        assert abs(deviations([distances[d] for d in range(1, length)])) < 5


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = [shuffled(seed, epoch, 1000) for seed in range(5) for epoch in range(5)]

    for one, other in pairwise(orders):
        assert sum(a == b for a, b in zip(one, other, strict=True)) < 10
