"""The recorder: nothing that a tracker does is noticed by the training."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
import torch

from spotrun_trainer.telemetry.trackers import recorder as recorder_module
from spotrun_trainer.telemetry.trackers.recorder import Recorder, is_recorded
from spotrun_trainer.telemetry.trackers.tracker import Logged


@dataclass
class Noted:
    """Notes what it is told; fails and waits as it is asked to."""

    calls: list[object] = field(default_factory=list)
    fails_at: int | None = None
    waits_for: threading.Event | None = None

    def begin(self, step: int) -> None:
        self.calls.append(("begin", step))

    def record(self, step: int, time: float, values: Mapping[str, Logged]) -> None:
        if self.waits_for is not None:
            assert self.waits_for.wait(30)
        if step == self.fails_at:
            raise OSError(28, "No space left on device")
        self.calls.append((step, dict(values)))

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.calls.append("close")


def test_steps_are_recorded_in_order_and_a_step_back_begins_anew() -> None:
    noted, said = Noted(), list[str]()
    recorder = Recorder(lambda: {"a": lambda: noted}, said.append)
    for step, loss in ((1, 0.5), (2, torch.tensor(0.25)), (3, 0.125), (2, 0.0)):
        recorder.record(step, {"loss": loss, "what": "x", "many": torch.ones(2)})
    recorder.close()
    recorder.record(3, {"loss": 0})
    recorder.close()

    assert noted.calls == [
        ("begin", 1),
        (1, {"loss": 0.5, "what": "x"}),
        (2, {"loss": 0.25, "what": "x"}),
        (3, {"loss": 0.125, "what": "x"}),
        ("begin", 2),
        (2, {"loss": 0.0, "what": "x"}),
        "close",
        ("begin", 3),
        (3, {"loss": 0}),
        "close",
    ]
    assert said == []


def test_a_tracker_that_fails_is_said_once_and_the_others_go_on() -> None:
    failing, noted, said = Noted(fails_at=2), Noted(), list[str]()

    def missing() -> Noted:
        raise ModuleNotFoundError("No module named 'wandb'\nand more")

    makers = {"jsonl": lambda: failing, "wandb": missing, "mlflow": lambda: noted}
    recorder = Recorder(lambda: makers, said.append)
    for step in (1, 2, 3):
        recorder.record(step, {"loss": step})
    recorder.close()

    assert said == [
        "the tracker wandb cannot start, and gets no values: No module named 'wandb'",
        "the tracker jsonl failed, and gets no more values: [Errno 28] No space left on device",
    ]
    assert [one for one in failing.calls if one != "close"] == [("begin", 1), (1, {"loss": 1})]
    assert noted.calls[-2:] == [(3, {"loss": 3}), "close"]


def test_a_tracker_that_hangs_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "MOST_WAITING", 10)
    noted, said = Noted(waits_for=threading.Event()), list[str]()
    recorder = Recorder(lambda: {"a": lambda: noted}, said.append)
    for step in range(1, 101):
        recorder.record(step, {"loss": step})
    recorder.close(seconds=0.01)

    assert said == ["trackers are slower than the training: some values are left out"]
    assert noted.waits_for is not None
    noted.waits_for.set()  # so that its thread ends


def test_without_any_tracker_nothing_waits() -> None:
    recorder = Recorder(dict, pytest.fail)
    for step in range(1, 30_000):
        recorder.record(step, {"loss": 0.0})
    recorder.close()


@pytest.mark.parametrize(
    ("step", "is_there"),
    [(1, True), (100_000, True), (100_001, False), (100_010, True), (1_000_010, False)],
)
def test_of_very_many_steps_some_are_recorded(step: int, is_there: bool) -> None:
    assert is_recorded(step) == is_there


def test_an_evaluation_is_recorded_at_any_step() -> None:
    noted = Noted()
    recorder = Recorder(lambda: {"a": lambda: noted}, pytest.fail)
    recorder.record(100_001, {"loss": 0})
    recorder.record(100_002, {"val": 0}, is_kept=True)
    recorder.close()

    assert noted.calls == [("begin", 100_002), (100_002, {"val": 0}), "close"]
