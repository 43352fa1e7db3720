import time
from pathlib import Path

import pytest

from spotrun.wire import Answer, Notice
from spotrun_trainer import notice
from spotrun_trainer.process.ipc_files import write_world


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPOTRUN_DIR", str(tmp_path))
    return tmp_path


def test_a_notice_says_how_long_there_is_and_why(folder: Path) -> None:
    assert notice() is None
    write_world(folder, Answer("1", "Running"))
    assert notice() is None
    write_world(folder, Answer("2", "Running", notice=Notice(time.time() + 60, "node a goes away")))
    found = notice()
    assert found is not None
    assert found.seconds_left == pytest.approx(60, abs=5)
    assert found.reason == "node a goes away"
    write_world(folder, Answer("3", "Running"))
    assert notice() is None


def test_after_its_time_nothing_is_left(folder: Path) -> None:
    write_world(folder, Answer("2", "Running", notice=Notice(time.time() - 5, "node a")))
    assert notice() == (0.0, "node a")


def test_what_cannot_be_read_is_no_notice(folder: Path) -> None:
    (folder / "world.json").write_text("{")
    assert notice() is None


def test_outside_of_a_job_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPOTRUN_DIR")
    assert notice() is None
