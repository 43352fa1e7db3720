"""The part of a job in SpendLimits: it records its sums when a period begins, and why it waits."""

from dataclasses import replace
from datetime import datetime
from fractions import Fraction

from spotrun.api.names import Reason, SuspendedBy
from spotrun.api.spec.spend_limit import SpendPeriod
from spotrun.money.units import NO_USD, Usd, seconds_between
from spotrun.policies.budget.spend.facts import spent_by, unsettled
from spotrun.policies.budget.spend.period import period_of
from spotrun.policies.cost.bill import bill
from spotrun.policies.policy import Policy
from spotrun.state.conditions import record
from spotrun.state.job_state import JobState
from spotrun.state.sizes import SizeLimit
from spotrun.state.snapshot import JobSnapshot
from spotrun.state.stored.cost import SpendBefore
from spotrun.state.view import FINISHED, View


def spend_size_limit(view: View) -> SizeLimit | None:
    """Return the limit on workers for which money is reserved."""
    verdict = view.job.spend
    if verdict is None or verdict.workers is None or verdict.workers >= view.limited_size:
        return None
    why = f"the SpendLimits of the namespace have room for {verdict.workers} workers"
    return SizeLimit(Reason.SPEND_LIMITED, workers=verdict.workers, why=why)


def must_ask(job: JobSnapshot, status: JobState) -> bool:
    """Whether a decision creates a job's first workers before money is reserved for them."""
    if job.spend is None or job.spend.is_granted or unsettled(job.status):
        return False
    return unsettled(status) > 0


def note_periods(view: View, status: JobState) -> JobState:
    """Record what was spent before the present month and week, once in each."""
    if view.job.spend is None or (status.phase in FINISHED and not status.cost.usd_per_hour):
        return status
    known = status.accumulators.spend_before or SpendBefore()
    month = period_of(SpendPeriod.MONTH, view.now).start
    week = period_of(SpendPeriod.WEEK, view.now).start
    noted = known
    if month is not None and known.month != month:
        usd = _before(view, status, month, is_followed=known.month is not None)
        noted = replace(noted, month=month, month_usd=usd)
    if week is not None and known.week != week:
        usd = _before(view, status, week, is_followed=known.week is not None)
        noted = replace(noted, week=week, week_usd=usd)
    if noted == known:
        return status
    return replace(status, accumulators=replace(status.accumulators, spend_before=noted))


def _before(view: View, status: JobState, start: datetime, *, is_followed: bool) -> Usd:
    """Return what was spent before a period.

    The operator may not have looked at the begin of the period: between two passes the rate is
    assumed to be even. If no SpendLimit covered the job before, all that it spent before this pass
    counts as earlier.
    """
    if view.job.created_at >= start:
        return NO_USD
    now, shown = bill(view, status).spent_usd, view.job.status.cost
    if not is_followed or shown.as_of is None:
        return now.as_stored
    then = min(spent_by(shown, shown.as_of), now)
    whole = seconds_between(shown.as_of, view.now)
    if shown.as_of >= start or whole <= 0:
        return then.as_stored
    share = Fraction(seconds_between(shown.as_of, start)) / Fraction(whole)
    return (then + (now - then) * share).as_stored


def record_verdict(view: View, status: JobState) -> JobState:
    """Record in the decisions why a SpendLimit holds or stops the job, or that it may continue."""
    verdict, is_held = view.job.spend, _is_held(status)
    if verdict is None or _is_held(view.job.status) == is_held:
        return status
    if not is_held:
        return record(view, status, "Start", "the SpendLimits have room for this job", {})
    what = "Suspend" if view.alive else "Hold"
    return record(view, status, what, verdict.holds, verdict.numbers)


def _is_held(status: JobState) -> bool:
    return SuspendedBy.SPEND_LIMIT in (status.suspended_by or ())


SPEND_PERIODS = Policy(note_periods)
SPEND_VERDICT = Policy(record_verdict)
