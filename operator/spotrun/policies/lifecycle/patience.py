"""Patience: whether a reported metric is good enough, or has not improved for too long.

Each step counts once, in the order of steps: a step repeated after a loss adds nothing.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from spotrun.api.names import Reason
from spotrun.api.spec.stop_when import MetricStop
from spotrun.search.trial import Direction
from spotrun.state.stored.training import NO_COURSE, MetricCourse
from spotrun.wire import Metric


def followed(
    wanted: MetricStop, course: MetricCourse, metrics: Iterable[Metric], now: datetime
) -> MetricCourse:
    """Judge the newest value of the metric; a decision once made is final."""
    known = course if course.metric == wanted.metric else replace(NO_COURSE, metric=wanted.metric)
    newest = next((one for one in metrics if one.name == wanted.metric), None)
    if known.decided_at is not None or newest is None:
        return course
    if known.step is not None and (newest.step or 0) <= known.step:
        return course
    return _decided(wanted, _judged(wanted, known, newest), newest, now)


def _judged(wanted: MetricStop, course: MetricCourse, newest: Metric) -> MetricCourse:
    step, least = newest.step or 0, wanted.min_improvement.number
    if _direction(wanted).is_better(newest.value, course.best, least):
        return replace(course, best=newest.value, best_step=step, step=step, no_better_reports=0)
    is_first = course.step is None
    return replace(
        course,
        best_step=step if is_first else course.best_step,
        step=step,
        no_better_reports=course.no_better_reports + 1,
    )


def _decided(
    wanted: MetricStop, course: MetricCourse, newest: Metric, now: datetime
) -> MetricCourse:
    reason, message = Reason.GOAL_REACHED, ""
    goal, value = wanted.goal, f"{wanted.metric} was {newest.value:g} at step {course.step}"
    if goal is not None and _direction(wanted).reaches(newest.value, goal.number):
        message = f"{value}, which reaches stopWhen.goal, {goal}"
    elif why := _out_of_patience(wanted, course):
        best = "no value before it was a finite number"
        if course.best is not None:
            best = f"the best was {course.best:g} at step {course.best_step}"
        reason, message = Reason.NO_IMPROVEMENT, f"{value}, and {best}: {why}"
    if not message:
        return course
    return replace(course, decided_at=now, reason=reason.value, message=message)


def _out_of_patience(wanted: MetricStop, course: MetricCourse) -> str:
    """Describe which patience is over; empty while none is."""
    reports, steps = wanted.no_better_reports, wanted.no_better_steps
    if reports is not None and course.no_better_reports >= reports:
        return f"{course.no_better_reports} reports were no better, stopWhen.noBetterReports"
    passed = (course.step or 0) - (course.best_step or 0)
    if steps is not None and passed >= steps:
        return f"{passed} steps were no better, stopWhen.noBetterSteps is {steps}"
    return ""


def _direction(wanted: MetricStop) -> Direction:
    return Direction(wanted.direction.value)
