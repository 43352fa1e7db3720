"""The cost per hour of workers that are still to come, by the prices of their pools.

Without it, a job would get nodes again and again, only to find that their price is too high.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal

from spotrun.api.names import Reason
from spotrun.money.units import NO_RATE, UsdPerHour
from spotrun.policies.placement.policy import missing
from spotrun.policies.placement.pool_choice import to_be_had
from spotrun.policies.placement.score import share_in
from spotrun.policies.placement.supply import offered
from spotrun.state.actions import Placed
from spotrun.state.job_state import JobState
from spotrun.state.market import PoolFacts
from spotrun.state.sizes import SizeLimit, smallest
from spotrun.state.snapshot import JobSnapshot
from spotrun.state.view import View


def least_rate(view: View, status: JobState) -> UsdPerHour | None:
    """Return the rate of the smallest world; None if a worker exists, or if no price is known."""
    if view.staying:
        return None
    places = missing(view, status, smallest(view.job.effective_workers))
    known = _all_known(_cheapest(view.job, place) for place in places)
    return sum(known, NO_RATE) if known is not None else None


def max_stable_workers(view: View, limit: UsdPerHour, size: int) -> int | None:
    """Return how many workers of a world may be stable, the others on spot; None: no limit known.

    The operator does not ask for stable workers beyond the limit: it waits for spot instead.
    """
    spot, stable = view.once_unlimited("least rates", (), lambda: _least_rates(view))
    if spot is None or stable is None or stable * size <= limit:
        return None
    more = stable - spot
    if more <= NO_RATE:
        return None
    left = limit - spot * size
    return max(int(left.exact / more.exact), view.job.spec.placement.on_demand_base)


def least_worker_rate(view: View) -> UsdPerHour | None:
    """Return the lowest rate of a worker that is still to come; None: no price is known."""
    rates = view.once_unlimited("least rates", (), lambda: _least_rates(view))
    return min((rate for rate in rates if rate is not None), default=None)


def _least_rates(view: View) -> tuple[UsdPerHour | None, UsdPerHour | None]:
    """Return the lowest rates of a worker: on spot, and on stable capacity."""
    job, found = view.job, offered(view)
    there = [pool for pool in found.stable if to_be_had(view, pool)]
    return _least(job, found.spot), _least(job, there or found.stable)


def rate_of_missing(
    view: View, status: JobState, size: int, limit: UsdPerHour, unknown: UsdPerHour
) -> UsdPerHour:
    """Return what a world of that size would cost beyond the workers that have nodes.

    Workers without a node are ignored: otherwise asking for one would change the answer. A worker
    whose cost is not known costs `unknown`.
    """
    most = max_stable_workers(view, limit, size)
    # Sizes are tried one after the other, and most of them share the same view of placed workers.
    placed = view.once(("placed", most), (), lambda: _placed(view, most))
    places = Counter(missing(placed, status, size))
    prices = {place: _cheapest(placed.job, place) for place in places}
    rates = ((unknown if price is None else price) * places[one] for one, price in prices.items())
    return sum(rates, NO_RATE)


def _placed(view: View, most: int | None) -> View:
    """Return the view without workers that wait for a node, with at most so many stable workers."""
    limit = None if most is None else SizeLimit(Reason.RATE_LIMITED, stable_workers=most)
    waiting = {worker.worker_id for worker in view.staying if worker.node is None}
    if not waiting:
        return view if limit is None else view.limited(limit)
    workers = tuple(worker for worker in view.job.workers if worker.worker_id not in waiting)
    placed = View(replace(view.job, workers=workers), view.now)
    return placed if limit is None else placed.limited(limit)


def _cheapest(job: JobSnapshot, place: Placed) -> UsdPerHour | None:
    """Return the cost of a worker from a place; None if it may go anywhere, or is unknown."""
    pools = (job.market.pool(name) for name in place.required)
    return _least(job, [pool for pool in pools if pool is not None])


def _least(job: JobSnapshot, pools: Iterable[PoolFacts]) -> UsdPerHour | None:
    """Return the cost of a worker in the cheapest of these pools; None: unknown."""
    known = _all_known(_of_a_worker(job, pool) for pool in pools)
    return min(known, default=None) if known is not None else None


def _all_known(prices: Iterable[UsdPerHour | None]) -> list[UsdPerHour] | None:
    given = list(prices)
    known = [price for price in given if price is not None]
    return known if len(known) == len(given) else None


def _of_a_worker(job: JobSnapshot, pool: PoolFacts) -> UsdPerHour | None:
    if pool.usd_per_hour is None:
        return None
    return UsdPerHour(pool.usd_per_hour * Decimal(str(share_in(pool, job.requests))))
