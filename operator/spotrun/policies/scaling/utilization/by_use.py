"""The size by what workers use, if no steps are counted: no benefit can be measured then.

Then the rule of a HorizontalPodAutoscaler decides, with more caution: at most twice the workers at
once, and a growth that it takes back itself is not tried again soon. Each change starts such a
script again, so there must be a checkpoint from which it can continue.
"""

from dataclasses import replace

from spotrun.api.names import ScalingReason
from spotrun.policies.scaling.benefit import HIDDEN_LEAP
from spotrun.policies.scaling.facts import SizingFacts
from spotrun.policies.scaling.options import Wish
from spotrun.policies.scaling.utilization.targets import Proposal, proposal

_FEWEST = "the fewest, as finishing earlier is worth nothing"
_ANEW = "but without spec.checkpoint a change would start its training from the beginning"


def by_use(facts: SizingFacts, tried: int | None) -> Wish:
    """Return the smallest allowed size that is enough for the use, unless it was `tried` before."""
    found = _fewest(facts) if facts.hour_worth_usd == 0 else _by_proposal(facts, tried)
    if found.size == facts.running or facts.has_checkpoints:
        return found
    why = f"{found.why}, {_ANEW}"
    return replace(found, size=facts.running, reason=ScalingReason.NOT_REPAID, why=why)


def _fewest(facts: SizingFacts) -> Wish:
    size = min(facts.sizes[0], facts.running)
    reason = ScalingReason.PAYS_OFF if size < facts.running else ScalingReason.BEST_SIZE
    return Wish(size, reason, _FEWEST)


def _by_proposal(facts: SizingFacts, tried: int | None) -> Wish:
    base, asked = facts.running, proposal(facts.gauges, facts.running)
    if asked is None:
        why = facts.use_unknown or ScalingReason.NO_UTILIZATION.purpose
        return Wish(base, ScalingReason.NO_UTILIZATION, why)
    usage = asked.gauge.usage or 0.0
    if asked.size > base:
        found = _more(facts, asked, tried)
    elif asked.size < base or (usage < asked.gauge.lowest and base <= facts.sizes[0]):
        found = _fewer(facts, asked)
    else:
        found = Wish(base, ScalingReason.WITHIN_TOLERANCE, asked.why_neither)
    numbers = {**asked.numbers, **found.numbers}
    return replace(found, why=f"{asked.why}; {found.why}", numbers=numbers)


def _more(facts: SizingFacts, asked: Proposal, tried: int | None) -> Wish:
    base = facts.running
    larger = [size for size in facts.sizes if size > base]
    if not larger:
        return Wish(base, ScalingReason.AT_LARGEST_SIZE, "more are not allowed")
    enough = min(asked.size, base * HIDDEN_LEAP)
    size = next((size for size in larger if size >= enough), larger[-1])
    if tried is not None and size >= tried:
        return Wish(base, ScalingReason.TRIED_BEFORE, f"{tried} workers were too many recently")
    return Wish(size, ScalingReason.UTILIZATION_HIGH, _asks(asked))


def _fewer(facts: SizingFacts, asked: Proposal) -> Wish:
    base = facts.running
    smaller = [size for size in facts.sizes if size < base]
    if not smaller:
        return Wish(base, ScalingReason.AT_SMALLEST_SIZE, "fewer are not allowed")
    size = next((size for size in smaller if size >= asked.size), base)
    if size == base:
        why = f"{_asks(asked)}, and fewer are allowed only from {smaller[-1]} on"
        return Wish(base, ScalingReason.WITHIN_TOLERANCE, why)
    return Wish(size, ScalingReason.UTILIZATION_LOW, _asks(asked))


def _asks(asked: Proposal) -> str:
    return f"it asks for {asked.size}, and no worker reports steps, by which that could be judged"
