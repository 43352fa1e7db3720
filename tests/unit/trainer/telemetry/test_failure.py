import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from types import TracebackType

import pytest
import torch
from torch.distributed.elastic.multiprocessing.errors import get_error_handler

from spotrun_trainer.elastic.rank_info import RankInfo
from spotrun_trainer.loop.saving.local_first import first_of_a_worker
from spotrun_trainer.process.ipc_files import read_progress
from spotrun_trainer.process.progress_report import TrainerProgress
from spotrun_trainer.telemetry.failure import NOTE_CHARACTERS, failure_note, install_failure_note
from spotrun_trainer.telemetry.out_of_memory import explain
from spotrun_trainer.telemetry.reporter import Reporter

HERE = Path(__file__)


def caught(action: Callable[[], object]) -> BaseException:
    try:
        action()
    except Exception as error:
        return error
    raise AssertionError("it did not fail")


def fail(message: str = "no label for sample 7") -> None:
    raise ValueError(message)


def deep(calls: int) -> None:
    if not calls:
        fail()
    deep(calls - 1)


def test_what_happened_comes_first_then_where_from_the_inside_outwards() -> None:
    note = failure_note(caught(fail)).splitlines()

    assert note[0] == "ValueError: no label for sample 7"
    assert note[1].startswith("  at ")
    assert note[1].endswith("in fail: raise ValueError(message)")
    assert note[2].endswith("in caught: action()")
    assert f"{HERE.name}:" in note[2]
    assert len(note) == 3


def test_frames_of_libraries_and_of_ours_are_folded() -> None:
    def prepare() -> float:
        return mean([])

    note = failure_note(caught(lambda: first_of_a_worker(RankInfo(), 1, prepare))).splitlines()

    assert note[0] == "statistics.StatisticsError: mean requires at least one data point"
    assert note[1] == "  in Python"
    assert note[2].endswith("in prepare: return mean([])")
    assert note[3] == "  in spotrun_trainer"
    assert [line[:4] for line in note[4:]] == ["  at"] * 2


def test_however_deep_it_was_the_note_is_short_and_says_that_it_was_cut() -> None:
    note = failure_note(caught(lambda: deep(900)))

    assert len(note) <= NOTE_CHARACTERS
    assert note.splitlines()[0] == "ValueError: no label for sample 7"
    assert note.splitlines()[1].endswith("in fail: raise ValueError(message)")
    assert note.splitlines()[-1] == "  ..."


def test_of_a_long_saying_both_ends_are_kept() -> None:
    note = failure_note(caught(lambda: fail("begin " + "x" * 10_000 + " end")))
    said = note.splitlines()[0]

    assert said.startswith("ValueError: begin x")
    assert said.endswith("x end")
    assert " ... " in said
    assert len(note) <= NOTE_CHARACTERS
    assert "in fail:" in note


def test_what_went_before_is_named() -> None:
    def wrap() -> None:
        try:
            fail()
        except ValueError as error:
            raise RuntimeError("training stopped") from error

    note = failure_note(caught(wrap)).splitlines()

    assert note[:2] == [
        "RuntimeError: training stopped",
        "  after ValueError: no label for sample 7",
    ]


def test_what_went_before_on_purpose_is_not() -> None:
    def wrap() -> None:
        try:
            fail()
        except ValueError:
            raise RuntimeError("training stopped") from None

    assert "ValueError" not in failure_note(caught(wrap))


SCRIPT = """
import os, sys
from pathlib import Path
from spotrun_trainer.telemetry.failure import install_failure_note
from spotrun_trainer.telemetry.reporter import Reporter

install_failure_note(
    Reporter(Path(os.environ["SPOTRUN_DIR"]), local_rank=int(os.environ.get("LOCAL_RANK", "0")))
)

def main():
    {statement}

main()
"""


