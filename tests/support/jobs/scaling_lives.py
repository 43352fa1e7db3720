"""Jobs whose steps follow a curve, sized look by look, without a cluster."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from spotrun.api.names import ScalingReason
from spotrun.api.spec.workers import TargetResource
from spotrun.policies.scaling.facts import Gauge, SizingFacts, StepTimes
from spotrun.policies.scaling.size_decision import Choice, choose_size
from spotrun.state.job_state import JobState
from spotrun.state.stored.scaling import NO_SCALING, ScalingState
from tests.support.jobs.builders import NOW
from tests.support.jobs.stored_state import stored as as_stored

LOOKS_EVERY = timedelta(minutes=2)

Curve = Callable[[int], tuple[float, float, float]]
"""Seconds of a step at a size: computing, waiting for data, communicating."""


def linear(size: int) -> tuple[float, float, float]:
    """Nothing but work that divides."""
    return 10 / size, 0.0, 0.0


def amdahl(size: int) -> tuple[float, float, float]:
    """Five percent that every process does alike."""
    return 9.5 / size + 0.5, 0.0, 0.0


def communicating(size: int) -> tuple[float, float, float]:
    """An all-reduce of half a second."""
    return 10 / size, 0.0, 0.5 * (size - 1) / size


def starving(size: int) -> tuple[float, float, float]:
    """Data that come no faster for more workers."""
    return 10 / size, 10.0, 0.0


def stored(size: int) -> tuple[float, float, float]:
    """A storage that delivers what a step takes in 3.2 s: from five workers on it is waited for."""
    compute = 4 * ceil(64 / size) / 16
    return compute, max(3.2 - compute, 0.0), 0.0


def cached(size: int) -> tuple[float, float, float]:
    """The same once the data are near."""
    return 4 * ceil(64 / size) / 16, 0.0, 0.0


def step_at(curve: Curve, size: int) -> StepTimes:
    """Return the step times that are measured at a size."""
    parts = curve(size)
    whole = sum(parts)
    compute, data, communicate = (part / whole for part in parts)
    return StepTimes(size, whole, 512, compute, data, communicate)


def facts_at(curve: Curve, size: int, sizes: Sequence[int], **facts: Any) -> SizingFacts:
    """Return the facts about a job that trains at its wanted size, and has for long."""
    step = step_at(curve, size)
    gauge = Gauge(TargetResource.GPU, 0.7, reported=(step.compute or 0.0,) * size)
    known: dict[str, Any] = {"wanted": size, "running": size, "gauges": (gauge,), "step": step}
    return SizingFacts(sizes=tuple(sizes), **{**known, **facts})


@dataclass
class Life:
    """One job, looked at every other minute; what trains is measured by the second look."""

    curve: Curve
    sizes: Sequence[int]
    size: int
    facts: dict[str, Any] = field(default_factory=dict)
    now: datetime = NOW
    memory: ScalingState = NO_SCALING
    had: list[int] = field(default_factory=list)  # every size it was given, in order
    had_at: list[datetime] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    _since: datetime | None = None  # when the present world began to train

    @property
    def lasting(self) -> list[int]:
        """The sizes it was given, but for looks at one size up and the ways back."""
        found: list[int] = []
        is_look = False
        for size, reason in zip(self.had, self.reasons, strict=True):
            was_look, is_look = is_look, reason == ScalingReason.PROBING
            if not is_look and not (was_look and size == found[-1]):
                found.append(size)
        return found

    def live(self, minutes: int = 360) -> Choice:
        """Let time pass; returns the last choice."""
        for _ in range(max(minutes // 2, 1)):
            choice = choose_size(self._facts(), self.memory, self.now)
            # As it is after an operator's restart: what is remembered stands in the status.
            self.memory = as_stored(JobState(scaling=choice.memory)).scaling
            if choice.size != self.size:
                self.had.append(choice.size)
                self.had_at.append(self.now)
                self.reasons.append(choice.reason.value)
                self.size, self._since = choice.size, None
            self.now += LOOKS_EVERY
            self._since = self._since or self.now
        return choice

    def _facts(self) -> SizingFacts:
        made = facts_at(self.curve, self.size, self.sizes, **self.facts)
        if self._since is None:
            return replace(made, running=0, step=None, gauges=())
        return made if self.now > self._since else replace(made, step=None)
