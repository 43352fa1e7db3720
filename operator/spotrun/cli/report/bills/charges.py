"""Bills as charges, and the sums of charges by group. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from spotrun.policies.cost.billing.apportion import rounded_together
from spotrun.policies.cost.billing.month_bill import MonthBill
from spotrun.policies.cost.billing.months import begin_of, end_of
from spotrun.policies.cost.billing.parts import UNITS_PER_CENT, Category, Part

NONE = "(none)"
OTHER_JOBS = "(other)"


@dataclass(frozen=True)
class Charge:
    """An amount that a job is charged in a month."""

    namespace: str
    job: str  # OTHER_JOBS: of jobs that the bill no longer lists
    uid: str
    labels: Mapping[str, str]
    part: Part
    units: int
    begin: datetime
    end: datetime

    def group(self, by: str) -> str:
        """Return the group of the charge when charges are added up by that."""
        if by == "job":
            return f"{self.namespace}/{self.job}"
        own = {
            "namespace": self.namespace,
            "pool": self.part.pool,
            "capacity": self.part.capacity,
            "category": self.part.category,
        }
        return own.get(by, self.labels.get(by, "")) or NONE


@dataclass(frozen=True)
class Sum:
    """The charges of a group, in cents by category."""

    group: str
    cents: Mapping[str, int]

    @property
    def total(self) -> int:
        """All of it, in cents."""
        return sum(self.cents.values())


def charges(bill: MonthBill) -> Iterator[Charge]:
    """Yield what a bill charges, job by job."""
    begin, end = begin_of(bill.month), end_of(bill.month)
    for line in bill.jobs.values():
        for part, units in line.charged.items():
            until = min(line.as_of, end)
            yield Charge(
                bill.namespace, line.name, line.uid, line.labels, part, units, begin, until
            )
    for key, units in bill.others.items():
        labels = dict(key.labels)
        yield Charge(bill.namespace, OTHER_JOBS, "", labels, key.part, units, begin, end)


def sums_by(found: Iterable[Charge], by: str) -> list[Sum]:
    """Return the charges by group, most expensive first, in cents that add up to the whole."""
    cells = dict[tuple[str, str], int]()
    for charge in found:
        cell = (charge.group(by), charge.part.category)
        cells[cell] = cells.get(cell, 0) + charge.units
    cents = dict(zip(cells, rounded_together(list(cells.values()), UNITS_PER_CENT), strict=True))
    groups: dict[str, dict[str, int]] = {}
    for (group, category), amount in cents.items():
        groups.setdefault(group, {})[category] = amount
    sums = [
        Sum(group, {category.value: of.get(category, 0) for category in Category})
        for group, of in groups.items()
    ]
    return sorted(sums, key=lambda one: (-one.total, one.group))
