import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from spotrun_trainer.telemetry import trace
from spotrun_trainer.telemetry.meter import Meter
from spotrun_trainer.telemetry.trace import Trace, main, open_trace, process_began


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def only_file(directory: Path) -> Path:
    (path,) = directory.iterdir()
    return path


def test_nobody_asked_for_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trace = open_trace({})
    meter = Meter(trace)
    for _ in range(2):
        with meter.span("data"):
            pass
        meter.step_done()
    trace.mark("imported")
    trace.close()

    assert not trace.is_on
    assert list(tmp_path.iterdir()) == []


def test_a_worker_and_its_process_name_the_file(tmp_path: Path) -> None:
    directory = tmp_path / "made" / "for it"
    env = {"SPOTRUN_TRACE": str(directory), "SPOTRUN_WORKER": "bert-x1-7", "LOCAL_RANK": "3"}
    open_trace(env).close()

    assert only_file(directory).name == f"trace-bert-x1-7.3-{os.getpid()}.jsonl"


def test_it_begins_with_when_the_process_did(tmp_path: Path) -> None:
    Trace(tmp_path, "w").close()
    (line,) = lines(only_file(tmp_path))

    assert line["mark"] == "started"
    assert (line["worker"], line["pid"]) == ("w", os.getpid())
    assert line["began"] == pytest.approx(process_began(), abs=0.1)
    assert line["began"] < line["t"] <= time.time()


def test_a_process_that_has_waited_begins_when_it_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trace, "_began", None)
    before = time.time()
    trace.begin()
    assert before <= process_began() <= time.time()


def test_a_process_began_when_it_was_started() -> None:
    program = "from spotrun_trainer.telemetry.trace import process_began; print(process_began())"
    before = time.time()
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30
    ).stdout

    assert before - 0.05 <= float(said) <= time.time()


def test_spans_of_a_meter_and_its_steps_are_lines(tmp_path: Path) -> None:
    now = 0

    def clock() -> int:
        return now

    trace = Trace(tmp_path, "w")
    meter = Meter(trace, clock=clock)
    meter.step_done()
    with meter.span("data"):
        now += 250_000_000
        with meter.span("wait"):
            now += 500_000_000
    meter.step_done()
    trace.mark("broken", world_number=4)

    _, first, inner, outer, step, mark = lines(only_file(tmp_path))
    assert first["mark"] == "first step"
    assert (inner["span"], inner["seconds"]) == ("wait", 0.5)
    assert (outer["span"], outer["seconds"]) == ("data", 0.75)  # whole, with what is inside
    assert inner["t"] == pytest.approx(outer["t"] + 0.25)
    del step["t"]
    assert step == {"step": 2, "compute": 0, "data": 0.25, "communicate": 0, "aside": 0.5}
    assert (mark["mark"], mark["world_number"], mark["worker"]) == ("broken", 4, "w")


def test_times_are_those_of_the_world(tmp_path: Path) -> None:
    trace = Trace(tmp_path, "w")
    before, begun = time.time(), time.perf_counter_ns()
    trace.span("data", begun, begun + 1)

    assert lines(only_file(tmp_path))[-1]["t"] == pytest.approx(before, abs=0.01)


def test_a_process_that_is_killed_has_left_all_it_had_to_say(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path;"
        "from spotrun_trainer.telemetry.trace import Trace;"
        "trace = Trace(Path(sys.argv[1]));"
        "[trace.span('data', 0, number) for number in range(100)];"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False, timeout=30)

    assert len(lines(only_file(tmp_path))) == 101


def test_a_long_training_fills_no_disk(tmp_path: Path) -> None:
    trace = Trace(tmp_path, "w", file_bytes=2_000)
    for number in range(1_000):
        trace.span("data", 0, number)
    trace.close()

    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == [
        f"trace-w-{os.getpid()}.jsonl",
        f"trace-w-{os.getpid()}.older.jsonl",
    ]
    assert sum(file.stat().st_size for file in files) <= 4_000
    newest = lines(files[1]) + lines(files[0])
    assert newest[-1]["seconds"] == pytest.approx(999e-9)
    assert len(newest) >= 30


def test_a_disk_that_is_full_ends_the_trace_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    trace = Trace(in_the_way)
    trace.mark("imported")

    assert not trace.is_on
    assert len(caplog.records) == 1
    assert "the trace ends here" in caplog.text


def test_the_module_prints_tables(tmp_path: Path) -> None:
    trace = Trace(tmp_path, "w")
    meter = Meter(trace)
    with meter.span("restore"):
        pass
    for _ in range(3):
        meter.step_done()
    trace.close()
    command = [sys.executable, "-m", "spotrun_trainer.telemetry.trace", str(only_file(tmp_path))]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)

    assert said.stderr == ""
    assert said.stdout.startswith("activity ")
    assert "\nrestore " in said.stdout
    assert "\nto the first step of " in said.stdout


def test_no_torch_is_needed_to_leave_marks_or_read_them() -> None:
    program = (
        "import sys, spotrun_trainer.telemetry.trace, spotrun_trainer.telemetry.timeline;"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere.jsonl", "this is not a trace: [Errno 2] No such file"),
        ("other.jsonl", "other.jsonl:1:"),
    ],
)
def test_what_cannot_be_read_is_said(
    name: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other.jsonl").write_text("step 1\n")

    assert main([str(tmp_path / name)]) == 1
    assert said in capsys.readouterr().err


def test_without_a_file_it_says_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "name the files of a trace" in capsys.readouterr().err
