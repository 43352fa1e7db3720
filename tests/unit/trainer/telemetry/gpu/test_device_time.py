from dataclasses import dataclass, field

import pytest
import torch

from spotrun_trainer.telemetry.gpu.device_time import MOST_PENDING, DeviceTime, device_time

MILLISECOND = 1_000_000


@dataclass
class Event:
    """An event in a device's stream: it comes at a time, in milliseconds."""

    at: float
    has_come: bool = True

    def query(self) -> bool:
        return self.has_come

    def elapsed_time(self, later: "Event") -> float:
        return later.at - self.at


@dataclass
class Stream:
    """Events to be recorded, in their order."""

    events: list[Event] = field(default_factory=list)

    def record(self) -> Event:
        return self.events.pop(0)


@pytest.mark.parametrize(
    ("idle_ms", "host_ms", "hidden_ms"),
    [
        pytest.param(0.0, 5, 5, id="it computed all the time"),
        pytest.param(5.0, 5, 0, id="it was idle all the time"),
        pytest.param(2.0, 5, 3, id="it computed at first"),
        pytest.param(6.0, 5, 0, id="events that are late hide nothing"),
    ],
)
def test_what_is_not_idle_in_a_span_is_hidden(idle_ms: float, host_ms: int, hidden_ms: int) -> None:
    time = DeviceTime(Stream([Event(10.0), Event(10.0 + idle_ms)]).record)
    time.enter()
    time.leave("data", host_ms * MILLISECOND)

    assert list(time.hidden()) == [("data", hidden_ms * MILLISECOND)]
    assert list(time.hidden()) == []


def test_a_span_is_told_when_its_events_have_come_and_in_order() -> None:
    slow = Event(2.0, has_come=False)
    time = DeviceTime(Stream([Event(1.0), slow, Event(3.0), Event(3.0)]).record)
    for activity in ("data", "communicate"):
        time.enter()
        time.leave(activity, MILLISECOND)

    assert list(time.hidden()) == []
    slow.has_come = True
    assert [activity for activity, _ in time.hidden()] == ["data", "communicate"]


def test_spans_inside_each_other_have_events_of_their_own() -> None:
    time = DeviceTime(Stream([Event(0.0), Event(1.0), Event(2.0), Event(4.0)]).record)
    time.enter()
    time.enter()
    time.leave("data", 3 * MILLISECOND)
    time.leave("communicate", 5 * MILLISECOND)

    assert list(time.hidden()) == [("data", 2 * MILLISECOND), ("communicate", MILLISECOND)]


def test_a_device_that_never_answers_fills_no_memory() -> None:
    time = DeviceTime(lambda: Event(0.0, has_come=False))
    for _ in range(2 * MOST_PENDING):
        time.enter()
        time.leave("data", MILLISECOND)

    assert len(time._pending) == MOST_PENDING


def test_a_host_that_computes_itself_needs_none_of_it() -> None:
    assert device_time(torch.device("cpu")) is None
