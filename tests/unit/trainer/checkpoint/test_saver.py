"""Saving beside training: one at a time, errors said once, nothing completed by mistake."""

import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from spotrun_trainer.checkpoint import (
    CheckpointError,
    Checkpoints,
    DamagedCheckpointError,
    Saved,
    saver,
)
from spotrun_trainer.checkpoint.format import writer
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.places.directory import Place
from spotrun_trainer.checkpoint.save_duration import ASSUMED_BYTES_PER_SECOND, SaveSpeed
from spotrun_trainer.checkpoint.saver import NICER
from spotrun_trainer.state.flatten import Flat
from tests.unit.trainer.checkpoint.states import (
    NAME,
    Held,
    checkpoints,
    eventually,
    same,
    save,
    small_training,
    tracked,
)

PATIENCE_SECONDS = 10.0


class Gate:
    """Holds back the thread that writes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._open = threading.Event()
        self.reached = threading.Event()

        def held_back(*arguments: object) -> str:
            self.reached.set()
            assert self._open.wait(PATIENCE_SECONDS)
            return writer.write_part(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(saver, "write_part", held_back)

    def open(self) -> None:
        self._open.set()


def begin(opened: Checkpoints, flat: Flat, name: str = NAME, rank: int = 0, size: int = 1) -> None:
    opened.save(name, flat, rank=rank, size=size, extra={})


def test_a_save_returns_before_it_is_written_and_is_finished_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    with checkpoints(tmp_path) as opened:
        begin(opened, small_training().flatten())

        assert gate.reached.wait(PATIENCE_SECONDS)
        assert opened.finished() is None
        assert not opened.wait(0.01)
        assert opened.newest() is None
        gate.open()

        assert opened.wait(PATIENCE_SECONDS)
        saved = opened.finished()
        assert saved is not None
        assert NAME == saved.name == opened.newest()
        assert saved.bytes > 0
        assert 0 < saved.stall_seconds < saved.upload_seconds
        assert opened.finished() is None


def test_a_second_save_waits_until_the_first_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, flat = Gate(monkeypatch), small_training().flatten()
    with checkpoints(tmp_path) as opened:
        begin(opened, flat, "step-1.g1")
        second = threading.Thread(target=begin, args=(opened, flat, "step-2.g1"))
        second.start()
        assert gate.reached.wait(PATIENCE_SECONDS)
        assert second.is_alive()
        gate.open()
        second.join(PATIENCE_SECONDS)
        assert opened.wait(PATIENCE_SECONDS)

        saved = opened.finished()

        assert opened.complete() == ["step-2.g1", "step-1.g1"]
        assert saved is not None
        assert saved.name == "step-2.g1"


def test_training_may_change_everything_after_before_change(tmp_path: Path) -> None:
    weight = torch.zeros(3_000_000)
    held = Held(x=weight)
    with checkpoints(tmp_path) as opened:
        flat = tracked(held=held).flatten()
        begin(opened, Flat(flat.tensors, flat.values))
        opened.before_change()
        weight.fill_(1)
        assert opened.wait(PATIENCE_SECONDS)

        target = tracked(held=Held(x=torch.ones(3_000_000)))
        opened.load(NAME, target)

    assert not target.flatten().tensors["held/x"].any()


def test_before_change_returns_at_once_when_nothing_is_saved(tmp_path: Path) -> None:
    with checkpoints(tmp_path) as opened:
        opened.before_change()

        assert opened.wait(0)


def test_the_thread_yields_to_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    own = os.getpriority(os.PRIO_PROCESS, 0)
    before = set(threading.enumerate())
    with checkpoints(tmp_path) as opened:
        begin(opened, small_training().flatten())
        assert gate.reached.wait(PATIENCE_SECONDS)
        begun = set(threading.enumerate()) - before
        (thread,) = (one for one in begun if one.name == "checkpoint")
        assert thread.native_id is not None

        nice = os.getpriority(os.PRIO_PROCESS, thread.native_id)

        gate.open()
    assert min(own + NICER, 19) == nice
    assert own == os.getpriority(os.PRIO_PROCESS, 0)


def test_a_place_that_cannot_be_written_is_said_once_and_training_goes_on(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    flat = small_training().flatten()
    with checkpoints(tmp_path / "runs") as opened:
        begin(opened, flat)
        assert eventually(lambda: bool(opened._saver._outcomes))

        with pytest.raises(
            CheckpointError,
            match=rf"{NAME} could not be written to .*/runs: .*; training continues without it: "
            "make the place writable and large enough, or choose another",
        ):
            opened.finished()

        assert opened.finished() is None
        (tmp_path / "runs").unlink()
        begin(opened, flat, "step-11.g1")
        assert opened.wait(PATIENCE_SECONDS)
        assert opened.newest() == "step-11.g1"


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    """As on a full disk, writes fail in the middle of a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_said_and_what_was_written_is_taken_away(tmp_path: Path) -> None:
    flat = tracked(held=Held(x=torch.ones(2_000_000))).flatten()
    with checkpoints(tmp_path) as opened, no_file_longer_than(5_000_000):
        begin(opened, flat)

        with pytest.raises(CheckpointError, match=f"{NAME} could not be written to .*: File too"):
            opened.wait(PATIENCE_SECONDS)

        assert opened.newest() is None
    assert list((tmp_path / NAME).iterdir()) == []


