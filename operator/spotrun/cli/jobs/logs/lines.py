"""Lines of several logs in one order, each with its rank, and marks where the world changed."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import merge

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


def stamped(source: str, lines: Iterable[str]) -> Iterator[Line]:
    """Read lines with the time that the kubelet puts before each; others keep the last one."""
    last = ""
    for text in lines:
        found = _STAMP.match(text)
        if found:
            last = _sortable(found)
        yield Line(last, source, text[found.end() :] if found else text)


def merged(logs: Mapping[str, Iterable[str]], events: Sequence[EventObject]) -> Iterator[Line]:
    """Yield the lines of all logs in the order of their times, with the marks among them."""
    told = sorted(marks(events))
    yield from merge(
        told,
        *(stamped(source, lines) for source, lines in logs.items()),
        key=lambda line: line.time,
    )


def marks(events: Sequence[EventObject]) -> Iterator[Line]:
    """Yield what events tell of worlds and of workers that were taken away."""
    for one in events:
        at = one.event_time or one.deprecated_last_timestamp or ""
        if (found := _STAMP.match(at)) and is_told(one):
            yield Line(_sortable(found), MARK, one.note)


def is_told(event: EventObject) -> bool:
    """Whether an event is marked in logs."""
    return event.note.startswith("world ") or event.reason in _TOLD


def drawn(line: Line, *, has_times: bool, width: int) -> str:
    """Write a line: the rank before it, a mark as a rule across."""
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
