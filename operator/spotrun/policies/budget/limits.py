"""The limits of a budget: no unknown price is paid, and no more per hour than is allowed.

If pools have no price, only running workers show whether a price is known by now, or has fallen.
So a job that is held back for its price is tried again after some time, in the smallest world.
"""

from bisect import bisect_right
from dataclasses import dataclass

from spotrun.api.names import ConditionType, Reason, SuspendedBy
from spotrun.api.spec.limits import Budget, Unpriced
from spotrun.money.budget import affordable
from spotrun.money.charges import Book
from spotrun.money.units import UsdPerHour
from spotrun.policies.budget.projected_rate import (
    least_rate,
    max_stable_workers,
    rate_of_missing,
)
from spotrun.policies.cost.bill import Bill, bill
from spotrun.policies.cost.charges.times import started_at
from spotrun.policies.cost.meter import meter
from spotrun.policies.cost.pricing import why_unpriced
from spotrun.state.conditions import find, read_reason
from spotrun.state.job_state import JobState
from spotrun.state.sizes import SizeLimit, allowed, largest, smallest
from spotrun.state.snapshot import Worker
from spotrun.state.stored.statements import Condition
from spotrun.state.view import View

UNPRICED_SECONDS = 30.0
"""A controller that annotates nodes with their price does so shortly after they have joined."""
RETRY_SECONDS = 600.0
"""A price change within this time is not worth the start of a world."""


@dataclass(frozen=True)
class Verdict:
    """A verdict on the budget, and its consequences."""

    reason: Reason
    message: str
    is_within: bool = True
    holds_back: bool = False


def is_held(status: JobState) -> bool:
    """Whether the budget holds the job back."""
    return SuspendedBy.BUDGET in (status.suspended_by or ())


def on_price(view: View, status: JobState, budget: Budget, now: Bill) -> Verdict | None:
    """Hold the job back if a running worker has no known price: such a budget cannot be kept."""
    if budget.unpriced is Unpriced.ALLOW:
        return None
    late = tuple(w for w in now.unpriced if _age_seconds(view, w) >= UNPRICED_SECONDS)
    if not late:
        return _still(view, status, Reason.PRICE_UNKNOWN)
    message = f"{why_unpriced(late)}; or allow it with budget.unpriced: Allow"
    return Verdict(Reason.PRICE_UNKNOWN, message, is_within=False, holds_back=True)


def on_rate(view: View, status: JobState, budget: Budget, now: Bill) -> Verdict | None:
    """Keep to maxUsdPerHour: with fewer workers, or with none if the smallest world costs more."""
    if budget.max_usd_per_hour is None:
        return None
    still = _still(view, status, Reason.RATE_LIMITED)
    if still is not None:
        return still
    limit, size = UsdPerHour.of(budget.max_usd_per_hour), size_within(view, status, budget, now)
    fewest = smallest(view.job.effective_workers)
    least = least_rate(view, status)
    if size < fewest or (least is not None and least > limit):
        message = f"the smallest world ({fewest} workers) costs over {limit}: raise maxUsdPerHour"
        return Verdict(Reason.RATE_LIMITED, message, is_within=False, holds_back=True)
    known = view.tightest_limit
    if known is not None and known.reason is Reason.RATE_LIMITED:
        return Verdict(Reason.RATE_LIMITED, known.why)
    return None


def rate_limit(view: View) -> SizeLimit | None:
    """Limit the workers, and how many of them are stable, to what maxUsdPerHour can pay."""
    budget, workers = view.job.spec.budget, view.job.effective_workers
    if budget is None or budget.max_usd_per_hour is None:
        return None
    status, limit = meter(view, view.job.status), UsdPerHour.of(budget.max_usd_per_hour)
    paid = size_within(view, status, budget, bill(view, status))
    size = largest(workers, max(paid, smallest(workers)))
    if size < view.limited_size:
        why = f"maxUsdPerHour {limit} pays for {paid} workers at present prices"
        return SizeLimit(Reason.RATE_LIMITED, size, max_stable_workers(view, limit, size), why)
    most = max_stable_workers(view, limit, view.limited_size)
    return None if most is None else SizeLimit(Reason.RATE_LIMITED, stable_workers=most)


def size_within(view: View, status: JobState, budget: Budget, now: Bill) -> int:
    """Return how many workers may stay or come: the same for all policies in one pass."""
    whole = view.unlimited or view
    return whole.once("size within", (), lambda: _size_within(whole, status, budget, now))


def _size_within(view: View, status: JobState, budget: Budget, now: Bill) -> int:
    """Return how many workers fit; until a price is known, no more than the fewest are tried.

    A worker that leaves is paid until it has ended, so its replacement may have to wait.
    """
    assert budget.max_usd_per_hour is not None, "there is a limit"
    limit, book = UsdPerHour.of(budget.max_usd_per_hour), status.accumulators.rates
    staying = [worker for worker in now.running if worker.worker_id in view.staying_worker_ids]
    rates = sorted(_rates(staying, book))
    if not rates:
        return smallest(view.job.effective_workers)
    fit = affordable(limit, rates)
    if fit < len(rates):
        return fit
    left, dearest = limit - now.usd_per_hour, rates[-1]
    sizes = [size for size in allowed(view.job.effective_workers) if size > len(rates)]
    number = bisect_right(
        sizes, left, key=lambda size: rate_of_missing(view, status, size, limit, dearest)
    )
    return sizes[number - 1] if number else len(rates)


def price_wake_after_seconds(view: View, budget: Budget, now: Bill) -> float | None:
    """Return when the operator stops waiting for a price that is not known yet."""
    if budget.unpriced is Unpriced.ALLOW:
        return None
    waits = (UNPRICED_SECONDS - _age_seconds(view, worker) for worker in now.unpriced)
    return min((wait for wait in waits if wait > 0), default=None)


def retry_wake_after_seconds(view: View, status: JobState) -> float | None:
    """Return when a job that is held back for a price may next be tried again."""
    stated = find(status, ConditionType.WITHIN_BUDGET)
    if stated is None or read_reason(stated.reason, Reason.TRAINING) not in _OF_PRICES:
        return None
    return RETRY_SECONDS - _stated_seconds(view, stated) % RETRY_SECONDS


_OF_PRICES = frozenset({Reason.PRICE_UNKNOWN, Reason.RATE_LIMITED})


def _still(view: View, status: JobState, reason: Reason) -> Verdict | None:
    """Return the verdict that already holds the job back; None after a new spec or at a retry."""
    stated = find(status, ConditionType.WITHIN_BUDGET)
    if stated is None or not is_held(status) or stated.reason != reason.value:
        return None
    is_over = _stated_seconds(view, stated) >= RETRY_SECONDS
    if stated.observed_generation != view.job.generation or is_over:
        return None
    return Verdict(reason, stated.message, is_within=False, holds_back=True)


def _stated_seconds(view: View, stated: Condition) -> float:
    return (view.now - stated.last_transition_time).total_seconds()


def _rates(workers: list[Worker], book: Book) -> list[UsdPerHour]:
    """Return the present cost of each worker per hour; workers of unknown price are left out."""
    charges = (book.get(worker.worker_id) for worker in workers)
    return [known[-1].usd_per_hour for known in charges if known]


def _age_seconds(view: View, worker: Worker) -> float:
    start = started_at(worker)
    return (view.now - start).total_seconds() if start is not None else 0.0
