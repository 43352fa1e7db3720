"""What the fewest workers cost per hour, by the prices of the pools they would be asked from."""

from decimal import Decimal

from spotrun.api.status import TrainingJobStatus
from spotrun.decide.actions import Placed
from spotrun.decide.placement.policy import missing
from spotrun.decide.score import share_in
from spotrun.decide.sizes import smallest
from spotrun.decide.view import View
from spotrun.money.units import NO_RATE, UsdPerHour


def least_rate(view: View, status: TrainingJobStatus) -> UsdPerHour | None:
    """The least that they could cost; None: some are there, or it shows only once they are."""
    if view.staying:
        return None
    total = NO_RATE
    for place in missing(view, status, smallest(view.job.spec.workers)):
        price = _cheapest(view, place)
        if price is None:
            return None
        total += price
    return total


def _cheapest(view: View, place: Placed) -> UsdPerHour | None:
    """What a worker costs that is asked from there; None: it may go anywhere, or nobody knows."""
    prices = []
    for name in place.required:
        pool = view.job.market.pool(name)
        if pool is None or pool.usd_per_hour is None:
            return None
        share = Decimal(str(share_in(pool, view.job.requests)))
        prices.append(UsdPerHour(pool.usd_per_hour * share))
    return min(prices, default=None)
