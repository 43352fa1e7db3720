"""How many losses after joins bench/chaos.py has made, what it says, and how it ends early."""

import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.chaos_bursts import StuckError
from bench.chaos_join_runs import JoinRuns
from bench.early_end import EarlyEnd

SEED = 7
FOLDERS = ["joins-0", "joins-1", "joins-2"]


class Scripted:
    """A training whose next losses are said beforehand."""

    def __init__(self, folder: Path, fates: Iterator[str], look: Callable[[], None]) -> None:
        self.kills = Counter[str]()
        self.stalls = list[float]()
        self.has_ended = False
        self._folder = folder
        self._fates = fates
        self._look = look

    def begin(self) -> None:
        self._look()

    def kill(self, *, joining_worker: bool) -> None:
        fate = next(self._fates)
        if fate == "nobody joins":
            raise StuckError(fate)
        self.kills["joining worker" if joining_worker else "member"] += 1
        self.stalls.append(0.5)
        if fate == "stuck":
            raise StuckError(fate)
        if fate.startswith("SIG"):
            os.kill(os.getpid(), signal.Signals[fate])
        self._look()

    def end(self) -> list[str]:
        self.has_ended = True
        return [f"{self._folder.name} ended"]

    def steps_lost(self) -> int:
        return 1


def runs_of(fates: str, folder: Path, early_end: EarlyEnd, wanted: int = 4) -> JoinRuns:
    script = iter(fates.split(", "))
    return JoinRuns(
        folder, SEED, wanted, early_end, lambda at, _seed, look: Scripted(at, script, look)
    )


def figures(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return {line["metric"]: line for line in lines}


def test_a_training_that_gets_stuck_is_counted_and_another_one_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = runs_of("well, stuck, nobody joins, well, well", tmp_path, EarlyEnd())
    runs.run()
    runs.say()
    said = figures(capsys)
    assert runs.errors == [f"{folder} ended" for folder in FOLDERS]
    assert said["join_window_kills"]["value"] == 4
    assert said["join_window_kills"]["kinds"] == {"joining worker": 2, "member": 2}
    assert said["join_window_stuck"]["value"] == 2
    assert said["join_window_steps_lost"]["value"] == 3
    assert said["join_window_seconds"]["repeats"] == 4
    assert "ended_early" not in said["join_window_kills"]


def test_two_trainings_in_a_row_without_a_loss_end_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = runs_of(
        "nobody joins, well, nobody joins, nobody joins, nobody joins", tmp_path, EarlyEnd()
    )
    runs.run()
    assert runs.num_stuck == 4
    assert "1 of 4 losses, 4 steps lost, 4 stuck" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_ends_it_with_the_figures_so_far(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with EarlyEnd() as early_end:
        runs = runs_of(f"well, {name}, well, well", tmp_path, early_end)
        runs.run()
    runs.say()
    said = figures(capsys)["join_window_kills"]
    assert (said["value"], said["of"], said["ended_early"]) == (2, 4, name)
    assert runs.errors == ["joins-0 ended"]
    assert early_end.is_by_signal
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_a_limit_of_seconds_ends_it_with_the_figures_so_far(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    early_end = EarlyEnd(seconds=0.0)
    runs = runs_of("well", tmp_path, early_end)
    runs.run()
    runs.say()
    said = figures(capsys)["join_window_kills"]
    assert (said["value"], said["ended_early"]) == (0, "0 s are over")
    assert not early_end.is_by_signal


def test_progress_is_said_while_it_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.chaos_join_runs.PROGRESS_SECONDS", 0.0)
    runs_of("well, well", tmp_path, EarlyEnd(), wanted=2).run()
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(",")[0] for line in said] == [
        "0 of 2 losses",
        "1 of 2 losses",
        "2 of 2 losses",
        "2 of 2 losses",
    ]
