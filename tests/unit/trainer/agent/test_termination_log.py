import json
from pathlib import Path

import pytest

from spotrun.wire import Ending, LastWords, read_last_words
from spotrun_trainer.agent.termination_log import TerminationLog

WORDS = LastWords(Ending.PREEMPTED, 120, "step-100.g4", None, "the platform takes it")


def test_last_words_are_one_line_that_the_operator_reads(tmp_path: Path) -> None:
    file = tmp_path / "log"
    TerminationLog(file).write(WORDS)

    assert read_last_words(file.read_text()) == WORDS
    assert file.read_text().count("\n") == 1


def test_only_the_first_count(tmp_path: Path) -> None:
    file = tmp_path / "log"
    log = TerminationLog(file)
    assert not log.is_written
    log.write(WORDS)
    log.write(LastWords(Ending.COMPLETED))

    assert log.is_written
    assert read_last_words(file.read_text()) == WORDS


def test_they_come_after_what_the_script_left(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text("CUDA error")
    TerminationLog(file).write(WORDS)

    assert file.read_text().splitlines()[0] == "CUDA error"
    assert read_last_words(file.read_text()) == WORDS


def test_a_long_message_is_cut_and_the_reason_survives(tmp_path: Path) -> None:
    file = tmp_path / "log"
    TerminationLog(file).write(LastWords(Ending.FAILED, message="\u20ac" * 100_000))

    assert len(file.read_bytes()) <= 3_501
    assert json.loads(file.read_text())["reason"] == "failed"


def test_an_end_is_not_held_up_by_a_log_that_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    TerminationLog(tmp_path / "no" / "such" / "folder").write(WORDS)

    assert "the termination message cannot be written" in caplog.messages[-1]
