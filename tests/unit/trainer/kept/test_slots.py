import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from spotrun_trainer.kept.slots import HEADER_BYTES, Header, Slots
from spotrun_trainer.process.node_memory import offer_memory, offered_memory


@pytest.fixture
def files() -> Iterator[tuple[Path, ...]]:
    environment: dict[str, str] = {}
    offer_memory(environment)
    files = offered_memory(environment)
    yield files
    for file in files:
        os.close(int(file.name))


def write(slots: Slots, step: int, size: int = 100) -> None:
    writing = slots.begin(size)
    writing.memory.fill_(step)
    writing.finish(step)


def descriptors() -> set[str]:
    """Return those that this process has open."""
    return {file.name for file in Path("/proc/self/fd").iterdir() if file.exists()}


def found(files: tuple[Path, ...]) -> tuple[Header, set[int]] | None:
    """The newest state as another process finds it, and which bytes are in it."""
    newest = Slots(files).newest()
    if newest is None:
        return None
    header, slot = newest
    assert len(slot.content()) == header.size
    return header, set(slot.content().tolist())


def test_what_was_written_last_is_found(files: tuple[Path, ...]) -> None:
    slots = Slots(files)
    assert found(files) is None
    for number, step in enumerate((5, 6, 4), start=1):
        write(slots, step)
        assert found(files) == (Header(number, step, 100), {step})


@pytest.mark.parametrize("steps_before", [0, 1, 2, 3])
def test_a_state_that_is_not_finished_hides_no_other(
    files: tuple[Path, ...], steps_before: int
) -> None:
    slots = Slots(files)
    for step in range(1, steps_before + 1):
        write(slots, step)
    before = found(files)
    writing = slots.begin(100)
    assert found(files) == before
    writing.memory[:50].fill_(9)
    assert found(files) == before
    write(Slots(files), 7)  # by the next process
    assert found(files) == (Header(steps_before + 1, 7, 100), {7})


def test_it_grows_and_keeps_what_is_there(files: tuple[Path, ...]) -> None:
    slots = Slots(files)
    write(slots, 1)
    write(slots, 2, size=50_000)
    assert found(files) == (Header(2, 2, 50_000), {2})
    writing = slots.begin(60_000)
    assert found(files) == (Header(2, 2, 50_000), {2})
    writing.memory.fill_(3)
    writing.finish(3)
    write(slots, 4, size=10)
    assert found(files) == (Header(4, 4, 10), {4})


@pytest.mark.parametrize("byte", [0, 9, 17, 25, 33])
def test_a_damaged_header_is_none(files: tuple[Path, ...], byte: int) -> None:
    write(Slots(files), 1)
    (changed,) = os.pread(int(files[0].name), 1, byte)
    os.pwrite(int(files[0].name), bytes([changed ^ 1]), byte)
    assert found(files) is None


def test_missing_memory_is_that_of_both_slots(files: tuple[Path, ...]) -> None:
    slots = Slots(files)
    assert slots.missing(1000) == 2 * (HEADER_BYTES + 1000)
    write(slots, 1, size=1000)
    assert slots.missing(1000) == HEADER_BYTES + 1000
    write(slots, 2, size=1000)
    assert slots.missing(1000) == 0
    assert slots.missing(1010) == 20


def test_a_process_sees_no_room_beyond_its_state(files: tuple[Path, ...]) -> None:
    slots = Slots(files)
    write(slots, 1, size=1000)
    write(slots, 2, size=10)
    writing = slots.begin(500)
    assert writing.memory.shape == torch.Size([500])


def test_slots_that_nobody_has_any_more_hold_no_file(files: tuple[Path, ...]) -> None:
    before = descriptors()
    slots = Slots(files)
    write(slots, 1)
    assert before < descriptors()
    del slots
    assert before == descriptors()
