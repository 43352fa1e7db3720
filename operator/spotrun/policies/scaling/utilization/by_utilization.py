"""The size by utilization: it proposes more workers or fewer, and the measured benefit decides."""

from dataclasses import replace

from spotrun.api.names import ScalingReason
from spotrun.api.spec.workers import TargetResource
from spotrun.policies.scaling.facts import Gauge
from spotrun.policies.scaling.options import Options, Poor, Wish
from spotrun.policies.scaling.utilization.targets import Proposal, proposal
from spotrun.policies.scaling.worth import Worth

SAVED = 0.05
"""A size must save at least this share of the money for the same work to justify slower
training."""


def by_utilization(those: Options) -> Wish:
    """Return the largest size that is well used, and at which every worker brings enough."""
    if those.poor is not None:
        return _before(those, those.poor)
    facts, base = those.facts, those.base
    asked = proposal(facts.gauges, base)
    if asked is None:
        return Wish(base, ScalingReason.NO_UTILIZATION, ScalingReason.NO_UTILIZATION.purpose)
    usage = asked.gauge.usage or 0.0
    if asked.size > base:
        found = _more(those, asked)
    elif asked.size < base or (usage < asked.gauge.lowest and not those.smaller):
        found = _fewer(those, asked)
    else:
        found = Wish(base, ScalingReason.WITHIN_TOLERANCE, asked.why_neither)
    why = f"{asked.why}; {found.why}"
    return replace(found, why=why, numbers={**asked.numbers, **found.numbers})


def _before(those: Options, poor: Poor) -> Wish:
    """Return the largest smaller size that brings enough."""
    size = max((size for size in those.smaller if size in those.fit), default=those.base)
    numbers = {"efficiency": f"{poor.efficiency:.2f}"}
    return _if_repaid(those, Wish(size, ScalingReason.EFFICIENCY_LOW, poor.why, numbers))


def _more(those: Options, asked: Proposal) -> Wish:
    """Return the largest size that is still used well, brings enough, and pays for the change."""
    larger = [n for n in those.sizes if n > those.base]
    if not larger:
        why = "no larger size makes a step shorter"
        return Wish(those.base, ScalingReason.AT_LARGEST_SIZE, why)
    if larger[0] not in those.larger and those.tried is not None:
        why = f"{those.tried} workers were tried a while ago and brought too little"
        return Wish(those.base, ScalingReason.TRIED_BEFORE, why)
    good = [n for n in those.larger if n in those.fit and _uses_enough(those, asked.gauge, n)]
    if not good:
        return _brings(those, those.base, larger[0], ScalingReason.NO_BENEFIT)
    paid = those.repaid(Worth.implied(those.facts, those.base), good)
    if not paid:
        return _brings(those, those.base, good[-1], ScalingReason.NOT_REPAID)
    return _brings(those, paid[-1], paid[-1], ScalingReason.UTILIZATION_HIGH)


def _brings(those: Options, size: int, compared: int, reason: ScalingReason) -> Wish:
    share = those.curve.efficiency(those.base, compared)
    why = f"{compared} workers would bring {share:.2f} of what they add"
    if reason is ScalingReason.NOT_REPAID:
        why += ", but a change would not pay off in the time that is left"
    return Wish(size, reason, why, {"efficiency": f"{share:.2f}"})


def _fewer(those: Options, asked: Proposal) -> Wish:
    """Return the largest size that is used well, if it saves money."""
    base, money = those.base, Worth(1.0, 0.0)
    if not those.smaller:
        return Wish(base, ScalingReason.AT_SMALLEST_SIZE, "fewer are not allowed")
    enough = [n for n in those.smaller if _uses_enough(those, asked.gauge, n)]
    size = enough[-1] if enough else those.smaller[0]
    ratio = money.per_step(those.curve, size) / money.per_step(those.curve, base)
    numbers = {"costRatio": f"{ratio:.3f}"}
    why = f"{size} workers would do the same work for {ratio:.0%} of the money"
    if ratio > 1 - SAVED:
        return Wish(base, ScalingReason.NO_BENEFIT, why, numbers)
    return _if_repaid(those, Wish(size, ScalingReason.UTILIZATION_LOW, why, numbers))


def _if_repaid(those: Options, found: Wish) -> Wish:
    """Keep the size if shrinking, which should save money, would cost more than it saves."""
    if found.size == those.base or those.repaid(Worth.money(those.facts), [found.size]):
        return found
    why = f"{found.why}, but a change would not pay off in the time that is left"
    return Wish(those.base, ScalingReason.NOT_REPAID, why, found.numbers)


def _uses_enough(those: Options, gauge: Gauge, size: int) -> bool:
    """Whether utilization, which follows the compute share, would not be lower than tolerated."""
    usage = gauge.usage or 0.0
    here, there = those.curve.compute(those.base), those.curve.compute(size)
    if here and there is not None and gauge.resource is not TargetResource.MEMORY:
        usage *= there / here
    return usage >= gauge.lowest
