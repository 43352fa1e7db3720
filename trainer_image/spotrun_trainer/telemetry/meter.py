"""The time of a training loop by activity: every nanosecond belongs to exactly one.

Time in no span is "start" until the first step is done (imports, building, compiling) and "compute"
after that: a loop's own code. The time of a span inside another one does not count for the outer
one.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from statistics import median
from typing import Literal, NamedTuple, Protocol, get_args

from typing_extensions import override

from spotrun_trainer.telemetry.trace import Trace

Activity = Literal[
    "start", "compute", "data", "communicate", "checkpoint", "evaluate", "restore", "wait"
]
ACTIVITIES: tuple[Activity, ...] = get_args(Activity)
NO_TRACE = Trace(None)
WINDOW_STEPS = 20
"""The number of steps from which the operator computes the throughput at a world's size."""
_EXPOSED: tuple[Activity, ...] = ("data", "communicate")
_SECOND = 1_000_000_000


class StepTimes(NamedTuple):
    """The seconds of a step by activity; `aside` is time outside of steps, such as evaluation."""

    compute: float
    data: float  # waited for data
    communicate: float  # waited for other processes, without what overlaps compute
    aside: float

    @property
    def seconds(self) -> float:
        """The length of the step, without the time aside."""
        return self.compute + self.data + self.communicate


class Recent(NamedTuple):
    """The last steps: the length of a typical one, and shares of their time that add up to 1."""

    step_seconds: float
    compute: float
    data: float
    communicate: float


class Device(Protocol):
    """Measures for how much of a span its device was idle; see `device_time`."""

    def enter(self) -> None:
        """Note that a span begins."""

    def leave(self, activity: Activity, host_nanoseconds: int) -> None:
        """Note that the span ends."""

    def hidden(self) -> Iterable[tuple[Activity, int]]:
        """Return the nanoseconds of spans in which the device computed after all."""


class Meter:
    """Divides the training loop's time among activities; a span costs less than 2 us."""

    def __init__(
        self,
        trace: Trace = NO_TRACE,
        *,
        device: Device | None = None,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._ledger = _Ledger(clock)
        self._trace = trace
        self._device = device
        self._spans = {activity: self._make(activity) for activity in ACTIVITIES}
        self._before = dict(self._ledger.nanoseconds)
        self._num_steps = 0
        self._steps = deque[StepTimes](maxlen=WINDOW_STEPS)
        self._is_in_new_world = False
        self._saved_before = 0  # nanoseconds, in other worlds

    def span(self, activity: Activity) -> "Span":
        """Return a context manager: `with meter.span("data"):` counts its block so."""
        return self._spans[activity]

    def enter_world(self) -> None:
        """Leave the next step out of the recent ones: the first one in a new world is unusual."""
        self._is_in_new_world = True
        self._saved_before = self._ledger.nanoseconds["checkpoint"]

    def step_done(self) -> StepTimes:
        """End a step; the first one still belongs to the start and is not among the recent ones."""
        self._settle()
        spent, before = self._ledger.nanoseconds, self._before
        compute, data, communicate = (
            (spent[name] - before[name]) / _SECOND for name in ("compute", "data", "communicate")
        )
        whole = (sum(spent.values()) - sum(before.values())) / _SECOND
        self._before = dict(spent)
        step = StepTimes(compute, data, communicate, whole - compute - data - communicate)
        self._num_steps += 1
        if self._ledger.begin_steps() or self._is_in_new_world:
            self._is_in_new_world = False
            self._trace.mark("first step")
        else:
            self._steps.append(step)
            if self._trace.is_on:
                self._trace.step(self._num_steps, step._asdict())
        return step

    def totals(self) -> dict[Activity, float]:
        """Return seconds by activity since the beginning; their sum is the time that has passed."""
        self._settle()
        return {name: spent / _SECOND for name, spent in self._ledger.nanoseconds.items()}

    def recent(self) -> Recent | None:
        """Return the last steps; None before there are any."""
        whole = sum(step.seconds for step in self._steps)
        if not whole:
            return None
        # Shares of sums, not of medians: a wait of half a second in every tenth step must count.
        compute, data, communicate = (
            sum(part) / whole for part in list(zip(*self._steps, strict=True))[:3]
        )
        typical = median(step.seconds for step in self._steps)
        return Recent(typical, compute, data, communicate)

    @property
    def saving_seconds(self) -> float:
        """The seconds by which saves that are over have delayed the loop in this world."""
        return (self._ledger.nanoseconds["checkpoint"] - self._saved_before) / _SECOND

    def _make(self, activity: Activity) -> "Span":
        device = self._device if activity in _EXPOSED else None
        if device is None and not self._trace.is_on:
            return Span(activity, self._ledger)
        return _WatchedSpan(activity, self._ledger, self._trace, device)

    def _settle(self) -> None:
        self._ledger.turn_to(self._ledger.activity)
        if self._device is not None:
            for activity, nanoseconds in self._device.hidden():
                self._ledger.nanoseconds[activity] -= nanoseconds
                self._ledger.nanoseconds["compute"] += nanoseconds


class _Ledger:
    __slots__ = ("activity", "clock", "nanoseconds", "outer", "since")

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.nanoseconds = dict.fromkeys(ACTIVITIES, 0)
        self.activity: Activity = "start"
        self.outer: list[Activity] = []
        self.since = clock()

    def turn_to(self, activity: Activity) -> None:
        now = self.clock()
        self.nanoseconds[self.activity] += now - self.since
        self.activity, self.since = activity, now

    def begin_steps(self) -> bool:
        """Note that a step is done; return whether it was the first."""
        base = (self.outer or [self.activity])[0]
        if base != "start":
            return False
        if self.outer:
            self.outer[0] = "compute"
        else:
            self.activity = "compute"
        return True


class Span:
    """Counts the time inside it as one activity; it is reused, also inside itself."""

    __slots__ = ("_activity", "_ledger")

    def __init__(self, activity: Activity, ledger: _Ledger) -> None:
        self._activity: Activity = activity
        self._ledger = ledger

    # Both inline `ledger.turn_to`: with the calls a span would cost half as much again.
    def __enter__(self) -> None:
        ledger = self._ledger
        now = ledger.clock()
        ledger.nanoseconds[ledger.activity] += now - ledger.since
        ledger.outer.append(ledger.activity)
        ledger.activity, ledger.since = self._activity, now

    def __exit__(self, *_: object) -> None:
        ledger = self._ledger
        now = ledger.clock()
        ledger.nanoseconds[ledger.activity] += now - ledger.since
        ledger.activity, ledger.since = ledger.outer.pop(), now


class _WatchedSpan(Span):
    __slots__ = ("_begun", "_device", "_trace")

    def __init__(
        self, activity: Activity, ledger: _Ledger, trace: Trace, device: Device | None
    ) -> None:
        super().__init__(activity, ledger)
        self._trace = trace
        self._device = device
        self._begun: list[int] = []

    @override
    def __enter__(self) -> None:
        super().__enter__()
        self._begun.append(self._ledger.since)
        if self._device is not None:
            self._device.enter()

    @override
    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        begun, ended = self._begun.pop(), self._ledger.since
        if self._device is not None:
            self._device.leave(self._activity, ended - begun)
        self._trace.span(self._activity, begun, ended)
