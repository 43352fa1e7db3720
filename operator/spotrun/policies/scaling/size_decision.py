"""The number of workers that a job should have: a function of facts, memory and time.

The best size is requested only if it stays the best for a while, if it is available and can be paid
for, and if the last change is complete (other projects call this a cooldown). Everything that must
not be forgotten is in the next memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal

from spotrun.api.names import ScalingReason
from spotrun.policies.scaling.benefit import Curve
from spotrun.policies.scaling.best_size import wish
from spotrun.policies.scaling.facts import Pause, SizingFacts
from spotrun.policies.scaling.first_size import first_size
from spotrun.policies.scaling.options import Wish, options
from spotrun.policies.scaling.probe import heed, next_probe, probe
from spotrun.policies.scaling.size_history import (
    KEPT_FOR,
    curve,
    reject,
    rejected_from,
    remember,
)
from spotrun.policies.scaling.utilization.by_use import by_use
from spotrun.state.stored.scaling import ScalingState, SizeChange

_NEWS = 0.05
"""A change of utilization; a smaller change is no reason for a write."""


@dataclass(frozen=True)
class Choice:
    """The size that is justified now, the reason, and what must be remembered."""

    size: int
    memory: ScalingState
    reason: ScalingReason | Pause
    why: str
    numbers: Mapping[str, str] = field(default_factory=dict)
    wake_after_seconds: float | None = None  # when time alone may change it


def choose_size(facts: SizingFacts, memory: ScalingState, now: datetime) -> Choice:
    """Decide how many workers there should be."""
    if memory.size is None:
        first = first_size(facts)
        if first.size != facts.wanted:
            return _ask(facts, memory, first, now)
    memory = _with_utilization(remember(heed(memory, facts), facts, now), facts)
    known = curve(memory, facts)
    hindrance = _hindrance(facts, known)
    if hindrance is not None:
        return _wait(facts, memory, hindrance)
    if facts.is_mute or known is None:
        return _settle(facts, memory, _within_caps(facts, _by_use(facts, memory)), now)
    those = options(facts, memory, known)
    found = _within_caps(facts, wish(those))
    found = probe(those, found, memory, now) or found
    return _settle(facts, memory, found, now)


def _hindrance(facts: SizingFacts, known: Curve | None) -> Pause | None:
    """Return what must be over before anything can be concluded."""
    if not facts.running:
        return Pause.NOT_TRAINING
    cap = facts.cap
    is_capped = cap is not None and cap.size <= facts.running
    if facts.running > facts.wanted or (facts.running < facts.wanted and not is_capped):
        return Pause.RESIZING
    if facts.is_mute:
        return None if facts.is_use_settled else Pause.MEASURING
    if facts.step is None or known is None:
        return Pause.MEASURING
    return None


def _by_use(facts: SizingFacts, memory: ScalingState) -> Wish:
    tried = rejected_from(memory)
    return by_use(facts, tried.workers if tried is not None else None)


def _within_caps(facts: SizingFacts, found: Wish) -> Wish:
    """Limit the size to what is available and can be paid for; present workers are not given up."""
    cap = facts.cap
    if cap is None:
        return found
    if facts.running <= found.size and facts.running < facts.wanted:
        why = f"{facts.running} workers train; {cap.reason.purpose}"
        return replace(found, size=facts.wanted, reason=cap.reason, why=why)
    if found.size <= max(cap.size, facts.wanted):
        return found
    size = max((n for n in facts.sizes if n <= cap.size), default=facts.wanted)
    why = f"{found.why}; {cap.size} is the largest possible size: {cap.reason.purpose}"
    if size > facts.wanted:
        return replace(found, size=size, why=why)
    return replace(found, size=facts.wanted, reason=cap.reason, why=why)


def _settle(facts: SizingFacts, memory: ScalingState, found: Wish, now: datetime) -> Choice:
    """Change the size once the change was justified for long enough without a break."""
    direction = (found.size > facts.wanted) - (found.size < facts.wanted)
    if not direction:
        return _stay(facts, memory, found)
    since = memory.more_since if direction > 0 else memory.fewer_since
    begun = since or now
    patience = _patience_seconds(facts, memory, found)
    left = patience - (now - begun) / timedelta(seconds=1)
    if left <= 0:
        return _ask(facts, _with_rejection(facts, memory, found, now), found, now)
    more, fewer = (begun, None) if direction > 0 else (None, begun)
    memory = replace(memory, size=facts.wanted, more_since=more, fewer_since=fewer)
    why = f"the size becomes {found.size} if this holds for {left:.0f} s more: {found.why}"
    return Choice(facts.wanted, memory, Pause.STABILIZING, why, found.numbers, left)


def _with_rejection(
    facts: SizingFacts, memory: ScalingState, found: Wish, now: datetime
) -> ScalingState:
    """Note a useless growth or trial, so that it is not tried again soon."""
    known = curve(memory, facts)
    if facts.is_mute or known is None:
        is_vain = found.size < facts.running and _has_grown_last(facts, memory)
        return reject(memory, facts.running, None, now + KEPT_FOR) if is_vain else memory
    if found.reason is ScalingReason.EFFICIENCY_LOW:
        share = known.efficiency(found.size, facts.running)
        return reject(memory, facts.running, share, now + KEPT_FOR)
    if found.reason is ScalingReason.PROBING:
        share = known.efficiency(facts.running, found.size)
        return reject(memory, found.size, share, next_probe(memory, now))
    return memory


def _patience_seconds(facts: SizingFacts, memory: ScalingState, found: Wish) -> float:
    """Return how long to wait; a useless growth is taken back as quickly as it was made."""
    is_growth, is_poor = found.size > facts.wanted, found.reason is ScalingReason.EFFICIENCY_LOW
    is_quick = is_growth or is_poor or _is_new_and_in_vain(facts, memory)
    return facts.up_after_seconds if is_quick else facts.down_after_seconds


def _is_new_and_in_vain(facts: SizingFacts, memory: ScalingState) -> bool:
    """Whether the last growth is measured at both sizes, and nothing since has justified it."""
    last, measured = memory.last, {one.workers for one in memory.measured}
    if last is None or memory.reason != last.reason:
        return False
    return _has_grown_last(facts, memory) and {last.before, last.after} <= measured


def _has_grown_last(facts: SizingFacts, memory: ScalingState) -> bool:
    """Whether the last change was a growth to the size that trains."""
    last = memory.last
    return last is not None and last.before < last.after == facts.running


def _wait(facts: SizingFacts, memory: ScalingState, pause: Pause) -> Choice:
    """Conclude nothing; a new operator that must measure first keeps the waiting time so far."""
    memory = replace(memory, size=facts.wanted)
    if pause is not Pause.MEASURING:
        memory = replace(memory, more_since=None, fewer_since=None)
    return Choice(facts.wanted, memory, pause, pause.value)


def _stay(facts: SizingFacts, memory: ScalingState, found: Wish) -> Choice:
    reason = found.reason.value
    memory = replace(memory, size=facts.wanted, reason=reason, more_since=None, fewer_since=None)
    return Choice(facts.wanted, memory, found.reason, found.why, _numbers(facts, found))


def _ask(facts: SizingFacts, memory: ScalingState, found: Wish, now: datetime) -> Choice:
    """Ask for another size, and remember the present one until the change is done."""
    reason = found.reason.value
    last = SizeChange(time=now, before=facts.wanted, after=found.size, reason=reason)
    memory = replace(memory, size=found.size, reason=reason, last=last)
    memory = replace(memory, more_since=None, fewer_since=None)
    return Choice(found.size, memory, found.reason, found.why, _numbers(facts, found))


def _numbers(facts: SizingFacts, found: Wish) -> dict[str, str]:
    """Return the numbers of a decision, and in addition the size and how fast it trains."""
    numbers = {"workers": str(facts.running), "wanted": str(facts.wanted), **found.numbers}
    if facts.step is not None:
        numbers["samplesPerSecond"] = f"{facts.step.samples_per_second:.3g}"
    if facts.usd_per_hour is not None:
        numbers["usdPerHour"] = f"{facts.usd_per_hour * facts.running:.4g}"
    return numbers


def _with_utilization(memory: ScalingState, facts: SizingFacts) -> ScalingState:
    """Note the utilization for people, in percent; only a real difference is written."""
    used = ((gauge.resource.value, gauge.usage) for gauge in facts.gauges)
    known = {name: usage for name, usage in used if usage is not None}
    before = memory.utilization
    is_near = known.keys() == before.keys() and all(
        abs(known[name] - float(before[name])) < _NEWS for name in known
    )
    shown = {name: Decimal(f"{usage:.2f}") for name, usage in known.items()}
    return memory if is_near else replace(memory, utilization=shown)
