"""The time that a GPU was idle in a span: the host's time does not measure that.

A host that waits for the end of an all-reduce waits for the backward pass before it as well; a host
that waits for data may do so while the device still computes. So two events are put into the
device's stream: between "all that was enqueued before the span is done" and "the span is over" it
had nothing to compute. The rest of the span is compute.

This has not been measured on a real GPU: it was written on a machine without one, and its tests
simulate the events.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from spotrun_trainer.telemetry.meter import Activity

MOST_PENDING = 256
"""The spans whose events are awaited; older ones keep the host's time."""


class DeviceTime:
    """Measures for how much of the meter's spans a device computed."""

    def __init__(self, record: Callable[[], Any]) -> None:
        """`record` puts an event into the stream; it has `query()` and `elapsed_time(later)`."""
        self._record = record
        self._entered: list[Any] = []
        self._pending = deque[tuple[Activity, int, Any, Any]](maxlen=MOST_PENDING)

    def enter(self) -> None:
        """Note that a span begins."""
        self._entered.append(self._record())

    def leave(self, activity: Activity, host_nanoseconds: int) -> None:
        """Note that the span ends."""
        self._pending.append((activity, host_nanoseconds, self._entered.pop(), self._record()))

    def hidden(self) -> Iterator[tuple[Activity, int]]:
        """Yield the nanoseconds that the device computed, of each span whose events have come."""
        while self._pending and self._pending[0][3].query():
            activity, host_nanoseconds, begun, ended = self._pending.popleft()
            idle_nanoseconds = int(begun.elapsed_time(ended) * 1_000_000)
            yield activity, max(0, host_nanoseconds - idle_nanoseconds)


def device_time(device: torch.device) -> DeviceTime | None:
    """Return one for a GPU; None if the host computes, whose time needs no correction."""
    record = recorder_of(device)
    return None if record is None else DeviceTime(record)


def recorder_of(device: torch.device) -> Callable[[], Any] | None:
    """Return a function that puts an event into a GPU's stream; None where the host computes."""
    return partial(_recorded, device) if device.type == "cuda" else None


def _recorded(device: torch.device) -> torch.cuda.Event:
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(device))
    return event
