"""The lifetimes of nodes until they are taken away, in a short form that can be added to.

For each age it holds how many nodes reached it, and how many of these were taken before the next
age, as a Nelson-Aalen estimate needs. A node that is given back, or is still there, counts as one
that reached its age and was not taken at it; no assumption about its end is made.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from spotrun.state.stored.pools.pool_state import AGES, AtAge, Lifetimes

MOST_REACHED = 500
"""Above this number the figures of an age are halved, so that the distant past counts less."""


@dataclass(frozen=True)
class Life:
    """A node from its creation until it went away."""

    born_at: datetime
    ended_at: datetime | None = None  # None: it is there
    taken: bool = False  # the platform took it away; nobody gave it back

    @property
    def seconds(self) -> float:
        """The lifetime of a node that has ended, in seconds."""
        assert self.ended_at is not None, "the node has ended"
        return max((self.ended_at - self.born_at).total_seconds(), 0.0)


def add_lives(
    known: Lifetimes, lives: Iterable[Life], since: datetime | None, until: datetime
) -> Lifetimes:
    """Add what happened to nodes between two moments; without `since`, all are seen the first time.

    A node that is first seen in the middle of its life says nothing about earlier ages: if it had
    not survived them, it would not have been seen.
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
    """The ages that a node reached while it was watched."""
    if since is None:
        return [_age_at(born_at, end)]
    return [name for name, age in AGES.items() if since < born_at + age <= end]


def _is_within(moment: datetime | None, since: datetime | None, until: datetime) -> bool:
    return moment is not None and moment <= until and (since is None or moment > since)


def _age_at(born_at: datetime, moment: datetime) -> str:
    past = [name for name, age in AGES.items() if born_at + age <= moment]
    return past[-1] if past else "0m"


def _faded(taken: int, reached: int) -> AtAge:
    # The moment when a node reached an age may not have been seen, but a node taken there did.
    reached = max(reached, taken)
    if reached <= MOST_REACHED:
        return AtAge(taken, reached)
    return AtAge((taken + 1) // 2, (reached + 1) // 2)