def test_a_checkpoint_that_was_pruned_while_it_was_written_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, flat = Gate(monkeypatch), small_training().flatten()
    with checkpoints(tmp_path) as opened:
        begin(opened, flat, "step-1.g1")
        assert gate.reached.wait(PATIENCE_SECONDS)
        (tmp_path / "step-1.g1").rmdir()
        gate.open()

        with pytest.raises(CheckpointError, match=r"step-1.g1 could not be written .*No such file"):
            opened.wait(PATIENCE_SECONDS)


def test_values_that_nobody_could_read_back_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "SMALL_BYTES", 100_000)
    with checkpoints(tmp_path) as opened:
        begin(opened, tracked(held=Held(history=list(range(100_000)))).flatten())

        with pytest.raises(CheckpointError, match=r"plain values take .*; keep long lists in ten"):
            opened.wait(PATIENCE_SECONDS)


def test_a_rank_that_does_not_come_is_named(tmp_path: Path) -> None:
    with checkpoints(tmp_path, patience_seconds=0.05) as opened:
        begin(opened, small_training().flatten(), rank=0, size=3)

        with pytest.raises(CheckpointError, match=f"{NAME} is not complete: rank 1 has not writ"):
            opened.wait(PATIENCE_SECONDS)

        assert opened.newest() is None


def test_the_next_save_does_not_wait_for_ranks_of_the_last_one(tmp_path: Path) -> None:
    flat = small_training().flatten()
    with checkpoints(tmp_path) as first, checkpoints(tmp_path) as second:
        begin(first, flat, "step-1.g1", rank=0, size=2)
        begin(first, flat, "step-2.g1", rank=0, size=2)
        begin(second, flat, "step-1.g1", rank=1, size=2)
        begin(second, flat, "step-2.g1", rank=1, size=2)

        assert first.wait(PATIENCE_SECONDS)
        assert second.wait(PATIENCE_SECONDS)

        assert first.complete() == ["step-2.g1", "step-1.g1"]
        for saved in (first.finished(), second.finished()):
            assert saved is not None
            assert saved.name == "step-2.g1"


def test_parts_that_an_earlier_start_left_are_not_completed_by_the_next(tmp_path: Path) -> None:
    old, new = small_training(1), small_training(2)
    save(tmp_path, old.flatten(), size=2, ranks=range(1), attempt="first")
    save(tmp_path, new.flatten(), size=2, ranks=range(1, 2), attempt="second")

    with checkpoints(tmp_path) as opened:
        assert opened.newest() is None
        save(tmp_path, new.flatten(), size=2, ranks=range(1), attempt="second")
        assert opened.newest() == NAME

        opened.load(NAME, old)

    assert same(new.flatten(), old.flatten())


def test_a_checkpoint_of_an_earlier_start_is_replaced_under_its_name(tmp_path: Path) -> None:
    old, new = small_training(1), small_training(2)
    save(tmp_path, old.flatten())  # each is a start of its own: one rank needs no word for that
    save(tmp_path, new.flatten())

    with checkpoints(tmp_path) as opened:
        opened.load(NAME, old)

    assert same(new.flatten(), old.flatten())


def test_what_is_durable_already_is_not_written_again(tmp_path: Path) -> None:
    flat = small_training().flatten()
    with checkpoints(tmp_path) as opened:
        begin(opened, flat)
        assert opened.wait(PATIENCE_SECONDS)
        written = (tmp_path / NAME / "rank-0.safetensors").stat()
        opened.finished()
        begin(opened, flat)
        assert opened.wait(PATIENCE_SECONDS)

        again = opened.finished()

        assert isinstance(again, Saved)
        assert written.st_ino == (tmp_path / NAME / "rank-0.safetensors").stat().st_ino


