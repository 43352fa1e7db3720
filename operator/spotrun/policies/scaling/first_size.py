"""The size to begin with, before anything was measured."""

from math import ceil, log

from spotrun.api.names import ScalingReason
from spotrun.policies.scaling.benefit import HIDDEN_LEAP
from spotrun.policies.scaling.facts import SizingFacts
from spotrun.policies.scaling.options import Wish

FINDING = 0.1
"""The share of the time until the deadline that may pass until the largest size is reached."""


def first_size(facts: SizingFacts) -> Wish:
    """Begin with the user's size; without one, half way (in ratio) to the largest possible size.

    There communication shows, and the job can grow and shrink. If time is worth nothing, begin with
    the fewest. A near deadline leaves no time to grow: then begin with more.
    """
    smallest, most = facts.sizes[0], _most(facts)
    if facts.running:
        return _wish(facts.wanted, "the size at which it trains already")
    if facts.wanted > smallest and facts.hour_worth_usd != 0:
        return _wish(facts.wanted, "the size in workers.replicas")
    size, why = smallest, "the fewest, as finishing earlier is worth nothing"
    if facts.hour_worth_usd != 0:
        size = max((n for n in facts.sizes if n <= (smallest * most) ** 0.5), default=smallest)
        why = f"between the fewest and the {most} workers that there is room and money for"
    needed = next((n for n in facts.sizes if n <= most and _is_found_in_time(facts, n, most)), most)
    if needed > size:
        return _wish(needed, "the deadline leaves no time to begin with fewer and grow")
    return _wish(size, why)


def _wish(size: int, why: str) -> Wish:
    return Wish(size, ScalingReason.INITIAL_SIZE, why)


def _most(facts: SizingFacts) -> int:
    """Return the largest allowed size for which there may be room and money."""
    limits = [cap.size for cap in facts.caps]
    if facts.free is not None:
        limits.append(facts.sizes[0] + facts.free)
    return max((n for n in facts.sizes if n <= min(limits, default=n)), default=facts.sizes[0])


def _is_found_in_time(facts: SizingFacts, size: int, most: int) -> bool:
    """Whether all growth that may follow takes a small part of the time until the deadline."""
    if facts.deadline_seconds is None:
        return True
    growths = ceil(log(most / size, HIDDEN_LEAP) - 1e-9)
    each_seconds = facts.up_after_seconds + facts.changeover_seconds
    return growths * each_seconds <= FINDING * facts.deadline_seconds
