"""The line of gangs that lack nodes, over all jobs; volatile, for it follows from what is seen."""

from collections.abc import Callable
from datetime import datetime

from spotrun.decide.gang import PATIENCE, Place, is_incomplete, lacks_nodes, lacks_since
from spotrun.decide.snapshot import JobSnapshot
from spotrun.kube.resource import Key


class Gangs:
    """Who stands in line; `wake` is called with the jobs for which that changes something."""

    def __init__(self, wake: Callable[[Key], None], wall: Callable[[], datetime]) -> None:
        self._wake = wake
        self._wall = wall
        self._line: dict[Key, Place] = {}
        self._first: Place | None = None  # of the line
        self._waiting: set[Key] = set()
        self._again_at: dict[Key, datetime] = {}

    def may_hold_nodes(self, job: JobSnapshot) -> bool:
        """Take note of where a job stands, and say whether it may hold nodes."""
        key, now = Key(job.namespace, job.name), self._wall()
        place = Place.of(job, now)
        # Who is in line stays until it is complete, also while its pods have yet to be tried.
        stands = lacks_nodes(job) or (key in self._line and is_incomplete(job))
        self._put(key, place if stands else None)
        since = lacks_since(job) if stands and not place.is_patience_over else None
        if since is None:
            self._again_at.pop(key, None)
        else:
            self._again_at[key] = since + PATIENCE
        may = self._first is None or not stands or place <= self._first
        (self._waiting.discard if may else self._waiting.add)(key)
        return may

    def again_seconds(self, key: Key) -> float:
        """When the place of a job changes by time alone."""
        at = self._again_at.get(key)
        return float("inf") if at is None else max((at - self._wall()).total_seconds(), 0.0)

    def forget(self, key: Key) -> None:
        """The job is gone."""
        self._put(key, None)
        self._waiting.discard(key)
        self._again_at.pop(key, None)

    def forget_all(self) -> None:
        """Nobody is known to stand in line any more."""
        self._line.clear()
        self._first = None
        self._waiting.clear()
        self._again_at.clear()

    def _put(self, key: Key, place: Place | None) -> None:
        if self._line.get(key) == place:
            return  # as nearly always: who is first is not asked anew among thousands
        if place is None:
            del self._line[key]
        else:
            self._line[key] = place
        before, self._first = self._first, min(self._line.values(), default=None)
        if before != self._first:
            for other in (self._line.keys() | self._waiting) - {key}:
                self._wake(other)
