"""Tables from traces: time by activity, by phase of each recovery, and microbatches by speed."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

Line = dict[str, Any]

PHASES = ("broken", "killed", "started", "imported", "group", "first step")
"""The marks of a recovery, in order; a phase lies between two of them."""
_DEALT = "dealt"
"""The mark of a change in how many microbatches each copy of the model gets."""
_LOCAL_RANK = re.compile(r"\.\d+$")
_STEP = ("compute", "data", "communicate")


@dataclass(frozen=True)
class Recovery:
    """A worker's recovery or start: the moments of its marks."""

    worker: str
    at: dict[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """The seconds from its first mark to its first step."""
        return max(self.at.values()) - min(self.at.values())

    def phases(self) -> dict[str, float]:
        """Return the seconds of each phase, by its last mark; a missing mark joins two phases."""
        passed = [mark for mark in PHASES if mark in self.at]
        return {mark: self.at[mark] - self.at[before] for before, mark in pairwise(passed)}


def read(path: Path) -> Iterator[Line]:
    """Yield the lines of a file; a line that was cut off by the end of its process is left out."""
    for number, text in enumerate(path.read_text().splitlines(keepends=True), 1):
        if not text.endswith("\n"):
            return
        try:
            line = json.loads(text)
            line["t"] = float(line["t"])
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path}:{number}: {error}") from error
        yield line


def report(lines: Sequence[Line]) -> str:
    """Return all tables; the one of dealings only if microbatches were dealt by speed."""
    tables = [activities_table(lines), recoveries_table(recoveries(lines))]
    if any(line.get("mark") == _DEALT for line in lines):
        tables.append(dealings_table(lines))
    return "\n\n".join(tables)


def recoveries(lines: Iterable[Line]) -> list[Recovery]:
    """Return the recoveries of all workers, in the order of their first steps."""
    found: list[Recovery] = []
    under_way = dict[str, dict[str, float]]()
    for when, mark, worker in sorted(_marks(lines)):
        at = under_way.setdefault(worker, {})
        at[mark] = when
        if mark == PHASES[-1]:
            found.append(Recovery(worker, under_way.pop(worker)))
    return found


def _marks(lines: Iterable[Line]) -> Iterator[tuple[float, str, str]]:
    for line in lines:
        if line.get("mark") in PHASES:
            # Processes of a worker, and its agent, count as one worker: one of them is ahead of the
            # others.
            worker = _LOCAL_RANK.sub("", str(line["worker"]))
            yield float(line["began"] if "began" in line else line["t"]), line["mark"], worker


def activities_table(lines: Sequence[Line]) -> str:
    """Return a table of activities: count, duration and share of the whole."""
    durations = defaultdict[str, list[float]](list)
    for line in lines:
        if "step" in line:
            for activity in _STEP:
                durations[activity].append(line[activity])
        elif "span" in line and line["span"] not in _STEP:
            durations[line["span"]].append(line["seconds"])
    whole = sum(map(sum, durations.values())) or 1.0
    rows = [("activity", "times", "median ms", "seconds", "share")] + [
        (
            activity,
            str(len(each)),
            f"{median(each) * 1000:.2f}",
            f"{sum(each):.2f}",
            f"{sum(each) / whole:.1%}",
        )
        for activity, each in sorted(durations.items(), key=lambda item: -sum(item[1]))
    ]
    return _table(rows)


def recoveries_table(found: Sequence[Recovery]) -> str:
    """Return a table with a line for each recovery, with its phases in seconds."""
    rows = [("to the first step of", *(f"-> {mark}" for mark in PHASES[1:]), "whole")]
    for one in found:
        phases = one.phases()
        cells = (f"{phases[mark]:.2f}" if mark in phases else "-" for mark in PHASES[1:])
        rows.append((one.worker, *cells, f"{one.seconds:.2f}"))
    return _table(rows)


def dealings_table(lines: Iterable[Line]) -> str:
    """Return a table with a line for each dealing, by copy, with the times on which it is based."""
    rows = [("from step", "microbatches by copy", "ms a sample by copy")]
    found = {int(line["from_step"]): line for line in lines if line.get("mark") == _DEALT}
    for step, line in sorted(found.items()):  # each process has marked it
        times = (f"{seconds * 1000:.3g}" for seconds in line["sample_seconds"])
        rows.append((str(step), " ".join(map(str, line["microbatches"])), " ".join(times)))
    return _table(rows)


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
