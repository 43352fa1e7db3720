"""The lines of bills: what a job has cost by which time, and its next line.

A line has two sums since the job began: by the beginning of the month, and by now. The month is
charged the difference. So a line that is written twice says the same, and the next month begins
where the one before it ended.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from spotrun.money.units import NO_RATE, NO_USD, Usd, UsdPerHour, seconds_between
from spotrun.policies.cost.billing.apportion import apportion
from spotrun.policies.cost.billing.months import Month, end_of, months_between
from spotrun.policies.cost.billing.parts import (
    NOTHING,
    Amounts,
    Category,
    Part,
    difference,
    together,
    units_of,
    usd_of,
)


class Standing(StrEnum):
    """The ways in which a line may still change."""

    OPEN = "open"  # the job may cost more
    CARRIED = "carried"  # the month is over, and the next month's bill continues
    ENDED = "ended"  # the job is over, and its object is still there
    GONE = "gone"  # the job was deleted


@dataclass(frozen=True)
class JobFacts:
    """The cost of a job since it began, as its status says, or said last."""

    uid: str
    name: str
    created_at: datetime
    as_of: datetime
    amounts: Amounts
    usd_per_hour: UsdPerHour = NO_RATE
    standing: Standing = Standing.OPEN
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class JobLine:
    """The line of a job in a month's bill."""

    month: Month
    uid: str
    name: str
    as_of: datetime
    opening: Amounts  # by the beginning of the month, since the job began
    total: Amounts  # by `as_of`, since the job began
    usd_per_hour: UsdPerHour = NO_RATE
    standing: Standing = Standing.OPEN
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def charged(self) -> dict[Part, int]:
        """The amounts that the job is charged in this month, in units."""
        return difference(self.total, self.opening)


def next_lines(known: JobLine | None, facts: JobFacts) -> tuple[JobLine, ...]:
    """Return the lines that change, one for each month, earliest first.

    `known` is the job's line in the latest month that has one. The money spent since then is
    divided over the months in proportion to time, by the largest remainder.
    """
    if known is not None and (known.standing is Standing.GONE or _says(known, facts)):
        return ()
    before = known.total if known is not None else NOTHING
    spent = difference(facts.amounts, before)
    if known is None and not spent:
        return ()
    start, end = _spending_time(known, facts, sum(spent.values()))
    months = months_between(start, end)
    openings = _openings(before, spent, [microseconds for _, microseconds in months])
    lines = [
        JobLine(
            month=month,
            uid=facts.uid,
            name=facts.name,
            as_of=end_of(month),
            opening=opening,
            total=closing,
            # If the next month's line is not written, this is the rate at which the job continued.
            usd_per_hour=facts.usd_per_hour or (known.usd_per_hour if known else NO_RATE),
            standing=Standing.CARRIED,
            labels=facts.labels,
        )
        for (month, _), opening, closing in zip(months, openings[:-1], openings[1:], strict=True)
    ]
    if known is not None and known.month == lines[0].month:
        lines[0] = replace(lines[0], opening=known.opening)
    rate, standing = facts.usd_per_hour, facts.standing
    lines[-1] = replace(lines[-1], as_of=end, usd_per_hour=rate, standing=standing)
    return tuple(lines)


def facts_of_vanished(line: JobLine, deleted_at: datetime | None) -> JobFacts:
    """Return the cost of a job that was deleted while no operator ran, as far as its bill knows.

    It is charged at its last rate until its deletion; if that time is not known, nothing is added.
    """
    end = max(line.as_of, deleted_at or line.as_of)
    seconds = seconds_between(line.as_of, end)
    units = units_of(line.usd_per_hour.over(seconds))
    computing = [part for part in line.total if part.category == Category.COMPUTE]
    computing = computing or [Part(Category.COMPUTE)]
    shares = apportion(units, [line.total.get(part, 0) for part in computing])
    return JobFacts(
        uid=line.uid,
        name=line.name,
        created_at=line.as_of,
        as_of=end,
        amounts=together(line.total, dict(zip(computing, shares, strict=True))),
        standing=Standing.GONE,
        labels=line.labels,
    )


def _openings(before: Amounts, spent: Amounts, times: list[int]) -> list[Amounts]:
    """Return the amounts by the beginning of each of these times, and by the end of the last."""
    shares = {part: apportion(units, times) for part, units in spent.items()}
    found = [before]
    for index in range(len(times)):
        share = {part: units[index] for part, units in shares.items()}
        found.append(together(found[-1], share))
    return found


def _says(line: JobLine, facts: JobFacts) -> bool:
    """Whether a line contains all these facts; a deletion after the job's end changes nothing."""
    over = (Standing.ENDED, Standing.GONE)
    is_same = line.standing is facts.standing or (line.standing in over and facts.standing in over)
    same_rate = line.usd_per_hour == facts.usd_per_hour
    return is_same and same_rate and not difference(facts.amounts, line.total)


def _spending_time(known: JobLine | None, facts: JobFacts, units: int) -> tuple[datetime, datetime]:
    """Return the start and the end of the time in which the amount was spent.

    If the job cost nothing when it was seen last (it had not begun, or was suspended), the start is
    not known: it is computed back from the end, by the amount and the present rate.
    """
    earliest = known.as_of if known is not None else facts.created_at
    end = max(facts.as_of, earliest)
    if known is not None and known.usd_per_hour:
        return earliest, end
    spent = Usd(usd_of(units))
    seconds = facts.usd_per_hour.seconds_for(spent) if spent > NO_USD else None
    if seconds is None or seconds >= (end - earliest).total_seconds():
        return (end if seconds is None else earliest), end
    return end - timedelta(microseconds=int(seconds * 10**6)), end
