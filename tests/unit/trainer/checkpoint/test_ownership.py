"""A folder belongs to one training that runs; one that is over gives it up."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spotrun_trainer.checkpoint.ownership import (
    OWNER,
    Claim,
    FolderInUseError,
    Ownership,
    process_named,
    read_claim,
)
from spotrun_trainer.loop.checkpoint_owner import claim_of_job

BEAT, WATCH = 0.02, 0.5
A, B = Claim("a", "training a"), Claim("b", "training b")

Make = Callable[[Claim], Ownership]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Ownerships of one folder, none of which is kept up after the test."""
    made = []

    def one(claim: Claim) -> Ownership:
        made.append(Ownership(tmp_path, claim, beat_seconds=BEAT, watch_seconds=WATCH))
        return made[-1]

    yield one
    for ownership in made:
        ownership.leave(is_over=False)


def until_it_raises(check: Callable[[], None]) -> None:
    """Call it until then, but not for ever."""
    until = time.monotonic() + 60.0
    while time.monotonic() < until:
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


def test_workers_of_a_job_are_one_training_and_a_job_made_anew_is_another() -> None:
    env = {"SPOTRUN_NAMESPACE": "t", "SPOTRUN_JOB": "job", "TORCHELASTIC_RUN_ID": "u1"}
    assert claim_of_job(env) == claim_of_job(env)
    assert claim_of_job(env).training != claim_of_job({**env, "TORCHELASTIC_RUN_ID": "u2"}).training
    assert claim_of_job(env).what == "TrainingJob t/job (uid u1)"
