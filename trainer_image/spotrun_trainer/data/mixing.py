"""Several datasets mixed by weight: a sample's number decides which dataset gives it.

A pattern of some thousand places has each dataset as often as its weight says, in an order that the
seed gives. The pattern is repeated. So it is known without counting how often each dataset was
drawn before a sample, and a training continues in all of them from one number.
"""

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from fractions import Fraction
from itertools import accumulate
from math import ceil, lcm
from typing import cast

from typing_extensions import override

from spotrun_trainer.data.cache.first_shards import FIRST_SHARDS
from spotrun_trainer.data.load import Json
from spotrun_trainer.data.map_dataset import MapDataset, length_of, may_draw
from spotrun_trainer.data.order.orders import OwnOrder, SampleOrder, order_of
from spotrun_trainer.data.order.seeds import sample_seed
from spotrun_trainer.data.order.shuffle import Sample, permutation_by

PLACES = 1 << 14
"""The most places in a pattern: weights are exact to 1 / 32,768."""


def mix(datasets: Sequence[MapDataset], weights: Sequence[float]) -> "Mixed":
    """Return a dataset that draws from several, as often from each as its weight says.

        train = mix([web, code], weights=[0.7, 0.3])

    A dataset that ends begins again, in another order. An epoch has as many samples as all datasets
    together.
    """
    return Mixed(datasets, weights)


class Mixed(OwnOrder):
    """Datasets that are drawn from by weight; an index counts through them one after the other."""

    def __init__(self, datasets: Sequence[MapDataset], weights: Sequence[float]) -> None:
        if len(datasets) != len(weights) or not datasets:
            raise ValueError(
                f"mix got {len(datasets)} datasets and {len(weights)} weights: give one weight for "
                "each dataset"
            )
        self._datasets = list(datasets)
        self._counts = counts_of(weights)
        self._ends = list(accumulate(map(length_of, datasets)))
        self._starts = [0, *self._ends[:-1]]
        self.draws = any(may_draw(one) for one in datasets)
        self.lead = max(
            ceil(one.lead * sum(self._counts) / count) if isinstance(one, OwnOrder) else 0
            for one, count in zip(datasets, self._counts, strict=True)
        )
        FIRST_SHARDS.opened(self)

    @override
    def __len__(self) -> int:
        return self._ends[-1]

    @override
    def __getitem__(self, index: int, /) -> object:
        if not 0 <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        number = bisect_right(self._ends, index)
        return self._datasets[number][index - self._starts[number]]

    @override
    def order(self, seed: int, *, shuffle: bool) -> "MixedOrder":
        orders = [
            order_of(one, len(one), seed=sample_seed(seed, number, -2), shuffle=shuffle)
            for number, one in enumerate(self._datasets)
        ]
        return MixedOrder(orders, self._counts, seed)

    @override
    def expect(self, index: int) -> None:
        dataset, _, within = self._at(index)
        if dataset is not None:
            dataset.expect(within)

    @override
    def part_of(self, index: int) -> Hashable:
        dataset, number, within = self._at(index)
        return number, None if dataset is None else dataset.part_of(within)

    @override
    def preload(self, index: int, most_bytes: int) -> int:
        dataset, _, within = self._at(index)
        return 0 if dataset is None else dataset.preload(within, most_bytes)

    def _at(self, index: int) -> tuple[OwnOrder | None, int, int]:
        """Return the dataset of a sample if it has shards, its number, and the index there."""
        number = bisect_right(self._ends, index)
        dataset = self._datasets[number]
        within = index - self._starts[number]
        return (dataset if isinstance(dataset, OwnOrder) else None), number, within


class MixedOrder:
    """The order of samples that several orders give in turn."""

    def __init__(self, orders: Sequence[SampleOrder], counts: Sequence[int], seed: int) -> None:
        self.length = sum(order.length for order in orders)
        self.seed = seed
        self._orders = orders
        self._counts = counts
        self._starts = [0, *accumulate(order.length for order in orders)]
        self._pattern = pattern_of(counts, seed)

    def sample(self, number: int) -> Sample:
        """Return the sample with this number, counted from the beginning of training."""
        turn, place = divmod(number, len(self._pattern))
        source, before = self._pattern[place]
        sample = self._orders[source].sample(turn * self._counts[source] + before)
        return Sample(sample.epoch, self._starts[source] + sample.index)

    def state(self) -> dict[str, Json]:
        """Return the values that define the order, also of each dataset."""
        states = [cast("Json", order.state()) for order in self._orders]
        return {"length": self.length, "seed": self.seed, "mix": [*self._counts], "of": states}


def counts_of(weights: Sequence[float]) -> list[int]:
    """Return how many places of a pattern each dataset has: exact for a simple ratio of weights."""
    if any(not 0 < weight < float("inf") for weight in weights):
        raise ValueError(f"weights={list(weights)}: each weight must be more than 0")
    exact = [Fraction(str(weight)) for weight in weights]
    scale = lcm(*(one.denominator for one in exact))
    whole = [int(one * scale) for one in exact]
    if (total := sum(whole)) <= PLACES:
        return [one * (PLACES // total) for one in whole]
    counts = [one * PLACES // total for one in whole]
    by_rest = sorted(range(len(whole)), key=lambda one: -(whole[one] * PLACES % total))
    for one in by_rest[: PLACES - sum(counts)]:
        counts[one] += 1
    if 0 in counts:
        raise ValueError(
            f"weights={list(weights)}: the smallest weight is less than 1 / {PLACES} of their sum"
        )
    return counts


def pattern_of(counts: Sequence[int], seed: int) -> list[tuple[int, int]]:
    """Return for each place the dataset, and how often it was drawn before in the pattern."""
    ends, drawn = list(accumulate(counts)), [0] * len(counts)
    shuffled = permutation_by(f"mix {seed}", ends[-1])
    pattern = list[tuple[int, int]]()
    for place in range(ends[-1]):
        source = bisect_right(ends, shuffled(place))
        pattern.append((source, drawn[source]))
        drawn[source] += 1
    return pattern
