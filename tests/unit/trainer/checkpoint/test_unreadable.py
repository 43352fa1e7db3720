"""What is there and cannot be read is neither taken for nothing nor for damage."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from spotrun_trainer.checkpoint import Checkpoints, UnreadableCheckpointError, storage_retries
from spotrun_trainer.checkpoint.places.directory import Place
from tests.unit.trainer.checkpoint.states import (
    NAME,
    checkpoints,
    eventually,
    same,
    save,
    small_training,
)

ALL = ("COMPLETE", "rank-0.json", "rank-1.json", "rank-0.safetensors", "rank-1.safetensors")


class Refusing:
    """Files of one name cannot be opened, so many times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, file: str, times: int, error: int) -> None:
        self.left = times
        whole = Place.open

        def refusing(place: Place, name: object, which: str) -> int:
            if which == file and self.left:
                self.left -= 1
                raise OSError(error, os.strerror(error), str(which))
            return whole(place, name, which)  # type: ignore[arg-type]

        monkeypatch.setattr(Place, "open", refusing)


@pytest.fixture
def saved(tmp_path: Path) -> Iterator[Checkpoints]:
    save(tmp_path, small_training().flatten(), size=2)
    with checkpoints(tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("file", ALL)
@pytest.mark.parametrize("error", [errno.ESTALE, errno.EIO, errno.EMFILE, errno.EACCES])
def test_what_cannot_be_read_for_a_moment_is_read_again(
    saved: Checkpoints, monkeypatch: pytest.MonkeyPatch, file: str, error: int
) -> None:
    refusing, target = Refusing(monkeypatch, file, 2, error), small_training(2)
    assert saved.complete() == [NAME]
    saved.load(NAME, target)
    assert refusing.left == 0
    assert same(small_training().flatten(), target.flatten())


@pytest.mark.parametrize("file", ALL)
def test_what_cannot_be_read_at_all_is_an_error_and_no_damage(
    saved: Checkpoints, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    monkeypatch.setattr(storage_retries, "READ_SECONDS", 0.1)
    Refusing(monkeypatch, file, 1000, errno.EACCES)
    with pytest.raises(
        UnreadableCheckpointError, match=f"{file} cannot be read: Permission denied"
    ):
        saved.load(NAME, small_training(2))


class SlowServer:
    """Refuses the first reads, each of which takes so long; it is its clock too."""

    def __init__(self, seconds: float, refused: int) -> None:
        self.now, self._seconds, self._refused = 1000.0, seconds, refused
        self.reads = 0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def read(self) -> str:
        self.reads += 1
        self.now += self._seconds
        if self.reads <= self._refused:
            raise UnreadableCheckpointError("stale")
        return "content"


@pytest.mark.parametrize(("seconds", "refused"), [(600.0, 1), (59.0, 1), (20.0, 3)])
def test_the_minute_for_other_tries_begins_with_the_first_that_failed(
    monkeypatch: pytest.MonkeyPatch, seconds: float, refused: int
) -> None:
    server = SlowServer(seconds, refused)
    monkeypatch.setattr(storage_retries, "time", server)
    assert storage_retries.patiently(server.read) == "content"


def test_after_that_minute_there_is_no_other_try(monkeypatch: pytest.MonkeyPatch) -> None:
    server = SlowServer(61.0, 10)
    monkeypatch.setattr(storage_retries, "time", server)
    with pytest.raises(UnreadableCheckpointError, match="stale"):
        storage_retries.patiently(server.read)
    assert server.reads == 2


def test_who_cannot_read_a_marker_does_not_say_that_there_is_no_checkpoint(
    saved: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_retries, "READ_SECONDS", 0.1)
    Refusing(monkeypatch, "COMPLETE", 1000, errno.EACCES)
    for ask in (saved.complete, saved.newest):
        with pytest.raises(UnreadableCheckpointError, match="COMPLETE cannot be read"):
            ask()


def test_a_marker_that_was_cut_off_marks_a_checkpoint_still(
    saved: Checkpoints, tmp_path: Path
) -> None:
    os.truncate(tmp_path / NAME / "COMPLETE", 0)
    assert (saved.complete(), saved.newest()) == ([NAME], NAME)


def test_what_cannot_be_read_is_not_written_over(
    saved: Checkpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {file: (tmp_path / NAME / file).read_bytes() for file in ALL}
    Refusing(monkeypatch, "COMPLETE", 1000, errno.EACCES)
    saved.save(NAME, small_training(2).flatten(), rank=0, size=1, extra={})

    def has_failed() -> bool:
        try:
            saved.finished()
        except Exception as error:
            return "Permission denied" in str(error)
        return False

    assert eventually(has_failed)
    assert before == {file: (tmp_path / NAME / file).read_bytes() for file in ALL}
