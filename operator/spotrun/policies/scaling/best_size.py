"""The size that would be best if it were available at once.

With `hourWorthUsd` this is the size at which the work costs least. Without it, utilization makes a
proposal and the measured benefit decides. A deadline may require more.
"""

from collections.abc import Mapping

from spotrun.api.names import ScalingReason
from spotrun.policies.scaling.options import Options, Wish
from spotrun.policies.scaling.utilization.by_utilization import by_utilization
from spotrun.policies.scaling.worth import Worth

CLEARLY = 0.03
"""Sizes whose costs differ by a smaller share count as equal."""
SPARE = 1.1
"""A worker is given back only above this many times the throughput that the deadline needs."""
_EQUAL = 1e-6  # rounding differences between equal costs


def wish(those: Options) -> Wish:
    """Return the best size, if the change to it pays for itself."""
    worth = Worth.stated(those.facts)
    found = by_utilization(those) if worth is None else _by_money(those, worth)
    return _for_deadline(those, found)


def _by_money(those: Options, worth: Worth) -> Wish:
    """Return the size that gains most until the end, less the price of the change."""
    base, poor = those.base, those.poor
    within = [size for size in (*those.smaller, *those.larger) if size in those.fit]
    costs = {size: worth.per_step(those.curve, size) for size in (base, *within)}
    if not worth.hour_usd:
        best = _fewest_of_the_cheapest(costs)
    else:
        chosen = within if poor is not None and within else (base, *within)
        best = max(chosen, key=lambda size: (those.change(worth, size).net, -size))
    ratio = costs[best] / costs[base]
    numbers = {"costRatio": f"{ratio:.3f}", "hourWorthUsd": f"{worth.hour_usd:g}"}
    why = f"at {best} workers the same work costs {ratio:.0%} of what it does at {base}"
    if poor is not None and best < base:
        return Wish(best, ScalingReason.EFFICIENCY_LOW, f"{poor.why}; {why}", numbers)
    if best != base and (ratio <= 1 - CLEARLY or not worth.hour_usd):
        return Wish(best, ScalingReason.PAYS_OFF, why, numbers)
    if min(costs.values()) > costs[base] * (1 - CLEARLY):
        return Wish(base, ScalingReason.BEST_SIZE, "no other size costs clearly less", numbers)
    why = "another size would cost less, but a change would not pay off in the time that is left"
    return Wish(base, ScalingReason.NOT_REPAID, why, numbers)


def _fewest_of_the_cheapest(costs: Mapping[int, float]) -> int:
    """Return the fewest workers of the cheapest sizes: if time costs nothing, slow is enough."""
    least = min(costs.values())
    return min(size for size, cost in costs.items() if cost <= least * (1 + _EQUAL))


def _for_deadline(those: Options, found: Wish) -> Wish:
    """Return the smallest size that is fast enough, if the one found is not."""
    needed, step, base = those.facts.needed_samples_per_second, those.facts.step, those.base
    if needed is None or step is None:
        return found
    within = (size for size in those.sizes if size <= those.curve.farthest)
    rates = {size: step.samples / those.curve.seconds(size) for size in within}
    if rates[found.size] >= needed * (SPARE if found.size < base else 1.0):
        return found
    if rates[base] < needed:
        size = _fast_enough(rates, needed)
    else:
        size = min(_fast_enough(rates, needed * SPARE), base)
    if size <= found.size:
        return found
    why = f"the deadline needs {needed:.3g} samples/s; {size} workers train {rates[size]:.3g}"
    numbers = {**found.numbers, "neededSamplesPerSecond": f"{needed:.3g}"}
    return Wish(size, ScalingReason.NEEDED_FOR_DEADLINE, why, numbers)


def _fast_enough(rates: Mapping[int, float], needed: float) -> int:
    """Return the smallest fast-enough size, or the smallest nearly as fast as the fastest."""
    enough = min(needed, max(rates.values()) * (1 - CLEARLY))
    return min(size for size, rate in rates.items() if rate >= enough)
