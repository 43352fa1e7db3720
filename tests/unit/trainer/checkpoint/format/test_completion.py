"""Who completes a checkpoint: one rank, and others in turns where that one is lost."""

import contextlib
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spotrun_trainer.checkpoint import Checkpoints, checkpoints
from spotrun_trainer.checkpoint.format import completion
from spotrun_trainer.checkpoint.format.completion import (
    TURN_SECONDS,
    Completion,
    find_marker,
    pause_seconds,
    turn_of,
)
from spotrun_trainer.checkpoint.format.manifest import Content, manifest_file
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.shard_plan import plan
from spotrun_trainer.checkpoint.format.storage import MARKER, Storage
from spotrun_trainer.checkpoint.format.writer import Part, write_part
from spotrun_trainer.checkpoint.places.directory import Place
from spotrun_trainer.state.flatten import Flat, Spec
from tests.support.storage.counted import CountedPlace
from tests.unit.trainer.checkpoint.states import NAME, eventually

LAYOUT = {"w": Spec("float32", (100_000,))}


@dataclass
class World:
    """Ranks that write their parts when they are told, and look."""

    size: int
    place: CountedPlace = field(default_factory=CountedPlace)
    seen: dict[int, Completion] = field(default_factory=dict)
    now: float = 0.0

    def write(self, rank: int, attempt: str = "one") -> None:
        slices = plan(LAYOUT, self.size)[rank]
        content = Content(LAYOUT) if rank == 0 else None
        name = Name.parse(NAME)
        part = Part(name, attempt, rank, self.size, slices, LAYOUT, content)
        manifest = write_part(self.place, part, memoryview(bytes(part.bytes)))
        self.seen[rank] = Completion(self.place, part, manifest, now=self.now)

    def looks(self, rank: int) -> bool:
        return self.seen[rank].reached(self.now)

    @property
    def is_complete(self) -> bool:
        return find_marker(self.place, Name.parse(NAME)) is not None


