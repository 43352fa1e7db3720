"""Deadline pacing: when on-demand capacity must replace spot capacity that is not there.

Uniform Progress ("Can't Be Late", NSDI'24) compares the work done with what a steady pace would
have done by now. This policy differs in two points, each of which saves money on every recorded
market that we have: the target lets the job catch up late rather than evenly, because spot capacity
may still come; and a job leaves on-demand only when its launch has paid off (that rule is in the
authors' code).

All durations are in seconds in which the job may run. Work is in seconds at the job's full size.
"""

import math
from dataclasses import dataclass, replace

LATENESS = 0.5
"""The curvature of the target: 0 is Uniform Progress; the larger it is, the later the job catches
up."""
PAID_OFF = 0.5
"""The part of the authors' time to stay on-demand that is used here. In their code the job stands
still while it moves back to spot; here the old worker trains until the new one is ready. On
recorded zones 0.3 to 0.5 were the cheapest."""
MARGIN_SECONDS = 60.0
"""A margin for delays that no measurement of a changeover contains: a pass over the job, a write, a
slow watch."""


@dataclass(frozen=True)
class Course:
    """The position of a job on its way to the deadline, and where it should be."""

    work_seconds: float  # all the work of the training
    done_seconds: float  # the part of the work that is durable
    allowed_seconds: float  # from the job's creation to its deadline
    used_seconds: float  # the part of the allowed time that has passed
    changeover_seconds: float  # usual, from a new worker's launch until it trains
    longest_changeover_seconds: float  # nine of ten changeovers are shorter
    ahead_seconds: float = 0.0  # of changeover, before the job can run at full speed
    unsaved_seconds: float = 0.0  # of work that is done and not durable yet

    @property
    def remaining_seconds(self) -> float:
        """Work that is still to do, or would be if all workers were lost now."""
        return max(self.work_seconds - self.done_seconds, 0.0)

    @property
    def left_seconds(self) -> float:
        """Time until the deadline."""
        return max(self.allowed_seconds - self.used_seconds, 0.0)


def expected_seconds(course: Course) -> float:
    """The work that should be done by now: C0 (t/R0)^g."""
    if course.used_seconds >= course.allowed_seconds:
        return course.work_seconds
    share = course.used_seconds / course.allowed_seconds
    return course.work_seconds * math.pow(share, _bend(course))


def is_behind(course: Course) -> bool:
    """Whether the work done is below the target by more than the tolerance."""
    return course.done_seconds < expected_seconds(course) - _tolerance_seconds(course)


def behind_in_seconds(course: Course) -> float:
    """Return when the job falls behind if no work is done until then; 0: it is behind."""
    if is_behind(course) or course.work_seconds <= 0:
        return 0.0
    enough = course.done_seconds + _tolerance_seconds(course)
    share = min(enough / course.work_seconds, 1.0)
    return course.allowed_seconds * math.pow(share, 1 / _bend(course)) - course.used_seconds


def spare_seconds(course: Course, changeovers: int) -> float:
    """The time that the job may still lose if it needs so many changeovers; 0 or less: none.

    A job that waits for spot capacity needs two: the capacity may come and be lost at once. A job
    that trains on it needs one: while it trains, remaining work and time shrink equally.
    """
    needed = course.remaining_seconds + changeovers * course.longest_changeover_seconds
    return course.left_seconds - needed - MARGIN_SECONDS


def is_reachable(course: Course) -> bool:
    """Whether the job would finish in time at full speed, from the earliest possible moment."""
    return missed_by_seconds(course) <= 0


def missed_by_seconds(course: Course) -> float:
    """Return how long after the deadline the job would finish, at full speed from now on."""
    needed = saved(course).remaining_seconds + course.ahead_seconds
    return max(needed - course.left_seconds, 0.0)


def saved(course: Course) -> Course:
    """Return the course as it would be if all work done were saved now."""
    done = course.done_seconds + course.unsaved_seconds
    return replace(course, done_seconds=done, unsaved_seconds=0.0)


def needed_share(course: Course) -> float:
    """The share of full speed, from now on, at which the deadline is met: above 0, at most 1."""
    left = course.left_seconds - course.changeover_seconds
    return min(course.remaining_seconds / left, 1.0) if left > 0 else 1.0


def paid_off_seconds(course: Course) -> float:
    """Return how long an on-demand worker must stay to pay off: d left/(left - rem)."""
    slack = course.left_seconds - course.remaining_seconds
    if slack <= 0:
        return float("inf")
    return PAID_OFF * course.changeover_seconds * course.left_seconds / slack


def _tolerance_seconds(course: Course) -> float:
    """The work of one changeover, reduced if there is too little slack to catch up."""
    if course.work_seconds <= 0:
        return 0.0
    slack = course.allowed_seconds / course.work_seconds - 1
    return course.changeover_seconds * min(max(slack, 0.0), 1.0)


def _bend(course: Course) -> float:
    if course.work_seconds <= 0:
        return 1.0
    return 1 + LATENESS * max(course.allowed_seconds / course.work_seconds - 1, 0.0)
