"""The first shards of a training that goes on are in the node's cache before they are read."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun_trainer.data import mix
from spotrun_trainer.data.cache import first_shards
from spotrun_trainer.data.cache.first_shards import FirstShards, Position
from spotrun_trainer.data.cache.node_cache import NodeCache
from spotrun_trainer.data.cache.settings import node_cache
from spotrun_trainer.data.order.windows import WindowedOrder
from tests.unit.trainer.data.formats.files import SHARDS, TOTAL, fill, opened

SEED = 7
LENGTHS = (700, 1200, 500, 900, 300)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NodeCache:
    monkeypatch.setenv("SPOTRUN_DATA_CACHE", str(tmp_path / "cache"))
    return node_cache()


class Noted:
    """A dataset in shards that notes what is fetched."""

    lead = 1000

    def __init__(self, then: Callable[[], object] = lambda: None, num_bytes: int = 10) -> None:
        self.fetched = list[int]()
        self._then = then
        self._bytes = num_bytes

    def __len__(self) -> int:
        return sum(LENGTHS)

    def order(self, seed: int, *, shuffle: bool) -> WindowedOrder:
        return WindowedOrder(LENGTHS, self.lead, seed=seed, shuffle=shuffle)

    def part_of(self, index: int) -> int:
        return next(n for n in range(len(LENGTHS)) if index < sum(LENGTHS[: n + 1]))

    def preload(self, index: int, most_bytes: int) -> int:
        if self._bytes > most_bytes:
            return 0
        self.fetched.append(self.part_of(index))
        self._then()
        return self._bytes


def position(dataset: Any, sample: int = 0, *, shuffle: bool = True) -> Position:
    return Position(sample, dataset.order(SEED, shuffle=shuffle).state())


def wait() -> None:
    for thread in threading.enumerate():
        if thread.name == "first-shards":
            thread.join(30)
            assert not thread.is_alive()


def run(dataset: Any, found: Position | None) -> FirstShards:
    first = FirstShards()
    first.look_up(lambda: found)
    first.opened(dataset)
    wait()
    return first


@given(sample=st.integers(0, 3 * sum(LENGTHS)), shuffle=st.booleans())
def test_those_of_the_next_samples_are_fetched_once_and_in_their_order(
    sample: int, *, shuffle: bool
) -> None:
    dataset = Noted()
    first = run(dataset, position(dataset, sample, shuffle=shuffle))
    order = dataset.order(SEED, shuffle=shuffle)
    coming = [
        dataset.part_of(order.sample(sample + ahead).index)
        for ahead in range(first_shards.MOST_SAMPLES)
    ]
    assert dataset.fetched == list(dict.fromkeys(coming))
    assert first.end() == (len(dataset.fetched), 10 * len(dataset.fetched))
    assert first.end() == (0, 0)


def test_a_dataset_that_is_opened_before_the_run_counts_too() -> None:
    dataset, first = Noted(), FirstShards()
    first.opened(dataset)
    first.look_up(lambda: position(dataset))
    wait()
    assert dataset.fetched


def unreadable() -> Position:
    raise OSError("the store is away")


OTHERS: dict[str, Callable[[], Position | None]] = {
    "no checkpoint says": lambda: None,
    "one that cannot be read": unreadable,
    "another length": lambda: Position(0, {"length": 3, "seed": SEED}),
    "other data": lambda: Position(0, {**position(Noted()).order, "shards": "others"}),
    "no seed": lambda: Position(0, {"length": sum(LENGTHS)}),
}


@pytest.mark.parametrize("case", OTHERS)
def test_of_other_data_nothing_is_fetched(case: str) -> None:
    dataset, first = Noted(), FirstShards()
    first.look_up(OTHERS[case])
    first.opened(dataset)
    wait()
    assert dataset.fetched == []


def test_of_data_that_is_on_this_machine_nothing_is_looked_up(tmp_path: Path) -> None:
    fill(tmp_path / "data", "tokens")
    asked, first = list[bool](), FirstShards()
    first.look_up(lambda: asked.append(True))
    first.opened(opened(tmp_path / "data", "tokens"))
    wait()
    assert asked == []


def test_no_more_is_fetched_once_the_training_goes_on() -> None:
    dataset = Noted(then=lambda: first.end())  # noqa: PLW0108 - it is made later
    first = FirstShards()
    first.look_up(lambda: position(dataset, sum(LENGTHS) - 400))
    first.opened(dataset)
    wait()
    assert len(dataset.fetched) == 1
    first.opened(dataset)
    wait()
    assert len(dataset.fetched) == 1


def test_no_more_is_fetched_than_a_part_of_the_cache(cache: NodeCache) -> None:
    dataset = Noted(num_bytes=int(cache.limit_bytes * first_shards.SHARE_OF_CACHE / 2.5))
    run(dataset, position(dataset, sum(LENGTHS) - 400))
    assert len(dataset.fetched) == 2


@pytest.mark.parametrize("is_mixed", [False, True])
def test_what_was_fetched_is_found_when_it_is_read(
    tmp_path: Path, cache: NodeCache, *, is_mixed: bool
) -> None:
    fill(tmp_path / "data", "frames")
    data: Any = opened(tmp_path / "data", "frames", window=10)
    if is_mixed:
        fill(tmp_path / "more", "frames")
        data = mix([data, opened(tmp_path / "more", "frames", window=10)], weights=[2, 1])
    start, order = 2 * TOTAL, data.order(SEED, shuffle=True)
    first = run(data, position(data, start))
    made, fetched = cache.misses, first.end()
    assert fetched.shards >= len(SHARDS)
    assert fetched.bytes > 0
    for number in range(start, start + len(data)):
        data[order.sample(number).index]
    assert cache.misses == made
    again = run(data, position(data, start))  # another process of the node
    assert again.end() == (0, 0)


EXTRA: dict[str, tuple[dict[str, Any], Position | None]] = {
    "a training's": ({"samples": 5, "data": {"seed": 1}}, Position(5, {"seed": 1})),
    "none": ({}, None),
    "damaged": ({"samples": "many", "data": []}, None),
    "a number below zero": ({"samples": -1, "data": {}}, None),
}


@pytest.mark.parametrize("case", EXTRA)
def test_the_place_is_in_what_a_checkpoint_says(case: str) -> None:
    extra, expected = EXTRA[case]
    assert Position.saved_in(extra) == expected
