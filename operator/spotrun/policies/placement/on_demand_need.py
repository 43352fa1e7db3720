"""The stable (on-demand or reserved) workers that a job needs now, and why.

With a deadline the rule is Uniform Progress, counted in workers; without one, `fallbackAfter`.
"""

import math
from dataclasses import dataclass
from datetime import timedelta

from spotrun.api.names import Reason
from spotrun.api.spec.limits import OnMissed
from spotrun.api.spec.placement import CapacityPolicy
from spotrun.policies.deadline.course import course, works
from spotrun.policies.deadline.pacing import (
    MARGIN_SECONDS,
    Course,
    behind_in_seconds,
    is_behind,
    is_reachable,
    missed_by_seconds,
    needed_share,
    saved,
    spare_seconds,
)
from spotrun.policies.placement.queueing.gang import lacks_since
from spotrun.policies.placement.supply import SCALED_SECONDS, StayingWorkers, Supply
from spotrun.state.job_state import NOTHING_UNUSED, JobState
from spotrun.state.sizes import allowed
from spotrun.state.view import View

MOST_MISSED = 0.1
"""The limit with onMissed Auto: on-demand is used only while the job would miss its deadline by
less than this part of the allowed time."""


@dataclass(frozen=True)
class Needs:
    """The smallest number of stable workers that is enough."""

    stable: int
    why: str = ""
    reason: Reason = Reason.PLACED
    wake_after_seconds: float | None = None  # when that changes by time alone
    replaces_spot: bool = False  # whether they are needed in place of spot workers that train


@dataclass(frozen=True)
class ExpectedSpot:
    """The nodes that spot capacity may still bring soon."""

    size: int  # wanted workers
    spot: int  # workers that spot pools may still give within their usual time


def needs(
    view: View, status: JobState, supply: Supply, now: StayingWorkers, expected: ExpectedSpot
) -> Needs:
    """Count the stable workers that are needed."""
    placement = view.job.spec.placement
    if placement.capacity is CapacityPolicy.SPOT:
        return Needs(0)
    if placement.capacity is CapacityPolicy.ON_DEMAND:
        return Needs(expected.size, "placement.capacity is OnDemand")
    if not supply.spot:
        why = "no spot pool can take a worker" if supply.knows_spot else "no spot pool is known"
        return Needs(expected.size, why)
    base = min(placement.on_demand_base, expected.size)
    found = _asked_for(view, status, now, expected)
    if found.stable > base:
        return found
    why = "placement.onDemandBase" if base else ""
    return Needs(base, why, wake_after_seconds=found.wake_after_seconds, replaces_spot=True)


def checkpoint_would_help(view: View, status: JobState) -> bool:
    """Whether the job could stay on spot and keep its deadline if its work were saved now."""
    way = course(view, status)
    if way is None or view.job.spec.placement.capacity is not CapacityPolicy.MIXED:
        return False
    if way.unsaved_seconds <= MARGIN_SECONDS or not is_reachable(way):
        return False
    return any(spare_seconds(way, n) <= 0 < spare_seconds(saved(way), n) for n in (1, 2))


def _asked_for(view: View, status: JobState, now: StayingWorkers, expected: ExpectedSpot) -> Needs:
    way = course(view, status)
    if way is None or not _is_worth_it(view, way):
        return _by_patience(view, status, now, expected)
    return _by_deadline(view, status, way, now, expected)


def _is_worth_it(view: View, way: Course) -> bool:
    """Whether on-demand is used although the deadline may be missed."""
    deadline = view.job.spec.deadline
    if is_reachable(way) or deadline is None:
        return True
    match deadline.on_missed:
        case OnMissed.ON_DEMAND:
            return True
        case OnMissed.CHEAPEST:
            return False
    return missed_by_seconds(way) < MOST_MISSED * way.allowed_seconds


def _by_patience(
    view: View, status: JobState, now: StayingWorkers, expected: ExpectedSpot
) -> Needs:
    """Return the on-demand workers needed once spot has not arrived within `fallbackAfter`."""
    since, after = lacks_since(view.job), view.job.spec.placement.fallback_after
    if since is None or now.num_placed >= expected.size:
        return Needs(0)
    left = after.seconds - (view.now - since) / timedelta(seconds=1)
    left = max(left, _seconds_until_asked_again(view, status))
    if left > 0:
        return Needs(0, wake_after_seconds=left)
    why = f"no spot capacity was available for {after}"
    return Needs(expected.size - len(now.spot), why, Reason.FALLBACK)


def _seconds_until_asked_again(view: View, status: JobState) -> float:
    """Return how long to wait for spot nodes that were given back because they were too few.

    They are asked for again, or will be. While the time is not over, no on-demand node is used.
    """
    after, unused = view.job.spec.placement.fallback_after.seconds, status.unused
    if unused == NOTHING_UNUSED:
        return 0.0
    asked_at = unused.retried_at if unused.retry_at is None else None
    waited = (view.now - asked_at) if asked_at is not None else timedelta(0)
    return min(after, SCALED_SECONDS) - waited / timedelta(seconds=1)


def _by_deadline(
    view: View, status: JobState, way: Course, now: StayingWorkers, expected: ExpectedSpot
) -> Needs:
    """Apply the safety net first, then the pace; both count unsaved work if it can be saved.

    A checkpoint is ordered before it matters whether the work is saved.
    """
    working = sum(works(view, status, worker) for worker in now.spot)
    kept = saved(way) if view.job.spec.checkpoint is not None else way
    if not _may_rely_on_spot(way):
        why = "the deadline leaves no time to lose a spot worker"
        return Needs(expected.size, why, Reason.FALLBACK, replaces_spot=True)
    if spare_seconds(kept, 2) <= 0:
        # A worker that starts may be lost once more, if no other has to start after it.
        is_whole = len(now.spot) >= expected.size and spare_seconds(way, 1) > 0
        starting = len(now.spot) - working if is_whole else 0
        why = "the deadline leaves no time to wait for spot capacity"
        needed = expected.size - working - starting
        return Needs(needed, why, Reason.FALLBACK, _next(way, kept), replaces_spot=True)
    if not is_behind(kept):
        return Needs(0, wake_after_seconds=_next(way, kept))
    size = _size_at(view, expected.size, needed_share(kept))
    stable = max(size - len(now.spot) - expected.spot, 0)
    return Needs(stable, "the job is behind its pace", Reason.FALLBACK, _next(way, kept))


def _may_rely_on_spot(way: Course) -> bool:
    """Whether a loss at this moment would still leave time to start again and finish.

    Unsaved work would be lost as well; if saving it is enough, it is saved first. While all
    workers train, remaining time and work shrink equally, so a time that was enough stays enough,
    except for unsaved work.
    """
    return spare_seconds(saved(way), 1) > -MARGIN_SECONDS


def _next(way: Course, kept: Course) -> float | None:
    """Return when the job falls behind, or has no more time to wait, if nothing changes."""
    waits = (
        behind_in_seconds(kept),
        *(spare_seconds(one, number) for one in (way, kept) for number in (1, 2)),
        spare_seconds(saved(way), 1),
    )
    return min((wait for wait in waits if wait > 0), default=None)


def _size_at(view: View, size: int, share: float) -> int:
    """The smallest size that is fast enough."""
    least, sizes = math.ceil(size * share), allowed(view.job.effective_workers)
    return min((one for one in sizes if least <= one <= size), default=size)
