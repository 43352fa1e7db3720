"""The interval between saves and the number that is kept, within a budget: pure arithmetic.

With an interval T between saves, a month costs

    losses per hour x T/2 x $/h of the workers        work that has to be done again
    + saves x (training that a save costs x $/h + its requests)

which is lowest at Young's interval, sqrt(2 x cost of a save / (losses per hour x $/h)). The stored
bytes, the requests, and the claim that keeps other trainings out must fit into the budget. If they
do not, first fewer checkpoints are kept, down to one: that only leaves fewer to choose from. Then
saves become rarer. Saving never stops, because a training without checkpoints can lose everything.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from spotrun.money.other_costs.storage_costs import HOURS_PER_MONTH, Usage, usd_per_month
from spotrun.money.other_costs.storage_prices import StoragePrice
from spotrun.money.units import Usd

CLAIM_SECONDS = 6
"""The interval at which a claim is read and written (`ObjectNote.beat_seconds` of the trainer)."""
PART_BYTES = 16 << 20
"""The size of the parts in which the trainer writes large files."""
RAREST_SECONDS = 6 * 3600
"""A budget makes no interval longer than this: lost work then costs more than any request."""
SHORTEST_SECONDS = 30
"""A save that follows sooner adds almost nothing to the one before."""


@dataclass(frozen=True)
class SaveFacts:
    """The facts about a job's checkpoints; money per hour in dollars."""

    checkpoint_bytes: int
    processes: int  # each writes a part
    save_seconds: float  # training time that a save costs
    losses_per_hour: float  # that leave no copy of the state
    usd_per_hour: float  # of all workers
    keep: int  # the number of checkpoints that the job wants to keep
    every_seconds: float | None  # the job's own interval; None: Auto


@dataclass(frozen=True)
class Strategy:
    """A choice, and its cost per month."""

    every_seconds: float
    keep: int
    stored_usd: Usd
    requests_usd: Usd
    lost_work_usd: float
    is_within: bool = True
    is_rarer: bool = False  # whether saves are rarer than without a budget

    @property
    def usd(self) -> Usd:
        """The cost of the store."""
        return self.stored_usd + self.requests_usd


def choose(facts: SaveFacts, price: StoragePrice, budget: Usd) -> Strategy:
    """Return the choice whose cost fits the budget, or the cheapest one if none does."""
    best = facts.every_seconds or _best_seconds(facts, price)
    for keep in range(facts.keep, 0, -1):
        found = _strategy(facts, price, best, keep)
        if found.usd <= budget:
            return found
    seconds = best
    if facts.every_seconds is None:
        seconds = max(best, _affordable_seconds(facts, price, budget))
    found = _strategy(facts, price, seconds, 1)
    return replace(found, is_within=found.usd <= budget, is_rarer=seconds > best)


def requests_per_save(checkpoint_bytes: int, processes: int) -> Usage:
    """Return the requests of a save, including those to find it and to delete an older one.

    Each process writes its part of the state (large ones in parts) and a manifest, and checks
    whether the others are done; then one writes the marker, and reads the first manifest of each
    checkpoint that may be deleted.
    """
    each = -(-checkpoint_bytes // max(processes, 1))
    parts = 1 if each <= PART_BYTES else 2 + -(-each // PART_BYTES)
    return Usage(puts=processes * (parts + 1) + 4, gets=3 * processes + 3)


def _best_seconds(facts: SaveFacts, price: StoragePrice) -> float:
    """Return Young's interval, with the requests of a save as a part of its cost."""
    requests = requests_per_save(facts.checkpoint_bytes, facts.processes).usd(price).requests
    per_save = facts.save_seconds / 3600 * facts.usd_per_hour + float(requests.exact)
    lost_per_hour = facts.losses_per_hour * facts.usd_per_hour
    if lost_per_hour <= 0:
        return RAREST_SECONDS
    return _bounded(math.sqrt(2 * per_save / lost_per_hour) * 3600)


def _affordable_seconds(facts: SaveFacts, price: StoragePrice, budget: Usd) -> float:
    """Return the interval whose requests use up the budget that one stored checkpoint leaves."""
    requests = requests_per_save(facts.checkpoint_bytes, facts.processes).usd(price).requests
    left = budget - _stored_usd(facts, price, 1) - _claim_usd(price)
    if left.exact <= 0:
        return RAREST_SECONDS
    return _bounded(float(requests.exact / left.exact) * HOURS_PER_MONTH * 3600)


def _strategy(facts: SaveFacts, price: StoragePrice, seconds: float, keep: int) -> Strategy:
    saves = HOURS_PER_MONTH * 3600 / seconds
    requests = requests_per_save(facts.checkpoint_bytes, facts.processes).usd(price).requests
    lost_hours = HOURS_PER_MONTH * facts.losses_per_hour * seconds / 2 / 3600
    return Strategy(
        every_seconds=seconds,
        keep=keep,
        stored_usd=_stored_usd(facts, price, keep),
        requests_usd=_claim_usd(price) + Usd(requests.exact * Fraction(saves)),
        lost_work_usd=lost_hours * facts.usd_per_hour,
    )


def _stored_usd(facts: SaveFacts, price: StoragePrice, keep: int) -> Usd:
    """Return the cost of the kept checkpoints, and of the one that is being written."""
    return usd_per_month((keep + 1) * facts.checkpoint_bytes, price)


def _claim_usd(price: StoragePrice) -> Usd:
    beats = HOURS_PER_MONTH * 3600 // CLAIM_SECONDS
    return Usage(puts=beats, gets=beats).usd(price).requests


def _bounded(seconds: float) -> float:
    return float(math.ceil(min(max(seconds, SHORTEST_SECONDS), RAREST_SECONDS)))
