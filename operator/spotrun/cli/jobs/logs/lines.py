"""Lines of several logs in one order, each with its rank, and marks where the world changed."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import merge

from typing_extensions import override

from spotrun.cli.text.look import printable
from spotrun.observe.kube_objects import EventObject

MARK = ""
"""The source of a line that no worker has written."""
_STAMP = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d) ?")
_TOLD = frozenset({"Reclaimed", "NodeLost", "Drained", "Preempted"})


@dataclass(frozen=True, order=True)
class Line:
    """A line of a log; lines are in order of time, then of rank."""

    time: str  # UTC, with nine digits of the second: sorts as text
    source: str
    text: str

    @override
    def __str__(self) -> str:
        return drawn(self, has_times=False, width=0)


def stamped(source: str, lines: Iterable[str]) -> Iterator[Line]:
    """Read lines with the kubelet's time before each; a line without one gets the last time."""
    last = ""
    for text in lines:
        line = stamped_line(source, text, last)
        last = line.time
        yield line


def stamped_line(source: str, text: str, last: str) -> Line:
    """Read one line; without a time of its own it has the last one."""
    found = _STAMP.match(text)
    return (
        Line(_sortable(found), source, text[found.end() :]) if found else Line(last, source, text)
    )


class Progress:
    """The place in a log up to which it was shown: what a new connection repeats is left out."""

    def __init__(self) -> None:
        self._time = ""
        self._count = 0  # how many lines have exactly this time
        self._last = ""  # of this connection
        self._resumed_at = ""
        self._repeated = 0

    def resume(self) -> str | None:
        """Begin again; returns the whole second to read from, None for the beginning."""
        self._last, self._resumed_at, self._repeated = "", self._time, self._count
        return f"{self._time[:19]}Z" if self._time else None

    def is_new(self, line: Line) -> bool:
        """Whether a line has not been shown; counts it as shown."""
        if line.time < self._resumed_at:
            return False
        if line.time == self._resumed_at and self._repeated:
            self._repeated -= 1
            return False
        self._count = self._count + 1 if line.time == self._time else 1
        self._time = line.time
        return True

    def read(self, text: str) -> Line:
        """Read the next line of this connection."""
        line = stamped_line("", text, self._last)
        self._last = line.time
        return line


def merged(logs: Mapping[str, Iterable[str]], events: Sequence[EventObject]) -> Iterator[Line]:
    """Yield the lines of all logs in the order of their times, with the marks among them."""
    told = sorted(marks(events))
    yield from merge(
        told,
        *(stamped(source, lines) for source, lines in logs.items()),
        key=lambda line: line.time,
    )


def marks(events: Sequence[EventObject]) -> Iterator[Line]:
    """Yield a mark for each event about a world or a worker that was taken away."""
    for one in events:
        at = one.event_time or one.deprecated_last_timestamp or ""
        if (found := _STAMP.match(at)) and is_told(one):
            yield Line(_sortable(found), MARK, one.note)


def is_told(event: EventObject) -> bool:
    """Whether an event is marked in logs."""
    return event.note.startswith("world ") or event.reason in _TOLD


def drawn(line: Line, *, has_times: bool, width: int) -> str:
    """Write a line with its rank before it; a mark becomes a separator."""
    if line.source == MARK:
        at = f" {line.time[11:19]}" if line.time else ""
        return f"-----{at} {printable(line.text)} -----"
    time = f"{line.time[:23]}Z " if has_times and line.time else ""
    return f"{line.source:>{width}} {time}{line.text}" if width else f"{time}{line.text}"


def _sortable(found: re.Match[str]) -> str:
    second, fraction, zone = found[1], (found[2] or ".")[1:], found[3]
    if zone != "Z":
        second = datetime.fromisoformat(f"{second}{zone}").astimezone(UTC).isoformat()[:19]
    return f"{second}.{fraction:0<9}"
