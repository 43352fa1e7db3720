"""A trial of a search, with the facts that a search uses."""

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter

from spotrun.search.space import Values


class Direction(StrEnum):
    """The better direction of the objective."""

    MINIMIZE = "Minimize"
    MAXIMIZE = "Maximize"

    def loss(self, value: float | None) -> float:
        """Return a number that is smaller if better; NaN and both infinities are the worst.

        Otherwise a training that diverged in the better direction would stop all others.
        """
        if value is None or not math.isfinite(value):
            return math.inf
        return value if self is Direction.MINIMIZE else -value

    def is_better(self, value: float | None, best: float | None, least: float) -> bool:
        """Whether a value is better than the best before it, if any, by more than `least`."""
        return self.loss(value) < self.loss(best) - least

    def reaches(self, value: float | None, goal: float) -> bool:
        """Whether a value is as good as a goal, or better."""
        return self.loss(value) <= self.loss(goal)


class Outcome(StrEnum):
    """The state of a trial."""

    RUNNING = "Running"
    COMPLETE = "Complete"
    PRUNED = "Pruned"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class Report:
    """A value of the objective's metric, at a step."""

    step: int
    value: float  # may be NaN or infinite


_STEP = attrgetter("step")  # faster than a lambda where a thousand trials are judged


@dataclass(frozen=True, slots=True)
class Trial:
    """One training with its values, and the facts known about it."""

    number: int  # from 0 on
    values: Values
    outcome: Outcome = Outcome.RUNNING
    objective: float | None = None  # at its end; None while it runs, and if there is none
    reports: tuple[Report, ...] = ()  # by step, each step once
    cost_usd: float | None = None  # in total; None: not known yet
    parent: int | None = None  # the trial from whose checkpoint it began
    rung: int = 0  # the step of the last rung at which it was compared and continued

    @property
    def step(self) -> int:
        """The step of the newest report; 0 without one."""
        return self.reports[-1].step if self.reports else 0

    def first_from(self, step: int) -> Report | None:
        """Return the first report at this step or later; None before there is one."""
        at = bisect_left(self.reports, step, key=_STEP)
        return self.reports[at] if at < len(self.reports) else None

    def last_until(self, step: int) -> Report | None:
        """Return the newest report at this step or earlier; None if there is none."""
        at = bisect_right(self.reports, step, key=_STEP)
        return self.reports[at - 1] if at else None


def without_repeats(reports: tuple[Report, ...]) -> tuple[Report, ...]:
    """Return the reports by step, each step once: after a rollback the first report is kept."""
    first: dict[int, Report] = {}
    for report in reports:
        first.setdefault(report.step, report)
    return tuple(first[step] for step in sorted(first))
