"""A folder belongs to one training that runs; one that is over gives it up."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest

from spotrun_trainer.checkpoint import ownership
from spotrun_trainer.checkpoint.ownership import (
    OWNER,
    Claim,
    FolderInUseError,
    Ownership,
    is_abandoned,
    process_named,
    read_claim,
)
from spotrun_trainer.loop.saving.checkpoint_owner import claim_of_job

BEAT, WATCH = 0.02, 0.5
A, B = Claim("a", "training a"), Claim("b", "training b")


class Make(Protocol):
    def __call__(self, claim: Claim, watch_seconds: float = WATCH) -> Ownership: ...


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Ownerships of one folder, none of which is kept up after the test."""
    made = []

    def one(claim: Claim, watch_seconds: float = WATCH) -> Ownership:
        made.append(Ownership(tmp_path, claim, beat_seconds=BEAT, watch_seconds=watch_seconds))
        return made[-1]

    yield one
    for each in made:
        each.leave(is_over=False)


def until_it_raises(check: Callable[[], None]) -> None:
    """Call it until then, but not for ever."""
    until = time.monotonic() + 60.0
    while time.monotonic() < until:
        check()
        time.sleep(0.01)


def wait_for(holds: Callable[[], object], check: Callable[[], None]) -> None:
    """Wait for something; `check` may raise meanwhile."""
    until = time.monotonic() + 60.0
    while not holds():
        assert time.monotonic() < until, "lost patience"
        check()
        time.sleep(0.01)


def owner(folder: Path) -> str:
    claim = read_claim(folder)
    return claim.training if claim is not None else ""


def test_a_second_training_is_refused_while_the_first_one_runs(make: Make, tmp_path: Path) -> None:
    make(A).take()
    with pytest.raises(FolderInUseError, match=rf"training a keeps its checkpoints in {tmp_path}"):
        make(B).take()
    assert owner(tmp_path) == "a"
    assert [path.name for path in tmp_path.iterdir() if path.name != OWNER] in ([], [".OWNER"])


def test_a_second_one_may_wait_for_its_end(make: Make, tmp_path: Path) -> None:
    first = make(A)
    first.take()
    first.leave(is_over=False)  # as a machine that is lost
    make(B).take(patience_seconds=60.0)
    assert owner(tmp_path) == "b"


def test_the_same_training_takes_it_at_once_and_goes_on_in_another_process(
    make: Make, tmp_path: Path
) -> None:
    first, second = make(A), make(A)
    first.take()
    second.take()
    first.leave(is_over=False)
    with pytest.raises(FolderInUseError):
        make(B).take()
    first.check()
    second.check()


@pytest.mark.parametrize("is_in_order", [True, False])
def test_one_whose_process_has_ended_is_not_watched(tmp_path: Path, *, is_in_order: bool) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    process = process_named(ended.pid)
    ended.wait()
    first = Ownership(tmp_path, Claim("a", "training a", process))
    first.take()
    first.leave(is_over=is_in_order)
    assert owner(tmp_path) == ("" if is_in_order else "a")
    Ownership(tmp_path, B, watch_seconds=1e9).take()
    assert owner(tmp_path) == "b"


def test_a_process_of_another_machine_may_still_run(make: Make) -> None:
    make(Claim("a", "training a", f"elsewhere/{os.getpid()}.1")).take()
    with pytest.raises(FolderInUseError):
        make(B).take()


def test_who_stood_still_so_long_that_it_was_taken_over_is_told(make: Make, tmp_path: Path) -> None:
    first = Ownership(tmp_path, A, beat_seconds=0.5, watch_seconds=WATCH)
    first.take()
    try:
        Ownership(tmp_path, B, beat_seconds=BEAT, watch_seconds=0.0).take()

        with pytest.raises(FolderInUseError, match="training b keeps its checkpoints"):
            until_it_raises(first.check)
        assert owner(tmp_path) == "b"
    finally:
        first.leave(is_over=True)
    assert owner(tmp_path) == "b", "it is not its folder any more"


AGAIN = replace(A, beat="1")


@pytest.mark.parametrize(
    ("found", "before", "expected"),
    [
        (A, A, True),
        (AGAIN, A, False),  # renewed meanwhile
        (A, None, False),  # seen for the first time
        (None, None, False),  # over
        (None, A, False),
        (B, B, False),
    ],
)
def test_a_claim_of_ones_own_training_that_nobody_renews_is_abandoned(
    found: Claim | None, before: Claim | None, expected: bool
) -> None:
    assert is_abandoned(found, before, AGAIN) is expected


