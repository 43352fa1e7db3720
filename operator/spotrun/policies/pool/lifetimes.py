"""The lives of nodes until they are taken away, in few words that can be added to.

For each age: of how many nodes that reached it how many were taken before the next one. That is
what a Nelson-Aalen estimate needs: a node that is given back, or is still there, counts as one that
reached its age and was not taken at it; no assumption about its end is made.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from spotrun.state.stored.pools.pool_state import AGES, AtAge, Lifetimes

MOST_REACHED = 500
"""Beyond this number the figures of an age are halved, so that the distant past counts less."""


@dataclass(frozen=True)
class Life:
    """A node from when it was made until it went away."""

    born_at: datetime
    ended_at: datetime | None = None  # None: it is there
    taken: bool = False  # the platform took it, rather than that somebody gave it back

    @property
    def seconds(self) -> float:
        """The time that it was there, in seconds; only of one that has ended."""
        assert self.ended_at is not None, "it has ended"
        return max((self.ended_at - self.born_at).total_seconds(), 0.0)


def add_lives(
    known: Lifetimes, lives: Iterable[Life], since: datetime | None, until: datetime
) -> Lifetimes:
    """Add what became of nodes between two moments; with no first one they are new to us.

    Of a node that is seen for the first time in the middle of its life nothing is known of the ages
    before: had it not survived them, it would not have been seen.
    """
    taken: Counter[str] = Counter()
    reached: Counter[str] = Counter()
    for life in lives:
        end = until if life.ended_at is None else min(life.ended_at, until)
        reached.update(_reached(life.born_at, since, end))
        if life.taken and _is_within(life.ended_at, since, until):
            taken[_age_at(life.born_at, end)] += 1
    if not taken and not reached:
        return known
    before = {age: known.get(age, AtAge()) for age in AGES}
    added = {
        age: _faded(one.taken + taken[age], one.reached + reached[age])
        for age, one in before.items()
    }
    return {age: one for age, one in added.items() if one.reached or one.taken}


def next_age_at(born_at: datetime, now: datetime) -> datetime | None:
    """Return when a node reaches its next age; None if it has reached them all."""
    return min((born_at + age for age in AGES.values() if born_at + age > now), default=None)


def _reached(born_at: datetime, since: datetime | None, end: datetime) -> list[str]:
    """The ages that a node came to while it was watched."""
    if since is None:
        return [_age_at(born_at, end)]
    return [name for name, age in AGES.items() if since < born_at + age <= end]


def _is_within(moment: datetime | None, since: datetime | None, until: datetime) -> bool:
    return moment is not None and moment <= until and (since is None or moment > since)


def _age_at(born_at: datetime, moment: datetime) -> str:
    past = [name for name, age in AGES.items() if born_at + age <= moment]
    return past[-1] if past else "0m"


def _faded(taken: int, reached: int) -> AtAge:
    # Its arrival may not have been seen; who is taken at an age has reached it all the same.
    reached = max(reached, taken)
    if reached <= MOST_REACHED:
        return AtAge(taken, reached)
    return AtAge((taken + 1) // 2, (reached + 1) // 2)
