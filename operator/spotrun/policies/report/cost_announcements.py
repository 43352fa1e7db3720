"""Announcements of cost in addition to the status: annotations for other tools, and a last event.

Each annotation is a separate write. So they follow the cost in steps, until the end of the job.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from spotrun.api import names
from spotrun.api.field_types.amounts import Amount, SignedAmount
from spotrun.api.field_types.text_values import Time
from spotrun.api.names import ConditionType, Pricing, Reason
from spotrun.money.units import NO_USD, seconds_between
from spotrun.policies.cost.bill import to_show
from spotrun.policies.lifecycle.kept_report import is_at_rest, is_final
from spotrun.policies.policy import Policy
from spotrun.state.actions import Annotate, Announce
from spotrun.state.conditions import find, read_reason
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import JobSnapshot
from spotrun.state.stored.cost import Cost
from spotrun.state.view import FINISHED, View

_STEP = Decimal("0.05")
_LEAST_USD = Decimal("0.01")

_TIME = frozenset({str(names.ANNOTATION_COST_AS_OF)})


def annotations(view: View, status: JobState) -> tuple[Annotate, ...]:
    """Return the annotations to write on the job now; none if no price was ever known."""
    if status.cost.usd is None:
        return ()
    shown, wanted = view.job.annotated, _annotations(status.cost)
    is_same = all(shown.get(key) == value for key, value in wanted.items() if key not in _TIME)
    if is_same or not _is_due(view, status, shown):
        return ()
    return (Annotate(wanted),)


def final_cost(view: View, status: JobState) -> tuple[Announce, ...]:
    """Announce the final cost of a job, once all its workers are settled."""
    cost = status.cost
    if not is_final(status) or is_final(view.job.status) or cost.usd is None:
        return ()
    words = [f"the job has cost {cost.usd} in all"]
    if cost.on_demand_usd is not None and cost.saved_usd is not None:
        words.append(f"its useful work on demand: {cost.on_demand_usd}")
        words.append(f"saved: {cost.saved_usd}")
    if cost.lost_work_usd is not None:
        words.append(f"lost work: {cost.lost_work_usd}")
    if cost.pricing is Pricing.PARTIAL:
        words.append("not all prices were known")
    reason = read_reason(status.reason, Reason.COMPLETED)
    return (Announce(reason, "; ".join(words)),)


def cost_at_deletion(job: JobSnapshot, now: datetime) -> Cost | None:
    """Return the last seen cost of a job that was deleted while it cost something.

    Its workers end by themselves, and the status that would record their settlement is gone.
    """
    cost = job.status.cost
    if cost.usd is None or cost.as_of is None or not cost.usd_per_hour:
        return None
    since = cost.usd_per_hour.over(max(seconds_between(cost.as_of, now), Decimal(0)))
    return replace(cost, usd=to_show(cost.usd + since), usd_per_hour=None, as_of=now)


def cost_of_deleted(job: JobSnapshot, now: datetime) -> tuple[Announce, ...]:
    """Announce the last known cost of a deleted job."""
    cost, rate = cost_at_deletion(job, now), job.status.cost.usd_per_hour
    if cost is None:
        return ()
    words = f"the job was deleted: it had cost {cost.usd} until then, {rate} at last"
    return (Announce(Reason.DELETED, words),)


def _is_due(view: View, status: JobState, shown: Mapping[str, str]) -> bool:
    if is_at_rest(status):
        return True
    if status.phase in FINISHED or status.suspended_by:
        return False  # the last workers are ending, and after that the cost is final
    now, then = _usd(status), _shown_usd(shown)
    if abs(now - then) >= max(then * _STEP, _LEAST_USD):
        return True
    before = view.job.status
    has_turned = before.phase is not status.phase or _level(before) != _level(status)
    return has_turned and now != then


def _annotations(cost: Cost) -> dict[str, str]:
    sums = {
        names.ANNOTATION_COST_USD: cost.usd,
        names.ANNOTATION_COST_USD_PER_HOUR: cost.usd_per_hour,
        names.ANNOTATION_COST_ON_DEMAND_USD: cost.on_demand_usd,
        names.ANNOTATION_COST_SAVED_USD: cost.saved_usd,
        names.ANNOTATION_COST_LOST_WORK_USD: cost.lost_work_usd,
    }
    known = {str(key): money.decimal for key, money in sums.items() if money is not None}
    written = {key: str(SignedAmount.of(number)) for key, number in known.items()}
    if cost.as_of is not None:
        written[str(names.ANNOTATION_COST_AS_OF)] = str(Time.of(cost.as_of))
    return written


def _shown_usd(shown: Mapping[str, str]) -> Decimal:
    """Read what was announced last; users may have written anything into the annotation."""
    try:
        return Amount(shown.get(names.ANNOTATION_COST_USD, "0")).decimal
    except ValueError:
        return Decimal(0)


def _usd(status: JobState) -> Decimal:
    return (status.cost.usd or NO_USD).decimal


def _level(status: JobState) -> str | None:
    stated = find(status, ConditionType.WITHIN_BUDGET)
    return stated.reason if stated is not None else None


COST_ANNOUNCEMENTS = Policy(actions=annotations, announce=final_cost)
