"""The expected end of the training: at the present pace, rounded so that it rarely changes.

It is unknown while no worker trains or reports steps: how long a job waits for capacity, a budget
or its user is not known. Only a schedule says when it lets a job continue.
"""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from spotrun.api.names import SuspendedBy
from spotrun.money.units import NO_USD
from spotrun.policies.deadline.course import changeovers, full_size
from spotrun.policies.lifecycle.schedule_windows import after_open_seconds, next_change
from spotrun.policies.policy import Policy
from spotrun.state.job_state import JobState
from spotrun.state.stored.training import NO_PROGRESS
from spotrun.state.view import FINISHED, View
from spotrun.state.world_members import training

_SAME_SHARE = 0.1
"""If the expected end moves by less than this part of what is left, the shown one stays. If it
moves by more, the shown one moves half the way, so that varying step times change it rarely."""
_OTHER_SHARE = 0.5
"""A forecast that moves by more than this part moves all the way at once."""
_SAME_SECONDS = 60.0
_STEPS_SECONDS = (60, 300, 900, 3600, 21_600)
_STEP_SHARE = 0.02
"""The time is given in the largest of these steps that is no more than this part of what is
left."""
_LEAST_USEFUL = 0.5
"""The least part of the time that counts as useful: a job's first losses say little about later
ones."""
_LONGEST_SECONDS = 10 * 365 * 86_400.0
"""An end that is further away is not shown."""


def foresee_end(view: View, status: JobState) -> JobState:
    """Set the expected end of the training; a shown time stays while it is nearly right."""
    progress = status.progress
    if progress == NO_PROGRESS:
        return status
    shown, end = progress.eta, _end(view, status)
    if _is_same(shown, end, view.now):
        return status
    eta = None
    if end is not None:
        moved = _halfway(shown, end, view.now) if shown is not None else end
        eta = _rounded(moved, view.now)
    return replace(status, progress=replace(progress, eta=eta))


def _end(view: View, status: JobState) -> datetime | None:
    members, by, schedule = training(status), status.suspended_by or (), view.job.spec.schedule
    if status.phase in FINISHED:
        return None
    if members and not by:
        begins, size, ahead_seconds = view.now, len(members), 0.0
    elif by == (SuspendedBy.SCHEDULE,) and schedule is not None:
        begins = next_change(schedule, view.now) or view.now
        size, ahead_seconds = full_size(view), changeovers(status.pace)[0]
    else:
        return None
    left = _left_seconds(status, size, is_in_memory=not by)
    if left is None or left > _LONGEST_SECONDS:
        return None
    seconds = left + ahead_seconds
    if schedule is not None:
        return after_open_seconds(schedule, begins, seconds)
    return begins + timedelta(seconds=seconds)


def _left_seconds(status: JobState, size: int, *, is_in_memory: bool) -> float | None:
    """Return how long so many workers still train, with losses as so far; None: unknown."""
    progress, pace, saved = status.progress, status.pace, status.checkpoint
    if not progress.total_steps or pace.step_seconds is None:
        return None
    done = progress.step or 0
    if not is_in_memory:
        done = min(done, saved.step if saved is not None else 0)
    step_seconds = float(pace.step_seconds) * (pace.workers or size) / size
    return max(progress.total_steps - done, 0) * step_seconds / _useful_share(status)


def _useful_share(status: JobState) -> float:
    """The part of the money that bought new steps, not stalls or steps done again."""
    sums = status.accumulators
    useful, lost = sums.useful_usd, sums.lost_work_usd
    if useful is None or lost is None:
        return 1.0
    if useful == NO_USD:
        return 1.0
    return max(float(useful.exact / (useful + lost).exact), _LEAST_USEFUL)


def _is_same(shown: datetime | None, end: datetime | None, now: datetime) -> bool:
    if shown is None or end is None:
        return shown is end
    left_seconds = (max(end, shown) - now) / timedelta(seconds=1)
    moved_seconds = abs(end - shown) / timedelta(seconds=1)
    return moved_seconds <= max(_SAME_SECONDS, _SAME_SHARE * left_seconds)


def _halfway(shown: datetime, end: datetime, now: datetime) -> datetime:
    is_other = abs(end - shown) > _OTHER_SHARE * (end - now)
    return end if is_other else shown + (end - shown) / 2


def _rounded(end: datetime, now: datetime) -> datetime:
    """Round the end up to a step that is small compared with the time that is left."""
    left_seconds = (end - now) / timedelta(seconds=1)
    fitting = (step for step in reversed(_STEPS_SECONDS) if step <= _STEP_SHARE * left_seconds)
    step = next(fitting, _STEPS_SECONDS[0])
    return datetime.fromtimestamp(math.ceil(end.timestamp() / step) * step, UTC)


ETA = Policy(foresee_end)
