"""Present prices of clouds: asked for when due, and remembered.

Answers are kept; if a cloud does not answer, its last good answers stay, with their age. Each cloud
has its own questions: the modules `aws`, `azure` and `gcp` beside this one.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta

from spotrun.kube.backoff import Backoff, Roll
from spotrun.money.price_rows import Offering, PriceRow
from spotrun.money.price_table import PriceTable

log = logging.getLogger(__name__)

_LOOK_EVERY_SECONDS = 15.0  # for questions that are due, or new
_BACKOFF = Backoff(least_seconds=30.0, most_seconds=1800.0)
_MOST_TYPES = 100  # per question: more than a cluster uses, less than a cloud refuses

Types = frozenset[str]


class CloudUnavailableError(Exception):
    """A cloud gave no prices; the message has the cloud's words, and what to do."""


@dataclass(frozen=True)
class Question:
    """A question for a region, and how often to ask it."""

    source: str
    every_seconds: float
    ask: Callable[[str, Types], Awaitable[list[PriceRow]]]

    @property
    def good_for(self) -> timedelta:
        """The time for which an answer counts: three missed answers are not an accident."""
        return timedelta(seconds=3 * self.every_seconds)


@dataclass
class _Answer:
    rows: tuple[PriceRow, ...] = ()
    types: Types = frozenset()  # the types in the question
    due_at: float = 0.0
    failures: int = 0

    def is_due(self, types: Types, now: float) -> bool:
        """Whether to ask again; new types are asked at once, unless the cloud does not answer."""
        return now >= self.due_at or (not self.failures and not types <= self.types)


class LivePrices:
    """The prices of one cloud, asked when it is time to, and remembered."""

    def __init__(
        self,
        regions: Collection[str],
        questions: Collection[Question],
        *,
        clock: Callable[[], float],
        roll: Roll,
    ) -> None:
        self._regions = frozenset(regions)
        self._questions = tuple(questions)
        self._clock = clock
        self._roll = roll
        self._answers: dict[tuple[str, str], _Answer] = {}

    def tables(self) -> tuple[PriceTable, ...]:
        """Return the known prices; in a catalog they come after the cluster's own tables."""
        return tuple(
            PriceTable(
                source=question.source,
                rows=tuple(
                    row
                    for (source, _), answer in self._answers.items()
                    if source == question.source
                    for row in answer.rows
                ),
                good_for=question.good_for,
            )
            for question in self._questions
        )

    async def refresh(self, wanted: Iterable[Offering]) -> bool:
        """Ask the due questions about these; return whether there was an answer.

        The on-demand price of each type is always included: spot is compared with it.
        """
        regions: dict[str, set[str]] = {}
        for offering in wanted:
            if offering.region in self._regions and offering.instance_type:
                regions.setdefault(offering.region, set()).add(offering.instance_type)
        answered = [
            await self._ask(question, region, frozenset(sorted(types)[:_MOST_TYPES]))
            for region, types in sorted(regions.items())
            for question in self._questions
        ]
        return any(answered)

    async def follow(
        self,
        wanted: Callable[[], Iterable[Offering]],
        changed: Callable[[tuple[PriceTable, ...]], None],
    ) -> None:
        """Keep asking, and report each answer, until cancelled."""
        while True:
            if await self.refresh(wanted()):
                changed(self.tables())
            await asyncio.sleep(_LOOK_EVERY_SECONDS)

    async def _ask(self, question: Question, region: str, types: Types) -> bool:
        answer = self._answers.setdefault((question.source, region), _Answer())
        if not answer.is_due(types, self._clock()):
            return False
        try:
            rows = await question.ask(region, types)
        # No answer, or one that cannot be used.
        except (CloudUnavailableError, LookupError, TypeError, ValueError) as error:
            answer.failures += 1
            pause = _BACKOFF.pause_seconds(answer.failures, self._roll)
            answer.due_at = self._clock() + pause
            if answer.failures == 1:
                log.warning("%s in %s: %s; the last prices stay", question.source, region, error)
            return False
        if answer.failures:
            log.info("%s in %s: known again", question.source, region)
        answer.rows, answer.types, answer.failures = tuple(rows), types, 0
        answer.due_at = self._clock() + question.every_seconds
        return True
