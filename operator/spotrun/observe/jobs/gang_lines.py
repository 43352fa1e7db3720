"""The lines in which gangs wait for nodes; they are computed from all jobs, and not stored."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from spotrun.kube.resource import Key
from spotrun.policies.placement.queueing.gang import (
    EVERYWHERE,
    PATIENCE,
    Place,
    gives_back,
    held_up_since,
    lines_of,
    only_asks,
)
from spotrun.state.snapshot import JobSnapshot


@dataclass
class _Line:
    places: dict[Key, Place] = field(default_factory=dict)
    first: Place | None = None

    def lets(self, place: Place) -> bool:
        """Whether a place comes first in this line."""
        return self.first is None or place <= self.first


class Gangs:
    """The jobs in each line; `wake` is called with the jobs that a change affects."""

    def __init__(self, wake: Callable[[Key], None], wall: Callable[[], datetime]) -> None:
        self._wake = wake
        self._wall = wall
        self._lines: dict[str, _Line] = {}
        self._stands_in: dict[Key, frozenset[str]] = {}
        self._waiting: dict[Key, tuple[str, Place]] = {}  # in which line it is not the first
        self._again_at: dict[Key, datetime] = {}

    def may_hold_nodes(self, job: JobSnapshot) -> bool:
        """Note the place of a job, and return whether it may hold nodes."""
        key, now = Key(job.namespace, job.name), self._wall()
        place, lines = Place.of(job, now), self._lines_of(key, job)
        if only_asks(job, now):
            self._leave(key)
        else:
            self._stand(key, place, lines)
        since = held_up_since(job) if lines and not place.is_patience_over else None
        if since is None:
            self._again_at.pop(key, None)
        else:
            self._again_at[key] = since + PATIENCE
        behind = next((one for one in _in_order(lines) if not self._is_first(one, place)), None)
        if behind is None:
            self._waiting.pop(key, None)
        else:
            self._waiting[key] = (behind, place)
        return behind is None and not gives_back(job, now)

    def wake_after_seconds(self, key: Key) -> float:
        """Return the seconds until the place of a job changes by time alone."""
        at = self._again_at.get(key)
        return float("inf") if at is None else max((at - self._wall()).total_seconds(), 0.0)

    def forget(self, key: Key) -> None:
        """Forget a deleted job."""
        self._leave(key)
        self._waiting.pop(key, None)
        self._again_at.pop(key, None)

    def forget_all(self) -> None:
        """Forget all places."""
        self._lines.clear()
        self._stands_in.clear()
        self._waiting.clear()
        self._again_at.clear()

    def _lines_of(self, key: Key, job: JobSnapshot) -> frozenset[str]:
        return lines_of(job, self._stands_in.get(key, frozenset()))

    def _stand(self, key: Key, place: Place, lines: frozenset[str]) -> None:
        """Take a place in each of these lines.

        A job that is not the first in its own namespace's line waits there, and blocks no job
        elsewhere.
        """
        if not lines:
            self._leave(key)
            return
        for left in self._stands_in.get(key, frozenset()) - lines:
            self._put(left, key, None)
        self._stands_in[key] = lines
        comes_first = True
        for line in _in_order(lines):
            self._put(line, key, place if comes_first else None)
            comes_first = comes_first and self._is_first(line, place)

    def _leave(self, key: Key) -> None:
        for line in self._stands_in.pop(key, frozenset()):
            self._put(line, key, None)

    def _is_first(self, name: str, place: Place) -> bool:
        line = self._lines.get(name)
        return line is None or line.lets(place)

    def _put(self, name: str, key: Key, place: Place | None) -> None:
        line = self._lines.get(name, _Line())
        if line.places.get(key) == place:
            return  # the usual case: the first of thousands is not searched again
        if place is None:
            del line.places[key]
        else:
            line.places[key] = place
        before = replace(line)
        line.first = min(line.places.values(), default=None)
        self._lines[name] = line
        if not line.places:
            del self._lines[name]
        if before.first != line.first:
            behind = {one: at for one, (where, at) in self._waiting.items() if where == name}
            for other, held in (behind | line.places).items():
                # Only if the answer for it changes: otherwise one change would wake all jobs behind
                # it.
                if other != key and before.lets(held) != line.lets(held):
                    self._wake(other)


def _in_order(lines: frozenset[str]) -> list[str]:
    """Return the line of the job's own namespace before that for nodes."""
    return sorted(lines, key=lambda line: line == EVERYWHERE)