@pytest.fixture(params=["memory", "folder"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    place: Storage = CountedPlace() if request.param == "memory" else Place(tmp_path)
    return place


def save(place: Storage, name: str) -> None:
    with mock.patch.object(checkpoints, "open_storage", return_value=place):
        one = Checkpoints(Path("anywhere"), keep=2, attempt="one")
    one.save(name, Flat({"w": torch.zeros(4)}, {}), rank=0, size=1, extra={})
    assert one.wait(10.0)
    one.close()


def test_a_marker_that_lies_alone_is_no_checkpoint_and_none_of_those_to_keep(
    place: Storage,
) -> None:
    names = [f"step-{step}.g1" for step in (1, 2, 3)]
    for name in names:
        save(place, name)
    late = Name.parse(names[1])
    marker = place.read(late, MARKER)
    place.remove(late)
    place.make(late)
    place.write_once(late, MARKER, marker, 1)  # by a rank that stood still meanwhile

    with mock.patch.object(checkpoints, "open_storage", return_value=place):
        one = Checkpoints(Path("anywhere"), keep=2)
    assert one.complete() == [names[2], names[0]]
    one.prune(names[2], world_number=1)
    assert [str(name) for name in place.names()] == [names[0], names[2]]
    one.close()


def test_the_first_to_be_deleted_is_what_makes_it_count(tmp_path: Path) -> None:
    place, name, removed = Place(tmp_path), Name.parse(NAME), list[str]()
    save(place, NAME)
    marker, remove_file = place.read(name, MARKER), Place.remove_file

    def marked_amid(place: Place, name: Name, file: str) -> None:
        remove_file(place, name, file)
        removed.append(file)
        if len(removed) == 2:  # the others are about to go
            place.write_once(name, MARKER, marker, 1)
            assert not completion.is_complete(place, name)

    with mock.patch.object(Place, "remove_file", marked_amid):
        place.remove(name)
    assert removed[:2] == [MARKER, manifest_file(0)]


def test_each_rank_has_its_turn_and_few_have_it_early() -> None:
    assert [turn_of(rank, 8) for rank in range(8)] == [0, 3, 3, 3, 3, 2, 2, 1]
    assert [turn_of(rank, 5) for rank in range(5)] == [0, 3, 2, 2, 1]
    assert turn_of(0, 1) == 0
    counts = Counter(turn_of(rank, 1024) for rank in range(1024))
    assert counts == {0: 1} | {turn: 1 << (turn - 1) for turn in range(1, 11)}


@pytest.mark.parametrize("size", [1, 2, 5, 64])
def test_the_first_rank_completes_it_and_the_others_open_the_marker_only(size: int) -> None:
    world = World(size)
    order = random.Random(size).sample(range(size), size)  # noqa: S311
    for rank in order:
        assert not world.is_complete
        world.write(rank)
    world.place.counts.clear()

    assert world.looks(0)
    assert all(world.looks(rank) for rank in order)

    assert world.place.counts["markers"] <= 2  # rank 0 looked twice
    assert world.place.counts["opens"] <= 2 * size + 1


def test_the_first_rank_opens_little_while_it_waits() -> None:
    world = World(64)
    for rank in range(64):
        if rank != 30:
            world.write(rank)
    assert not world.looks(0)
    world.place.counts.clear()
    for _ in range(10):
        assert not world.looks(0)
    assert world.place.counts["opens"] <= 20
    assert world.seen[0].missing == 30
    world.write(30)
    assert world.looks(0)


@given(st.integers(2, 40), st.data())
def test_whoever_is_lost_the_others_complete_it_in_their_turns(
    size: int, data: st.DataObject
) -> None:
    world = World(size)
    for rank in range(size):
        world.write(rank)
    alive = data.draw(st.sets(st.integers(0, size - 1), min_size=1))
    most = 2 * TURN_SECONDS * max(turn_of(rank, size) for rank in alive)
    while not world.is_complete:
        assert world.now <= most + TURN_SECONDS
        world.now += TURN_SECONDS / 2
        for rank in alive:
            world.looks(rank)
    assert world.place.counts["markers"] <= len(alive)
    assert all(world.looks(rank) for rank in alive)


def test_none_takes_over_while_a_part_is_missing() -> None:
    world = World(4)
    for rank in (0, 1, 3):
        world.write(rank)
    world.place.counts.clear()
    for _ in range(100):
        world.now += TURN_SECONDS
        assert not world.looks(3)
    assert world.seen[3].missing == 2
    assert world.place.counts["opens"] == 100  # of the marker


def test_the_parts_of_an_earlier_start_are_not_completed_by_one_that_takes_over() -> None:
    world = World(3)
    world.write(0, "before")
    for rank in (1, 2):
        world.write(rank)
    for _ in range(10):
        world.now += TURN_SECONDS
        assert not world.looks(2)
    assert not world.is_complete


def test_a_process_that_ends_completes_what_is_there() -> None:
    world = World(40)
    for rank in range(39):
        world.write(rank)
    assert not world.seen[20].reached(world.now, is_ending=True)
    world.write(39)
    assert world.seen[20].reached(world.now, is_ending=True)


@pytest.mark.parametrize("is_awaited", [True, False])
def test_a_large_world_looks_as_often_as_a_small_one(*, is_awaited: bool) -> None:
    assert pause_seconds(0, 1024, is_awaited=is_awaited) == 0
    assert pause_seconds(3, 8, is_awaited=is_awaited) == 0
    assert pause_seconds(3, 1024, is_awaited=is_awaited) == (1 if is_awaited else 32)


@contextlib.contextmanager
def ranks(place: CountedPlace, size: int) -> Iterator[list[Checkpoints]]:
    with mock.patch.object(checkpoints, "open_storage", return_value=place):
        opened = [Checkpoints(Path("memory"), keep=2, attempt="one") for _ in range(size)]
    try:
        yield opened
    finally:
        for one in opened:
            one.close()


FLAT = Flat({"w": torch.zeros(100_000)}, {})


def test_a_rank_that_is_told_looks_for_nothing() -> None:
    place, size = CountedPlace(), 40
    with ranks(place, size) as opened:
        for rank, one in enumerate(opened):
            one.save(NAME, FLAT, rank=rank, size=size, extra={})
        assert eventually(lambda: opened[0].finished() is not None)
        assert eventually(lambda: all(one._saver._writing is None for one in opened))
        for one in opened[1:]:
            one.completed(NAME)
            saved = one.finished()
            assert saved is not None
            assert saved.name == NAME
            assert one.wait(0.0)
        assert place.counts["opens"] <= 2.5 * size


def test_a_checkpoint_of_the_world_before_is_completed_for_one_that_leaves() -> None:
    place = CountedPlace()
    with ranks(place, 3) as opened:
        for rank in (0, 1):  # these go on in another world, while the last part is written
            opened[rank].save(NAME, FLAT, rank=rank, size=3, extra={})
            opened[rank].enter("another")
            assert opened[rank].wait(10.0)
        opened[2].save(NAME, FLAT, rank=2, size=3, extra={})
        assert opened[2].wait(10.0)
        assert opened[2].finished() is not None
        assert opened[0].finished() is None


def test_a_checkpoint_of_the_world_before_is_let_go_with_the_next_save(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(completion, "TURN_SECONDS", 1000.0)
    place = CountedPlace()
    with ranks(place, 2) as opened:
        opened[0].save(NAME, FLAT, rank=0, size=2, extra={})
        opened[0].enter("another")
        opened[0].save("step-11.g2", FLAT, rank=0, size=1, extra={})
        assert opened[0].wait(10.0)
        assert not opened[0]._saver._awaited