def test_one_that_stands_in_keeps_others_out_and_leaves_it_to_the_next(
    make: Make, tmp_path: Path
) -> None:
    first, other = make(A), make(A)
    first.take()
    first.leave(is_over=False)  # as a machine that is lost
    other.stand_in()
    with pytest.raises(FolderInUseError):
        make(B).take()
    other.keep()
    (tmp_path / OWNER).unlink()
    wait_for(lambda: owner(tmp_path) == "a", other.check)


def test_one_that_stands_in_writes_no_claim_of_a_training_that_is_over(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = list[Path]()
    monkeypatch.setattr(ownership, "read_claim", looks.append)
    make(A).stand_in()
    wait_for(lambda: len(looks) > 3, lambda: None)
    assert not (tmp_path / OWNER).exists()


def test_of_two_that_begin_at_the_same_time_one_is_refused(make: Make, tmp_path: Path) -> None:
    first, second = make(A), make(B)
    first._create()
    assert not second._create()
    assert owner(tmp_path) == "a"


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"training": 1}', "\xff" * 9999])
def test_what_is_no_claim_is_watched_like_one(make: Make, tmp_path: Path, text: str) -> None:
    (tmp_path / OWNER).write_text(text)
    make(A).take()
    assert owner(tmp_path) == "a"


def test_a_folder_that_is_full_keeps_nobody_from_training(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    make(A).take()
    assert not (tmp_path / OWNER).exists()


@pytest.mark.parametrize("cannot", ["open", "replace"])  # a full disk; a sticky folder
def test_who_cannot_write_over_the_claim_of_a_training_that_is_over_trains_and_writes_later(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cannot: str
) -> None:
    over, anew = make(A), make(B)
    over.take()
    over.leave(is_over=False)
    attempts = 0

    def failing(*_: object) -> None:
        nonlocal attempts
        attempts += 1
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, cannot, failing)
        anew.take()
        wait_for(lambda: attempts > 3, anew.check)
        anew.leave(is_over=False)
        assert [path.name for path in tmp_path.iterdir()] == [OWNER]
        assert owner(tmp_path) == "a"
    anew.keep()
    wait_for(lambda: owner(tmp_path) == "b", anew.check)


def test_who_cannot_write_over_it_is_told_if_that_training_runs_after_all(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stands_still, anew = make(A), make(B)
    stands_still.take()
    stands_still.leave(is_over=False)
    monkeypatch.setattr(anew, "_write", lambda: True)
    anew.take()
    stands_still.keep()
    with pytest.raises(FolderInUseError, match="training a keeps its checkpoints"):
        until_it_raises(anew.check)


class Storage:
    """What another training writes to every two seconds, and nobody from the third to the 33rd."""

    def __init__(self, *, fails: bool) -> None:
        self.now = 0.0
        self._fails = fails

    def monotonic(self) -> float:
        """The time passes only while somebody sleeps, or waits for the storage."""
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def read(self, _folder: Path) -> Claim:
        written_at = min(self.now, 3.0) if self.now < 34.0 else self.now
        if 3.0 < self.now < 33.0:
            if self._fails:
                raise OSError(5, "Input/output error")
            self.now = 33.0
        return replace(A, beat=str(written_at // 2))


@pytest.mark.parametrize("fails", [True, False], ids=["reads fail", "reads wait"])
def test_a_training_that_cannot_write_meanwhile_is_not_taken_for_one_that_is_over(
    make: Make, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    storage = Storage(fails=fails)
    monkeypatch.setattr("spotrun_trainer.checkpoint.ownership.time", storage)
    monkeypatch.setattr("spotrun_trainer.checkpoint.storage_retries.time", storage)
    monkeypatch.setattr("spotrun_trainer.checkpoint.ownership.read_claim", storage.read)
    storage.now = 2.5
    with pytest.raises(FolderInUseError, match="training a keeps its checkpoints"):
        make(B, watch_seconds=10.0).take()


def test_workers_of_a_job_are_one_training_and_a_job_made_anew_is_another() -> None:
    env = {"SPOTRUN_NAMESPACE": "t", "SPOTRUN_JOB": "job", "TORCHELASTIC_RUN_ID": "u1"}
    assert claim_of_job(env) == claim_of_job(env)
    assert claim_of_job(env).training != claim_of_job({**env, "TORCHELASTIC_RUN_ID": "u2"}).training
    assert claim_of_job(env).what == "TrainingJob t/job (uid u1)"
