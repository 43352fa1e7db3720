"""A decision about a search: the state of its trials, the conclusions, and the actions.

Everything is concluded from the TuningJob's status and its TrainingJobs. So a new operator
continues where another one died: the next status is stored first, and the actions follow from it.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from spotrun.api.tuning.words import TuningReason
from spotrun.policies.tuning.beginning import begin, may_begin
from spotrun.policies.tuning.conditions import metric_wake_after_seconds, state_conditions
from spotrun.policies.tuning.ends import End, stop_all, time_is_up_at, why_over
from spotrun.policies.tuning.following import follow
from spotrun.policies.tuning.news import TuningNews, news
from spotrun.policies.tuning.pruning import prune
from spotrun.policies.tuning.report import report
from spotrun.policies.tuning.snapshot import TuningSnapshot
from spotrun.policies.tuning.space import check_placeholders, space_of
from spotrun.policies.tuning.state import OVER, TuningState
from spotrun.policies.tuning.steps import Step, steps
from spotrun.search import Nothing, Suggestion

Values = Suggestion | Nothing | None
"""The values of the next trial, or why there are none; None: no search was asked yet."""


@dataclass(frozen=True)
class TuningDecision:
    """The next status, and the actions that are allowed once it is stored."""

    status: TuningState
    steps: tuple[Step, ...] = ()
    news: tuple[TuningNews, ...] = ()
    num_wanted: int = 0  # trials that could begin now, if their values were known
    wake_after_seconds: float = float("inf")


def decide(search: TuningSnapshot, now: datetime, values: Values = None) -> TuningDecision:
    """Return the next status and the actions that follow from it.

    `num_wanted` says whether a trial could begin now: then the caller asks a search for its values,
    and decides again with the answer.
    """
    old = search.status
    if old.phase in OVER:
        return TuningDecision(old, steps(search, old))
    status = replace(old, started_at=old.started_at or now)
    try:
        status = replace(status, grid_size=_grid_size(search))
    except ValueError as error:
        return _refused(search, status, End(TuningReason.SEARCH_REFUSED, str(error)), now)
    status = prune(search, follow(search, status, now))
    end, waits_for = why_over(search, status, now), ""
    is_wanted = end is None and may_begin(search, status)
    if is_wanted and isinstance(values, Suggestion):
        status = begin(search, status, values, now)
        end = why_over(search, status, now)
        is_wanted = end is None and may_begin(search, status)
    elif is_wanted and isinstance(values, Nothing):
        is_wanted = False
        if values.is_final:
            end = End(TuningReason.SPACE_EXHAUSTED, values.why)
        waits_for = values.why
    if end is not None and end.stops_all:
        status = stop_all(status, end)
    status = _told(search, status, end, now, waits_for)
    return TuningDecision(
        status,
        steps(search, status),
        news(search, old, status),
        num_wanted=int(is_wanted),
        wake_after_seconds=_wake_after_seconds(search, status, now),
    )


def _refused(
    search: TuningSnapshot, status: TuningState, end: End, now: datetime
) -> TuningDecision:
    status = _told(search, status, end, now)
    return TuningDecision(status, steps(search, status), news(search, search.status, status))


def _told(
    search: TuningSnapshot,
    status: TuningState,
    end: End | None,
    now: datetime,
    waits_for: str = "",
) -> TuningState:
    status = state_conditions(search, report(search, status, end), now, waits_for)
    if status.phase in OVER:
        status = replace(status, ended_at=status.ended_at or now)
    if replace(status, cost=replace(status.cost, as_of=None)) != replace(
        search.status, cost=replace(search.status.cost, as_of=None)
    ):
        status = replace(status, cost=replace(status.cost, as_of=now))
    return status


def _grid_size(search: TuningSnapshot) -> int | None:
    """Return the number of points of a grid; raises ValueError for what cannot be searched."""
    check_placeholders(search.spec)
    space = space_of(search.spec)
    if search.spec.search.grid is None:
        return None
    known = search.status.grid_size  # its parameters never change, and counting takes a while
    return known if known is not None else space.grid_size()


def _wake_after_seconds(search: TuningSnapshot, status: TuningState, now: datetime) -> float:
    if status.phase in OVER:
        return float("inf")
    up = time_is_up_at(search, status)
    waits = [
        metric_wake_after_seconds(search, now),
        (up - now).total_seconds() if up is not None else None,
    ]
    return min((wait for wait in waits if wait is not None and wait > 0), default=float("inf"))