def run(script: str, tmp_path: Path, **env: str) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "train.py"
    file.write_text(script)
    return subprocess.run(
        [sys.executable, str(file)],
        cwd=tmp_path,
        env={**os.environ, "SPOTRUN_DIR": str(tmp_path), **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_process_that_ends_by_an_exception_tells_why_and_prints_it(tmp_path: Path) -> None:
    ended = run(SCRIPT.replace("{statement}", "raise ValueError('no')"), tmp_path)

    assert ended.returncode == 1
    assert read_progress(tmp_path) == TrainerProgress(
        failure="ValueError: no\n"
        "  at train.py:12 in main: raise ValueError('no')\n"
        "  at train.py:14 in <module>: main()"
    )
    assert ended.stderr.startswith("Traceback (most recent call last):")
    assert ended.stderr.endswith("ValueError: no\n")


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        pytest.param("sys.exit(3)", 3, id="ended on purpose"),
        pytest.param("os.kill(os.getpid(), 9)", -9, id="killed"),
    ],
)
def test_other_ends_leave_no_note(statement: str, code: int, tmp_path: Path) -> None:
    ended = run(SCRIPT.replace("{statement}", statement), tmp_path)

    assert ended.returncode == code
    assert read_progress(tmp_path) == TrainerProgress()


def test_what_a_forked_child_dies_of_is_no_end_of_the_training(tmp_path: Path) -> None:
    statement = "pid = os.fork(); pid or 1 / 0; os.waitpid(pid, 0)"
    ended = run(SCRIPT.replace("{statement}", statement), tmp_path)

    assert ended.returncode == 0
    assert "ZeroDivisionError" in ended.stderr
    assert read_progress(tmp_path) == TrainerProgress()


def test_torchrun_hears_of_it_also_from_processes_that_tell_no_agent(tmp_path: Path) -> None:
    file = tmp_path / "error.json"
    env = {"TORCHELASTIC_ERROR_FILE": str(file), "LOCAL_RANK": "1"}
    run(SCRIPT.replace("{statement}", "raise ValueError('no')"), tmp_path, **env)
    message = json.loads(file.read_text())["message"]

    assert message["message"].startswith("ValueError: no\n  at train.py:12")
    assert int(message["extraInfo"]["timestamp"]) > 0
    assert read_progress(tmp_path) == TrainerProgress()


def test_what_torchs_record_has_written_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(file))
    hooked: list[BaseException] = []

    def before(_kind: type[BaseException], error: BaseException, _: TracebackType | None) -> None:
        hooked.append(error)

    monkeypatch.setattr(sys, "excepthook", before)
    install_failure_note(Reporter(tmp_path))
    error = caught(fail)
    get_error_handler().record_exception(error)
    recorded = file.read_text()
    sys.excepthook(type(error), error, error.__traceback__)

    assert file.read_text() == recorded
    assert "py_callstack" in recorded
    assert (read_progress(tmp_path).failure or "").startswith("ValueError: no label")
    assert hooked == [error]


def test_too_little_memory_ends_with_what_to_try() -> None:
    said = failure_note(torch.OutOfMemoryError("CUDA out of memory. " + "Tried to. " * 200))
    assert said.startswith("torch.OutOfMemoryError: CUDA out of memory.")
    assert "kubectl tjob plan --script" in said.splitlines()[1]
    assert len(said) <= NOTE_CHARACTERS
    assert "kubectl" not in failure_note(RuntimeError("other"))


def test_of_too_little_memory_the_known_figures_are_said_once_and_whole() -> None:
    error = torch.OutOfMemoryError("CUDA out of memory. " + "Tried to. " * 200)
    held = {"weights": 5 * 2**30, "gradients": 5 * 2**30, "optimizer state": 2**20}
    explain(error, held=held, capacity=80 * 2**30, batch=(64, 8))
    said = failure_note(error)
    assert "holds weights 5.0 GiB, gradients 5.0 GiB, optimizer state 1.0 MiB of 80.0 GiB" in said
    assert 'a microbatch of 8 of 64 samples; what to try: microbatch="auto"' in said
    assert said.count("what to try") == 1
    assert len(said) <= NOTE_CHARACTERS
    explain(one := torch.OutOfMemoryError("full"), held=held, capacity=None, batch=(64, 1))
    assert "a microbatch of one cannot be smaller" in failure_note(one)
