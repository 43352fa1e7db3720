import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spotrun.wire import Utilization
from spotrun_trainer.process.ipc_files import PROGRESS_FILE, read_progress
from spotrun_trainer.process.progress_report import TrainerProgress
from spotrun_trainer.telemetry.reporter import CALM_SECONDS, Reporter


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reporter(tmp_path: Path, clock: Clock) -> Reporter:
    return Reporter(tmp_path, clock=clock)


def test_the_first_words_are_written_at_once(reporter: Reporter, tmp_path: Path) -> None:
    reporter.update(step=3, total=10, samples=96)

    assert read_progress(tmp_path) == TrainerProgress(step=3, total=10, samples=96)


def test_mere_progress_is_written_from_time_to_time(
    reporter: Reporter, clock: Clock, tmp_path: Path
) -> None:
    told = []
    for step in range(1, 12):
        reporter.update(step=step)
        told.append(read_progress(tmp_path).step)
        clock.now += CALM_SECONDS / 4

    assert told == [1, 1, 1, 1, 5, 5, 5, 5, 9, 9, 9]


def test_a_sign_of_life_is_news_to_the_operator_and_nothing_urgent(
    reporter: Reporter, clock: Clock, tmp_path: Path
) -> None:
    told = []
    for _ in range(3):
        reporter.sign()
        told.append(read_progress(tmp_path).signs)
        clock.now += CALM_SECONDS / 2

    assert told == [1, 1, 3]


@pytest.mark.parametrize(
    "change",
    [
        {"world_number": 2},
        {"ready": True},
        {"broken": 1},
        {"checkpoint": "step-7.g1"},
        {"completed": True},
        {"failure": "ValueError: no"},
        {"exiting": "preempted"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_is_acted_upon_is_written_at_once_and_all_else_with_it(
    reporter: Reporter, tmp_path: Path, change: dict[str, Any]
) -> None:
    reporter.update(step=6)
    reporter.update(step=7)
    reporter.update(**change)

    assert read_progress(tmp_path) == TrainerProgress(step=7, **change)


def test_what_is_said_again_is_no_news(reporter: Reporter, tmp_path: Path) -> None:
    reporter.update(world_number=1, step=1)
    reporter.update(world_number=1, step=2)

    assert read_progress(tmp_path).step == 1


def test_the_end_tells_what_was_not_told_yet(reporter: Reporter, tmp_path: Path) -> None:
    reporter.update(step=1)
    reporter.update(step=2)
    reporter.close()
    assert read_progress(tmp_path).step == 2

    (tmp_path / PROGRESS_FILE).unlink()
    reporter.close()  # and nothing twice
    assert not (tmp_path / PROGRESS_FILE).exists()


def test_what_is_measured_comes_with_what_is_written_and_costs_nothing_else(
    tmp_path: Path, clock: Clock
) -> None:
    asked = 0

    def measured() -> dict[str, Any]:
        nonlocal asked
        asked += 1
        return {"step_seconds": 0.25, "utilization": Utilization(gpu=0.5), "step": 99}

    reporter = Reporter(tmp_path, measured=measured, clock=clock)
    for step in range(1, 100):
        reporter.update(step=step)

    # What is said outright counts more.
    assert read_progress(tmp_path) == TrainerProgress(
        step=1, step_seconds=0.25, utilization=Utilization(gpu=0.5)
    )
    assert asked == 1


def test_whoever_has_nobody_to_tell_writes_nothing(tmp_path: Path) -> None:
    reporter = Reporter(None)
    reporter.update(world_number=1, failure="x")
    reporter.close()

    assert list(tmp_path.iterdir()) == []


def test_a_worker_is_where_the_last_of_its_processes_is(tmp_path: Path) -> None:
    first, second = (Reporter(tmp_path, local_rank=rank, local_size=2) for rank in range(2))
    first.update(world_number=3, entering=3, ready=True, in_process=True, step=7)
    waits = TrainerProgress(world_number=0, entering=0, step=7, processes=2)
    assert read_progress(tmp_path) == waits  # for the second, which is not there yet

    second.update(world_number=3, entering=3, ready=True, in_process=True, step=9, failure="x")
    together = replace(waits, world_number=3, entering=3, ready=True, in_process=True)
    assert read_progress(tmp_path) == together

    first.update(entering=4)
    second.update(broken=3, in_process=False)
    assert read_progress(tmp_path) == replace(together, broken=3, in_process=False)


def test_a_full_disk_ends_no_training_and_is_said_once(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    room = False

    def write(path: Path, content: bytes) -> int:
        if not room:
            raise OSError(28, "No space left on device")
        with path.open("wb") as file:
            return file.write(content)

    monkeypatch.setattr(Path, "write_bytes", write)
    reporter = Reporter(tmp_path, clock=clock)
    with caplog.at_level(logging.WARNING):
        for step in range(1, 5):
            reporter.update(world_number=step, step=step)
        assert [record.message for record in caplog.records] == [
            (
                "progress cannot be reported; the training continues: "
                "[Errno 28] No space left on device"
            )
        ]
        room = True
        reporter.update(world_number=5)

    assert read_progress(tmp_path) == TrainerProgress(world_number=5, step=4)
    assert len(caplog.records) == 1


@pytest.mark.parametrize("again", ["update", "close"])
@pytest.mark.parametrize("local_rank", [0, 1])
def test_what_could_not_be_written_is_written_later_though_there_is_no_news(
    tmp_path: Path, clock: Clock, local_rank: int, again: str
) -> None:
    directory = tmp_path / "later"
    reporter = Reporter(directory, local_rank=local_rank, local_size=2, clock=clock)
    reporter.update(world_number=3, ready=True)
    assert not directory.exists()

    directory.mkdir()
    clock.now += CALM_SECONDS
    if again == "update":
        reporter.update(step=7)
    else:
        reporter.close()
    (file,) = directory.iterdir()
    assert '"worldNumber":3' in file.read_text().replace(" ", "")


def test_a_file_of_the_kernel_that_is_not_understood_ends_no_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def measured() -> dict[str, Any]:
        raise ValueError("could not convert string to float: 'maximum'")

    reporter = Reporter(tmp_path, measured=measured)
    reporter.update(step=1)

    assert "could not convert" in caplog.text
