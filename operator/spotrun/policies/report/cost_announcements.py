"""To whom cost is told besides the status: annotations for other tools, and a last event.

An annotation is a write of its own. So they follow the cost in steps, and to the end of the job.
"""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

from spotrun.api import names
from spotrun.api.cost import Cost, Pricing
from spotrun.api.field_types.amounts import Amount
from spotrun.api.field_types.text_values import Time
from spotrun.api.names import ConditionType, Reason
from spotrun.money.units import Usd, UsdPerHour, seconds_between
from spotrun.policies.cost.bill import to_show
from spotrun.policies.cost.charges.ends import read_ends
from spotrun.state.actions import Annotate, Announce
from spotrun.state.conditions import find, read_reason
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import JobSnapshot
from spotrun.state.view import FINISHED, View
from spotrun.state.worker_ids import ranges

_STEP = Decimal("0.05")
_LEAST_USD = Decimal("0.01")

_FIELDS: Mapping[str, str] = {
    names.ANNOTATION_COST_USD: "usd",
    names.ANNOTATION_COST_USD_PER_HOUR: "usd_per_hour",
    names.ANNOTATION_COST_ON_DEMAND_USD: "on_demand_usd",
    names.ANNOTATION_COST_SAVED_USD: "saved_usd",
    names.ANNOTATION_COST_LOST_WORK_USD: "lost_work_usd",
    names.ANNOTATION_COST_AS_OF: "as_of",
}
_TIME = frozenset({str(names.ANNOTATION_COST_AS_OF)})


def annotations(view: View, status: JobState) -> tuple[Annotate, ...]:
    """What is to be written on the job now; nothing where no price was ever known."""
    if status.cost is None or status.cost.usd is None:
        return ()
    told, wanted = view.job.annotated, _annotations(status.cost)
    is_same = all(told.get(key) == value for key, value in wanted.items() if key not in _TIME)
    if is_same or not _is_due(view, status, told):
        return ()
    return (Annotate(wanted),)


def final_cost(old: JobState, new: JobState) -> tuple[Announce, ...]:
    """The last word on what a job cost, once all its workers are settled."""
    cost = new.cost
    if not _is_final(new) or _is_final(old) or cost is None or cost.usd is None:
        return ()
    words = [f"the job has cost {Usd.of(cost.usd)} in all"]
    if cost.on_demand_usd is not None and cost.saved_usd is not None:
        words.append(f"its useful work on demand: {Usd.of(cost.on_demand_usd)}")
        words.append(f"saved: {Usd(cost.saved_usd.decimal)}")
    if cost.lost_work_usd is not None:
        words.append(f"lost work: {Usd.of(cost.lost_work_usd)}")
    if cost.pricing is Pricing.PARTIAL:
        words.append("not all prices were known")
    reason = read_reason(new.reason, Reason.COMPLETED)
    return (Announce(reason, "; ".join(words)),)


def cost_at_deletion(job: JobSnapshot, now: datetime) -> Cost | None:
    """What a job has cost that was deleted while it cost something, as it was seen last.

    Its workers end by themselves, and the status in which they would be settled is gone.
    """
    cost = job.status.cost
    if cost is None or cost.usd is None or cost.as_of is None or cost.usd_per_hour is None:
        return None
    rate = UsdPerHour.of(cost.usd_per_hour)
    if not rate:
        return None
    since = rate.over(max(seconds_between(cost.as_of.datetime, now), Decimal(0)))
    update = {"usd": to_show(Usd.of(cost.usd) + since), "usd_per_hour": None}
    return cost.model_copy(update={**update, "as_of": Time.of(now)})


def cost_of_deleted(job: JobSnapshot, now: datetime) -> tuple[Announce, ...]:
    """The last word on it."""
    cost, before = cost_at_deletion(job, now), job.status.cost
    if cost is None or before is None:
        return ()
    usd, rate = Usd.of(cost.usd), UsdPerHour.of(before.usd_per_hour)
    words = f"the job was deleted: it has cost {usd} by then, {rate} at last"
    return (Announce(Reason.DELETED, words),)


def _is_due(view: View, status: JobState, told: Mapping[str, str]) -> bool:
    if _is_at_rest(status):
        return True
    if status.phase in FINISHED or status.suspended_by:
        return False  # the last workers are on their way out, and then it is final
    now, then = _usd(status), _told_usd(told)
    if abs(now - then) >= max(then * _STEP, _LEAST_USD):
        return True
    before = view.job.status
    has_turned = before.phase is not status.phase or _level(before) != _level(status)
    return has_turned and now != then


def _is_at_rest(status: JobState) -> bool:
    """Whether nothing is spent any more, until somebody changes the job."""
    is_over = status.phase in FINISHED or bool(status.suspended_by)
    # Of a lost worker nothing may be heard for ever, and then it is never settled.
    num_paid = ranges(status.settled).size + len(read_ends(status.accumulators))
    return is_over and num_paid == (status.next_serial or 0)


def _is_final(status: JobState) -> bool:
    return status.phase in FINISHED and _is_at_rest(status)


def _annotations(cost: Cost) -> dict[str, str]:
    values = {key: getattr(cost, field) for key, field in _FIELDS.items()}
    return {str(key): str(value) for key, value in values.items() if value is not None}


def _told_usd(told: Mapping[str, str]) -> Decimal:
    """What was told last; whoever may annotate jobs may have written anything there."""
    try:
        return Amount(told.get(names.ANNOTATION_COST_USD, "0")).decimal
    except ValueError:
        return Decimal(0)


def _usd(status: JobState) -> Decimal:
    return Usd.of(status.cost.usd if status.cost is not None else None).decimal


def _level(status: JobState) -> str | None:
    stated = find(status, ConditionType.WITHIN_BUDGET)
    return stated.reason if stated is not None else None
