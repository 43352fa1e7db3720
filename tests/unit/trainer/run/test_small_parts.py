"""The small pure parts around the loop."""

import faulthandler
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spotrun_trainer.checkpoint import Saved
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.elastic.rank_info import RankInfo
from spotrun_trainer.loop.evaluation.evaluate import plan
from spotrun_trainer.loop.saving.local_first import run_first
from spotrun_trainer.loop.saving.save_schedule import SaveSchedule, parse
from spotrun_trainer.loop.saving.saving import Saving
from spotrun_trainer.process import reproducibility
from spotrun_trainer.process.dns import wait_shortly
from spotrun_trainer.process.interrupt import Interrupt
from spotrun_trainer.process.ipc_files import read_progress
from spotrun_trainer.state.tracked import Tracked
from spotrun_trainer.step.batch import Batch, earlier, total_steps, until_step
from spotrun_trainer.telemetry.console import ConsoleLog
from spotrun_trainer.telemetry.meter import Meter
from spotrun_trainer.telemetry.reporter import Reporter

NOBODY = 2**31 - 1  # greater than the number of any process


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("global_batch", "microbatch", "message"),
    [
        (10, 4, "global_batch=10 is not a multiple of microbatch=4"),
        (0, 4, "at least 1"),
        (8, 0, "at least 1"),
    ],
)
def test_batches_that_cannot_be_dealt_are_refused(
    global_batch: int, microbatch: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Batch(global_batch, microbatch)


@pytest.mark.parametrize(
    ("samples", "total", "epochs", "expected"),
    [
        (100, 7, None, 7),
        (None, None, None, None),
        (100, None, 1, 13),
        (100, None, 0.5, 7),
        (1, None, 1, 1),
    ],
)
def test_training_ends_after_so_many_steps(
    samples: int | None, total: int | None, epochs: float | None, expected: int | None
) -> None:
    assert expected == total_steps(Batch(8, 2), samples, total, epochs)


@pytest.mark.parametrize(
    ("samples", "total", "epochs", "message"),
    [
        (100, 7, 1, "give one of them"),
        (None, None, 1, "needs a dataset with a length"),
        (100, 0, None, "at least one step"),
    ],
)
def test_an_end_that_cannot_be_is_refused(
    samples: int | None, total: int | None, epochs: float | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        total_steps(Batch(8, 2), samples, total, epochs)


@given(st.integers(1, 200), st.integers(1, 20), st.integers(1, 9))
def test_an_evaluation_takes_every_sample_once(length: int, microbatch: int, size: int) -> None:
    taken = [
        sample
        for rank in range(size)
        for block in plan(length, microbatch, size, rank)
        for sample in range(block.start, block.start + block.microbatches * block.microbatch)
    ]
    assert list(range(length)) == taken


@pytest.mark.parametrize(
    ("every", "expected"),
    [
        ("auto", (None, None)),
        (90, (90.0, None)),
        ("10m", (600.0, None)),
        ("1h30m", (5400.0, None)),
        ("1.5s", (1.5, None)),
        ("500 steps", (None, 500)),
    ],
)
def test_how_often_to_save_is_said_in_several_ways(
    every: float | str, expected: tuple[float | None, int | None]
) -> None:
    assert expected == parse(every)


@pytest.mark.parametrize("every", ["", "10", "ten minutes", "0 steps", "10m!", 0, -1])
def test_what_says_no_interval_is_refused(every: float | str) -> None:
    with pytest.raises(ValueError, match="every="):
        parse(every)


def test_a_save_is_due_by_the_clock() -> None:
    clock = Clock()
    cadence = SaveSchedule(60, clock=clock)
    assert not cadence.is_due(1)
    clock.now = 60
    assert cadence.is_due(2)
    cadence.begun()
    assert not cadence.is_due(3)


def test_a_save_that_is_dropped_is_due_again() -> None:
    clock = Clock()
    cadence = SaveSchedule(60, clock=clock)
    clock.now = 60
    cadence.begun()
    cadence.dropped()
    assert cadence.is_due(2)


def test_a_save_is_due_by_the_step() -> None:
    assert [step for step in range(1, 9) if SaveSchedule("3 steps").is_due(step)] == [3, 6]


def test_what_saves_cost_says_how_often_they_pay() -> None:
    clock = Clock()
    cadence = SaveSchedule("auto", clock=clock)
    for _ in range(5):
        cadence.step_took(1.0, is_saving=False)
    cadence.begun()
    cadence.step_took(2.5, is_saving=True)
    cadence.saved(Saved("step-5.g0", 1, stall_seconds=0.5, upload_seconds=4.0))
    clock.now = 119.9  # sqrt(2 * 3600 s * (0.5 s + 1.5 s)) = 120 s
    assert not cadence.is_due(6)
    clock.now = 120.1
    assert cadence.is_due(6)


def test_the_operator_says_how_often_where_the_script_leaves_that_open() -> None:
    clock = Clock()
    open_one, given = (SaveSchedule(every, clock=clock) for every in ("auto", "10m"))
    for one in (open_one, given):
        one.saved(Saved("step-5.g0", 1, stall_seconds=0.5, upload_seconds=40.0))
        one.follow(300.0)
    assert open_one.cost_seconds == 0.5
    clock.now = 301.0
    assert (open_one.is_due(6), given.is_due(6)) == (True, False)
    open_one.follow(10.0)  # but never sooner than an upload takes
    open_one.begun()
    clock.now += 39.0
    assert not open_one.is_due(7)
    clock.now += 2.0
    assert open_one.is_due(7)


def test_sigterm_is_noted_and_its_grace_runs_out() -> None:
    clock = Clock()
    interrupt = Interrupt(30, clock=clock)
    before = signal.getsignal(signal.SIGTERM)
    interrupt.listen()
    try:
        assert (None, float("inf")) == (interrupt.reason(), interrupt.seconds_left())
        signal.raise_signal(signal.SIGTERM)
        clock.now = 10
        signal.raise_signal(signal.SIGTERM)  # a second one gives no second grace
        assert (interrupt.reason(), interrupt.seconds_left()) == ("preempted", 20.0)
    finally:
        interrupt.unlisten()
    assert before == signal.getsignal(signal.SIGTERM)


def test_who_had_the_signal_from_elsewhere_than_python_has_it_no_more() -> None:
    faulthandler.register(signal.SIGTERM)
    try:
        interrupt = Interrupt()
        interrupt.listen()
        interrupt.unlisten()
    finally:
        faulthandler.unregister(signal.SIGTERM)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def test_past_its_time_a_process_departs() -> None:
    clock = Clock()
    interrupt = Interrupt(30, stop_at=lambda: 100.0, wall_clock=clock)
    assert None is interrupt.reason()
    clock.now = 100
    assert interrupt.reason() == "departed"


def test_values_of_a_step_stand_in_one_line_when_it_is_over() -> None:
    lines: list[str] = []
    console_log = ConsoleLog(write=lines.append, clock=Clock())
    console_log.note(1, {"loss": torch.tensor(0.123456789)})
    console_log.note(1, {"val": 2})
    assert lines == []
    console_log.note(2, {"loss": 0.1})
    assert lines == ["step 1  loss 0.12346  val 2"]


def test_quick_steps_are_not_all_printed_but_new_values_and_the_last_are() -> None:
    lines: list[str] = []
    clock = Clock()
    console_log = ConsoleLog(write=lines.append, clock=clock)
    for step in range(1, 9):
        clock.now = step * 0.2
        console_log.note(step, {"loss": step})
        if step == 6:
            console_log.note(step, {"val": 1})
    console_log.flush(is_last=True)
    assert lines == ["step 1  loss 1", "step 4  loss 4", "step 6  loss 6  val 1", "step 8  loss 8"]


def test_the_lines_of_steps_that_were_evaluated_are_all_printed() -> None:
    lines: list[str] = []
    clock = Clock()
    console_log = ConsoleLog(write=lines.append, clock=clock)
    for step in range(1, 9):
        clock.now = step * 0.01
        console_log.note(step, {"loss": step})
        if step % 2 == 0:
            console_log.keep_line(step)
            console_log.note(step, {"val": step})
    console_log.note(9, {"loss": 9})
    evaluated = [line for line in lines if "val" in line]
    assert evaluated == [f"step {step}  loss {step}  val {step}" for step in (2, 4, 6, 8)]
    assert len(lines) == 5  # and that of the first step


class SlowCheckpoints:
    """The save that is in flight is durable at the third look."""

    def __init__(self) -> None:
        self.looks = iter((False, False, True))

    def save(self, *_: object, **__: object) -> None: ...

    def wait(self, _seconds: float) -> bool:
        return next(self.looks)

    def finished(self) -> None: ...


def test_who_waits_for_the_last_checkpoint_gives_signs_of_life(tmp_path: Path) -> None:
    reporter = Reporter(tmp_path, clock=Clock())
    context: Any = SimpleNamespace(
        checkpoints=SlowCheckpoints(),
        reporter=reporter,
        meter=Meter(),
        rank_info=RankInfo(),
        group=Group(),
        tracked=Tracked(),
        step=3,
        place=None,
        orders=lambda: 0,
    )
    saves = Saving(context, SaveSchedule(60.0))
    saves.begin({})
    assert saves.finish(1000.0)
    reporter.close()
    assert read_progress(tmp_path).signs == 2


def test_what_was_prepared_once_is_not_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with pytest.raises(ZeroDivisionError):
        run_first(file, 3, lambda: 1 // 0)
    assert file.read_text() == ""  # so the next one is the first
    assert run_first(file, 3, lambda: 5) == 5
    assert file.read_text() == f"{os.getpid()}\n"
    assert run_first(file, 3, lambda: 6) == 6
    assert run_first(file, 3, lambda: 7) == 7
    assert not file.exists()  # nobody else comes


def test_what_processes_left_that_are_gone_makes_nobody_the_second(tmp_path: Path) -> None:
    (file := tmp_path / "lock").write_text(f"{os.getpid()}\n{NOBODY}\n")
    calls: list[str] = []
    run_first(file, 2, lambda: calls.append(file.read_text()))
    assert calls == [""]  # as the first, who prepares before it says that it was there
    assert file.read_text() == f"{os.getpid()}\n"


def test_deterministic_mode_goes_on_only_under_the_same_conditions() -> None:
    here = reproducibility.facts(torch.device("cpu"))
    reproducibility.check(here, here)
    with pytest.raises(ValueError, match="threads was 99 and is "):
        reproducibility.check({**here, "threads": 99}, here)
    with pytest.raises(ValueError, match="made without it"):
        reproducibility.check(None, here)


@pytest.mark.parametrize(
    ("given_by_user", "expected"),
    [({}, "timeout:1 attempts:3"), ({"RES_OPTIONS": "ndots:2"}, "ndots:2")],
)
def test_a_name_server_is_asked_again_soon_unless_the_user_says_otherwise(
    given_by_user: dict[str, str], expected: str
) -> None:
    env = dict(given_by_user)
    wait_shortly(env)
    assert expected == env["RES_OPTIONS"]


def test_a_job_may_end_before_its_script_does() -> None:
    assert until_step({}) is None
    ends = [earlier(None, 3), earlier(5, until_step({"SPOTRUN_UNTIL_STEP": "3"})), earlier(2, 3)]
    assert ends == [3, 3, 2]
    with pytest.raises(ValueError, match="SPOTRUN_UNTIL_STEP must be the number of a step"):
        until_step({"SPOTRUN_UNTIL_STEP": "soon"})
