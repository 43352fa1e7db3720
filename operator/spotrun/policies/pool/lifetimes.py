"""The lives of nodes until they are taken away, in few words that can be added to.

For each age: of how many nodes that reached it how many were taken before the next one. That is
what a Nelson-Aalen estimate needs: a node that is given back, or is still there, counts as one that
reached its age and was not taken at it; no assumption about its end is made.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from typing_extensions import override

AGES: Mapping[str, timedelta] = {
    "0m": timedelta(0),
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "3h": timedelta(hours=3),
    "6h": timedelta(hours=6),
    "12h": timedelta(hours=12),
    "24h": timedelta(hours=24),
    "48h": timedelta(hours=48),
}
"""In recorded markets 29 % of the nodes are taken within 15 minutes, yet most of the time in which
nodes are there lies in lives of more than 6 hours."""

MOST_REACHED = 500
"""Beyond this an age's figures are halved, so that what was long ago counts less."""


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


@dataclass(frozen=True)
class AtAge:
    """Nodes that reached an age."""

    taken: int = 0  # of them, before they reached the next one
    reached: int = 0


@dataclass(frozen=True)
class Lifetimes:
    """Knowledge of all ages; an age of which nothing is known has no entry."""

    ages: Mapping[str, AtAge] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str | None) -> "Lifetimes":
        """Read what `str` wrote; what is not of that form is passed over."""
        found: dict[str, AtAge] = {}
        for part in (text or "").split(","):
            age, _, counts = part.strip().partition(" ")
            taken, _, reached = counts.partition("/")
            if age in AGES and taken.isdecimal() and reached.isdecimal():
                found[age] = AtAge(int(taken), int(reached))
        return cls(found)

    @override
    def __str__(self) -> str:
        known = ((age, self.ages[age]) for age in AGES if age in self.ages)
        return ", ".join(f"{age} {one.taken}/{one.reached}" for age, one in known)

    def observe(
        self, lives: Iterable[Life], since: datetime | None, until: datetime
    ) -> "Lifetimes":
        """Add what became of nodes between two moments; with no first one they are new to us.

        Of a node that is seen for the first time in the middle of its life nothing is known of the
        ages before: had it not survived them, it would not have been seen.
        """
        taken: dict[str, int] = {}
        reached: dict[str, int] = {}
        for life in lives:
            end = until if life.ended_at is None else min(life.ended_at, until)
            for age in _reached(life.born_at, since, end):
                reached[age] = reached.get(age, 0) + 1
            if life.taken and _is_within(life.ended_at, since, until):
                age = _age_at(life.born_at, end)
                taken[age] = taken.get(age, 0) + 1
        if not taken and not reached:
            return self
        known = {age: self.ages.get(age, AtAge()) for age in AGES}
        added = {
            age: _faded(one.taken + taken.get(age, 0), one.reached + reached.get(age, 0))
            for age, one in known.items()
        }
        return Lifetimes({age: one for age, one in added.items() if one.reached or one.taken})


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
