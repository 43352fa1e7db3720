"""Whether the deadline will be met: stated once it is known, in a message that rarely changes."""

from datetime import UTC, datetime, timedelta

from spotrun.api.names import ConditionType, Reason
from spotrun.api.spec.placement import CapacityPolicy
from spotrun.policies.deadline.course import course, full_size, works
from spotrun.policies.deadline.pacing import Course, is_reachable, missed_by_seconds, spare_seconds
from spotrun.policies.deadline.policy import finishes_by
from spotrun.policies.placement.ranking import Ranked
from spotrun.policies.placement.supply import supply
from spotrun.policies.policy import Policy
from spotrun.state.conditions import state
from spotrun.state.job_state import JobState
from spotrun.state.view import FINISHED, View, holds_back

_COARSE = 100
"""Times are rounded to this many steps of the allowed time: each change of the message is a
write."""
_LEAST_STEP = timedelta(minutes=10)


def check_schedule(view: View, status: JobState) -> JobState:
    """State whether the job will meet its deadline."""
    deadline, kind = finishes_by(view), ConditionType.ON_SCHEDULE
    if deadline is None or status.phase in FINISHED or view.now >= deadline:
        return status
    way = course(view, status)
    if way is None:
        message = "no worker has reported yet how many steps there are and how long they take"
        return state(view, status, kind, Reason.TOTAL_UNKNOWN, message, holds=None)
    if not is_reachable(way):
        message = _why_missed(view, status, way)
        return state(view, status, kind, Reason.DEADLINE_AT_RISK, message, holds=False)
    if view.job.spec.placement.capacity is CapacityPolicy.SPOT:
        message = Reason.ONLY_SPOT.purpose
        return state(view, status, kind, Reason.ONLY_SPOT, message, holds=None)
    return state(view, status, kind, Reason.ON_PACE, _prospect(view, status, way), holds=True)


def _prospect(view: View, status: JobState, way: Course) -> str:
    if any(works(view, status, worker) for worker in view.staying):
        left = way.remaining_seconds - way.unsaved_seconds + way.ahead_seconds
        return f"at full size it is finished about {_about(view, way, left)}"
    if holds_back(status):
        return "it can still be finished in time"
    return f"it waits for spot capacity until {_about(view, way, spare_seconds(way, 2))} at most"


def _about(view: View, way: Course, seconds: float) -> str:
    """Return the moment after this many seconds, in coarse steps."""
    step = max(_LEAST_STEP, timedelta(seconds=way.allowed_seconds / _COARSE))
    moment = view.now + timedelta(seconds=max(seconds, 0.0))
    beyond = (moment - datetime.min.replace(tzinfo=UTC)) % step
    return f"{moment - beyond:%Y-%m-%dT%H:%MZ}"


def _why_missed(view: View, status: JobState, way: Course) -> str:
    """Describe how late the job will be, and what it costs on spot and on stable capacity."""
    late = max(round(missed_by_seconds(way) / 600) / 6, 1 / 6)
    hours, available = way.remaining_seconds / 3600, supply(view, status, 0)
    size = full_size(view)
    costs = [
        f"about ${_round(hours * size * best.score.usd_per_hour)} {how}"
        for best, how in (
            (_first(available.stable), "on on-demand"),
            (_first(available.spot), "on spot"),
        )
        if best is not None and best.score.is_price_known
    ]
    work = f"{_round(hours)} h of work at {size} workers are left"
    return f"{work}: at full size it would be {late:.1f} h late; " + (
        " or ".join(costs) if costs else "what that costs is not known"
    )


def _first(ranked: tuple[Ranked, ...]) -> Ranked | None:
    return ranked[0] if ranked else None


def _round(number: float) -> str:
    """Round to two significant digits, so that the message rarely changes."""
    return f"{float(f'{number:.1e}'):g}"


DEADLINE_CONDITION = Policy(check_schedule)