def test_what_only_waits_for_other_ranks_is_not_written_again(tmp_path: Path) -> None:
    flat = small_training().flatten()
    with checkpoints(tmp_path) as opened, checkpoints(tmp_path) as other:
        begin(opened, flat, rank=0, size=2)
        begin(opened, flat, rank=0, size=2)
        begin(other, flat, rank=1, size=2)

        assert opened.wait(PATIENCE_SECONDS)

        saved = opened.finished()
        assert saved is not None
        assert saved.name == NAME


def test_two_trainings_in_one_place_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_once = Place.write_once

    def unless_two_would(place: Place, name: Name, file: str, content: bytes, rank: int) -> None:
        if rank:  # the two of rank 0 could take each other's draft away
            write_once(place, name, file, content, rank)

    monkeypatch.setattr(Place, "write_once", unless_two_would)
    one, other = small_training(1).flatten(), small_training(2).flatten()
    part = tmp_path / NAME / "rank-0.json"  # written last of what a rank writes
    with (
        checkpoints(tmp_path, attempt="same") as opened,
        checkpoints(tmp_path, attempt="same") as intruder,
        checkpoints(tmp_path, attempt="same") as last,
    ):
        begin(opened, one, rank=0, size=2)
        assert eventually(part.exists)
        before = part.read_bytes()
        begin(intruder, other, rank=0, size=2)
        assert eventually(lambda: _content(part) not in {b"", before})  # removed, then written
        begin(last, other, rank=1, size=2)

        assert last.wait(PATIENCE_SECONDS)
        assert _trouble(intruder) == ""
        assert "completed without the part that rank 0 wrote here: two" in _trouble(opened)


def _trouble(saving: Checkpoints) -> str:
    try:
        assert saving.wait(PATIENCE_SECONDS)
    except CheckpointError as error:
        return str(error)
    return ""


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""


@pytest.mark.parametrize("torn", [b"", b'{"format":1,"attem'])
def test_a_marker_that_was_written_by_halves_is_damage_until_it_is_saved_anew(
    tmp_path: Path, torn: bytes
) -> None:
    flat = small_training().flatten()
    save(tmp_path, flat, attempt="first")
    (tmp_path / NAME / "COMPLETE").write_bytes(torn)

    with checkpoints(tmp_path) as opened:
        with pytest.raises(DamagedCheckpointError, match="COMPLETE is damaged"):
            opened.load(NAME, small_training())
        save(tmp_path, flat, attempt="second")
        opened.load(NAME, small_training())


def test_an_estimate_comes_from_saves_that_were_measured(tmp_path: Path) -> None:
    flat = tracked(held=Held(x=torch.ones(1_000_000))).flatten()
    with checkpoints(tmp_path) as opened:
        assert opened.estimate_seconds(flat) == 4_000_000 / ASSUMED_BYTES_PER_SECOND
        begin(opened, flat)
        assert opened.wait(PATIENCE_SECONDS)
        saved = opened.finished()
        assert saved is not None

        assert 0 < opened.estimate_seconds(flat) <= saved.upload_seconds


def test_what_is_in_flight_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    flat = tracked(held=Held(x=torch.ones(1_000_000))).flatten()
    with checkpoints(tmp_path) as opened:
        before = opened.estimate_seconds(flat, size=2)
        begin(opened, flat)

        assert 3 * before == pytest.approx(opened.estimate_seconds(flat, size=2))

        gate.open()


def test_the_slowest_of_the_last_saves_counts() -> None:
    speed = SaveSpeed()
    for size, seconds in ((1000, 60.0), (1000, 1.0), (2000, 4.0), (1000, 1.5)):
        speed.note(size, seconds)

    assert speed.seconds_for(2000) == 4.0
    assert speed.seconds_for(4000) == 8.0
    assert speed.seconds_for(10) == 4.0  # syncing takes its time, however little is written


def test_memory_that_is_not_there_is_said_and_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(*_: object, **__: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    with checkpoints(tmp_path) as opened:
        monkeypatch.setattr(saver, "Staging", no_memory)
        begin(opened, small_training().flatten())

        with pytest.raises(CheckpointError, match=r"the host has no memory for a copy of .* bytes"):
            opened.finished()


@pytest.mark.parametrize("keep", [0, -1])
def test_at_least_one_is_kept(tmp_path: Path, keep: int) -> None:
    with pytest.raises(ValueError, match=f"must be at least 1, not {keep}"):
        Checkpoints(tmp_path, keep=keep)
