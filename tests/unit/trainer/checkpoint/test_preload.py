"""A checkpoint that is fetched from a store before it is loaded."""

from collections.abc import Iterator
from threading import Event

import obstore
import pytest
from obstore.store import MemoryStore, ObjectStore

from spotrun_trainer.checkpoint import Checkpoints
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.reading.preload import preload
from spotrun_trainer.checkpoint.format.reading.reader import Reader
from spotrun_trainer.checkpoint.places import requests
from spotrun_trainer.checkpoint.places.objects import Objects
from spotrun_trainer.store import read_ahead
from spotrun_trainer.store.addresses import Address
from tests.unit.trainer.checkpoint.states import NAME, same, small_training

PLENTY = 1 << 30


class Ranges:
    """The ranges of objects that were asked for; `arrived` is set with each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = list[tuple[str, int, int]]()
        self.arrived = Event()
        ask = requests.get_range

        def noted(store: ObjectStore, path: str, start: int, stop: int) -> obstore.Bytes:
            self.asked.append((path, start, stop))
            content = ask(store, path, start, stop)
            self.arrived.set()
            return content

        monkeypatch.setattr(requests, "get_range", noted)


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch) -> Ranges:
    return Ranges(monkeypatch)


@pytest.fixture
def place() -> Objects:
    """A store that has a checkpoint."""
    store = MemoryStore()
    place = Objects(Address.parse("s3://bucket"), store, store)
    opened = Checkpoints(place, keep=1)
    opened.save(NAME, small_training(seed=1).flatten(), rank=0, size=1, extra={"step": 10})
    assert opened.wait(30)
    opened.close()
    return Objects(Address.parse("s3://bucket"), store, store)


@pytest.fixture
def reading(place: Objects) -> Iterator[Checkpoints]:
    opened = Checkpoints(place, keep=1)
    yield opened
    opened.close()


def test_what_was_fetched_before_is_not_fetched_again(
    reading: Checkpoints, ranges: Ranges, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_ahead, "PIECE_BYTES", 1 << 10)
    reading.preload(NAME, rank=0, size=1, local_size=1)
    assert ranges.arrived.wait(30)  # the model is made meanwhile
    state = small_training(seed=2)
    assert reading.load(NAME, state) == {"step": 10}
    assert same(state.flatten(), small_training(seed=1).flatten())
    assert len(ranges.asked) > 1
    assert len(set(ranges.asked)) == len(ranges.asked)


def test_no_more_is_held_than_there_is_room_for(
    place: Objects, ranges: Ranges, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_ahead, "PIECE_BYTES", 1 << 10)
    assert preload(place, Name.parse(NAME), Reader(), 0) == 0
    assert preload(place, Name.parse(NAME), Reader(), 2000) == 2000
    assert ranges.arrived.wait(30)
    place.end_begun()
    assert len(ranges.asked) <= 2


@pytest.mark.parametrize(
    "reader", [Reader(shards=2, size=2), Reader(rank=1, size=2), Reader(stages=2)]
)
def test_a_process_that_reads_other_ranges_fetches_nothing(
    place: Objects, ranges: Ranges, reader: Reader
) -> None:
    assert preload(place, Name.parse(NAME), reader, PLENTY) == 0
    assert not ranges.asked


def test_what_nobody_takes_is_given_up(place: Objects, reading: Checkpoints) -> None:
    assert preload(place, Name.parse(NAME), Reader(), PLENTY)
    reading.enter("another world")
    assert place.end_begun() == 0
    assert preload(place, Name.parse(NAME), Reader(), PLENTY)  # it says so, and begins nothing
    state = small_training(seed=2)
    assert reading.load(NAME, state) == {"step": 10}
    assert reading.preloaded_bytes == 0


def test_what_a_local_tier_makes_needless_is_given_up(
    place: Objects, reading: Checkpoints, ranges: Ranges
) -> None:
    assert preload(place, Name.parse(NAME), Reader(), PLENTY)
    assert ranges.arrived.wait(30)
    reading.end_preload()
    assert reading.load(NAME, small_training(seed=2)) == {"step": 10}
    assert reading.preloaded_bytes == 0


def test_a_checkpoint_that_is_not_there_is_left_to_the_load(reading: Checkpoints) -> None:
    reading.preload("step-99.g1", rank=0, size=1, local_size=1)
    assert reading.load(NAME, small_training(seed=2)) == {"step": 10}
