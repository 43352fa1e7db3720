"""A namespace's bill of a month, kept within a size, and what many bills together say of a job."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from spotrun.policies.cost.billing.lines import JobFacts, JobLine, Standing, next_lines
from spotrun.policies.cost.billing.months import Month
from spotrun.policies.cost.billing.parts import Part

_DIGEST_CHARS = 12
"""48 bits of a random UID: among a thousand jobs, two are equal once in 500 million bills."""


class OtherLine(NamedTuple):
    """The key by which amounts of jobs that are no longer listed are added up."""

    labels: tuple[tuple[str, str], ...]
    part: Part


@dataclass(frozen=True)
class MonthBill:
    """The bill of a namespace and a month."""

    namespace: str
    month: Month
    jobs: Mapping[str, JobLine] = field(default_factory=dict)  # by UID
    others: Mapping[OtherLine, int] = field(default_factory=dict)  # in units
    folded: frozenset[str] = frozenset()  # digests of jobs in `others` whose objects exist


@dataclass(frozen=True)
class Known:
    """The knowledge of all bills of a namespace about its jobs."""

    lines: Mapping[str, JobLine] = field(default_factory=dict)  # the latest of each job, by UID
    folded: frozenset[str] = frozenset()

    def after(self, bill: MonthBill) -> "Known":
        """Return the knowledge with this bill added; it may replace an earlier version of it."""
        lines = dict(self.lines)
        for uid, line in bill.jobs.items():
            if uid not in lines or lines[uid].month <= line.month:
                lines[uid] = line
        for uid in [uid for uid in lines if digest_of(uid) in bill.folded]:
            del lines[uid]
        return Known(lines, self.folded | bill.folded)

    def only(self, live: Collection[str], since: Month) -> "Known":
        """Return the knowledge about these jobs, and about all jobs on bills since a month."""
        kept = {uid: line for uid, line in self.lines.items() if uid in live or line.month >= since}
        return Known(kept, self.folded)


def digest_of(uid: str) -> str:
    """Return a short form of a job's UID: a bill keeps it for a job that is no longer listed."""
    return uid.replace("-", "")[:_DIGEST_CHARS]


def changes(known: Known, facts: Iterable[JobFacts]) -> dict[Month, list[JobLine]]:
    """Return the lines to write, by month, in the order in which the months must be written."""
    found: dict[Month, list[JobLine]] = {}
    for one in facts:
        if digest_of(one.uid) in known.folded:
            continue  # the job was over, and its whole cost is in a sum
        for line in next_lines(known.lines.get(one.uid), one):
            found.setdefault(line.month, []).append(line)
    return dict(sorted(found.items()))


def with_lines(bill: MonthBill, lines: Iterable[JobLine]) -> MonthBill:
    """Return the bill with these lines, which replace older ones of the same jobs."""
    return replace(bill, jobs={**bill.jobs, **{line.uid: line for line in lines}})


def fold(bill: MonthBill, uids: Iterable[str], live: Collection[str]) -> MonthBill:
    """Add the lines of these jobs to the others.

    `live` are the jobs whose objects exist: they are remembered, so that none is charged again.
    """
    jobs, others, folded = dict(bill.jobs), dict(bill.others), set(bill.folded)
    for uid in uids:
        line = jobs.pop(uid)
        for part, units in line.charged.items():
            key = OtherLine(tuple(sorted(line.labels.items())), part)
            others[key] = others.get(key, 0) + units
        if uid in live:
            folded.add(digest_of(uid))
    return replace(bill, jobs=jobs, others=others, folded=frozenset(folded))


def foldable(bill: MonthBill) -> list[str]:
    """Return the jobs whose lines no longer change, in the order in which they ended."""
    over = (Standing.ENDED, Standing.GONE)
    lines = (line for line in bill.jobs.values() if line.standing in over)
    return [line.uid for line in sorted(lines, key=lambda line: (line.as_of, line.uid))]


def merged_others(bill: MonthBill, most: int) -> MonthBill:
    """Return the bill with at most `most` sums of others; the smallest ones lose their labels."""
    if len(bill.others) <= most:
        return bill
    ordered = sorted(bill.others.items(), key=lambda item: (-abs(item[1]), item[0]))
    others = dict(ordered[: most // 2])
    for key, units in ordered[most // 2 :]:
        unlabelled = OtherLine((), Part(key.part.category, key.part.capacity))
        others[unlabelled] = others.get(unlabelled, 0) + units
    return replace(bill, others=others)
