"""Batches in page-locked memory."""

from collections import OrderedDict, namedtuple
from typing import Any

import pytest

from spotrun_trainer.data.order.sharding import Block
from spotrun_trainer.data.source import open_source
from spotrun_trainer.data.workers.pin_memory import pinned
from tests.unit.trainer.data.datasets import Augmented

Point = namedtuple("Point", "x y")  # noqa: PYI024 - as untyped as users' ones


class Own:
    """What a collate function may make: it says itself how it is pinned."""

    def __init__(self, name: str) -> None:
        self.name = name

    def pin_memory(self) -> "Own":
        return Own(f"{self.name}, pinned")


def names(batch: object) -> Any:
    """The structure with names instead of those objects."""
    match batch:
        case Own():
            return batch.name
        case dict():
            return type(batch)((key, names(value)) for key, value in batch.items())
        case Point(x, y):
            return Point(names(x), names(y))
        case list() | tuple():
            return type(batch)(map(names, batch))
    return batch


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (Own("a"), "a, pinned"),
        ([Own("a"), "text", 3], ["a, pinned", "text", 3]),
        ((Own("a"), (Own("b"),)), ("a, pinned", ("b, pinned",))),
        (Point(Own("a"), None), Point("a, pinned", None)),
        (OrderedDict(a=[Own("a")]), OrderedDict(a=["a, pinned"])),
    ],
    ids=["object", "list", "tuples", "named tuple", "mapping"],
)
def test_what_can_be_pinned_is_and_the_structure_stays(batch: object, expected: object) -> None:
    result = names(pinned(batch))

    assert (type(result), result) == (type(expected), expected)


@pytest.mark.gpu
@pytest.mark.parametrize("num_workers", [0, 1])
def test_batches_are_pinned_where_there_is_a_gpu(num_workers: int) -> None:
    source = open_source(Augmented(9), microbatch=3, seed=1, num_workers=num_workers)
    batches: list[Any] = list(source.microbatches(Block(0, 3, 3)))
    source.close()

    assert all(batch["drawn"][0].is_pinned() for batch in batches)
