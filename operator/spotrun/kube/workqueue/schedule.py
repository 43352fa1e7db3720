"""The order of the work queue: rules without tasks and without a clock."""

import heapq
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from spotrun.kube.backoff import Backoff, Roll

K = TypeVar("K", bound=Hashable)

URGENT_IN_A_ROW = 8
"""After this many urgent keys one ordinary key is taken, so that no key starves."""
_SLACK = 64
"""The number of replaced alarms that may stay in the heap: dropping fewer is not worth it."""


class Lane(Generic[K]):
    """Waiting keys, fair across groups: groups take turns, and in a group the oldest is first."""

    def __init__(self, group_of: Callable[[K], Hashable]) -> None:
        self._group_of = group_of
        # Insertion-ordered dicts as sets; the groups take turns.
        self._groups: dict[Hashable, dict[K, float]] = {}
        self._turns: deque[Hashable] = deque()

    def __bool__(self) -> bool:
        return bool(self._turns)

    def __contains__(self, key: K) -> bool:
        return key in self._groups.get(self._group_of(key), ())

    def __len__(self) -> int:
        return sum(len(keys) for keys in self._groups.values())

    def put(self, key: K, since: float) -> None:
        """Append a key that is not there yet."""
        group = self._group_of(key)
        if group not in self._groups:
            self._groups[group] = {}
            self._turns.append(group)
        self._groups[group].setdefault(key, since)

    def discard(self, key: K) -> float | None:
        """Take a key out of turn; return when it began to wait, None if it was not there."""
        group = self._group_of(key)
        since = self._groups.get(group, {}).pop(key, None)
        if since is not None and not self._groups[group]:
            del self._groups[group]
            self._turns.remove(group)
        return since

    def take(self) -> K:
        """Return the first key of the group whose turn it is."""
        group = self._turns.popleft()
        keys = self._groups[group]
        key = next(iter(keys))
        del keys[key]
        if keys:
            self._turns.append(group)
        else:
            del self._groups[group]
        return key

    def oldest(self) -> float | None:
        """Return when the first key began to wait."""
        firsts = [next(iter(keys.values())) for keys in self._groups.values()]
        return min(firsts, default=None)


@dataclass
class _Failed:
    times: int
    until: float  # not before, unless it is urgent


class Schedule(Generic[K]):
    """The state of a work queue; every method takes the time.

    A key is in at most one of these places: waiting in a lane, or being worked on (and then
    perhaps marked to come again). Besides, it may have one alarm, and one backoff.
    """

    def __init__(self, *, group_of: Callable[[K], Hashable], backoff: Backoff, roll: Roll) -> None:
        self._urgent = Lane(group_of)
        self._ordinary = Lane(group_of)
        self._working: dict[K, bool | None] = {}  # again? None: no, False: yes, True: urgently
        self._alarms: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._ticket = 0  # breaks ties in the heap: keys need not be comparable
        self._failed: dict[K, _Failed] = {}
        self._backoff = backoff
        self._roll = roll
        self._urgent_in_a_row = 0

    def add(self, key: K, now: float, *, urgent: bool = False) -> None:
        """Work on a key soon; if it is being worked on, this means once more after that.

        A key that failed waits for the end of its backoff, unless this is urgent.
        """
        if key in self._working:
            self._working[key] = urgent or bool(self._working[key])
            return
        failed = self._failed.get(key)
        if failed is not None and now < failed.until and not urgent:
            self.add_at(key, failed.until)
            return
        if urgent:
            since = self._ordinary.discard(key)
            self._urgent.put(key, now if since is None else since)
        elif key not in self._urgent:
            self._ordinary.put(key, now)

    def add_at(self, key: K, when: float) -> None:
        """Work on a key at this time; of several such times the earliest counts."""
        known = self._alarms.get(key)
        if known is not None and known <= when:
            return
        self._alarms[key] = when
        self._ticket += 1
        heapq.heappush(self._heap, (when, self._ticket, key))
        if len(self._heap) > 2 * len(self._alarms) + _SLACK:
            self._drop_overtaken()

    def take(self, now: float) -> K | None:
        """Return the next key to work on, None if there is none; call `done` or `failed` after."""
        self._ring(now)
        lane = self._lane()
        if lane is None:
            return None
        self._urgent_in_a_row = self._urgent_in_a_row + 1 if lane is self._urgent else 0
        key = lane.take()
        self._working[key] = None
        return key

    def done(self, key: K, now: float) -> None:
        """Note that the work on a key succeeded: its backoff begins again."""
        self._failed.pop(key, None)
        self._finish(key, now)

    def failed(self, key: K, now: float, retry_after_seconds: float | None = None) -> float:
        """Note that the work on a key failed; return the pause until it comes again."""
        before = self._failed.get(key)
        times = before.times + 1 if before else 1
        pause_seconds = self._backoff.pause_seconds(times, self._roll, retry_after_seconds)
        self._failed[key] = _Failed(times, now + pause_seconds)
        self.add_at(key, now + pause_seconds)
        self._finish(key, now)
        return pause_seconds

    def forget(self, key: K) -> None:
        """Drop the alarm and the backoff of a key whose object is gone."""
        self._failed.pop(key, None)
        self._alarms.pop(key, None)

    def next_alarm(self) -> float | None:
        """Return when the next alarm of a key is due."""
        while self._heap and self._alarms.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)  # replaced by an earlier one, or forgotten
        return self._heap[0][0] if self._heap else None

    def waiting(self) -> int:
        """Return how many keys could be worked on now."""
        return len(self._urgent) + len(self._ordinary)

    def working(self) -> int:
        """Return how many keys are being worked on."""
        return len(self._working)

    def failures(self, key: K) -> int:
        """Return how often a key has failed in a row."""
        failed = self._failed.get(key)
        return failed.times if failed else 0

    def oldest(self) -> float | None:
        """Return when the longest-waiting key began to wait."""
        ages = (self._urgent.oldest(), self._ordinary.oldest())
        return min((age for age in ages if age is not None), default=None)

    def _finish(self, key: K, now: float) -> None:
        again = self._working.pop(key)
        if again is not None:
            self.add(key, now, urgent=again)

    def _drop_overtaken(self) -> None:
        """Drop replaced alarms: some are days ahead, and a new one each second would pile up."""
        live = {alarm[2]: alarm for alarm in self._heap if self._alarms.get(alarm[2]) == alarm[0]}
        self._heap = list(live.values())
        heapq.heapify(self._heap)

    def _ring(self, now: float) -> None:
        while (when := self.next_alarm()) is not None and when <= now:
            key = heapq.heappop(self._heap)[2]
            del self._alarms[key]
            self.add(key, now)

    def _lane(self) -> Lane[K] | None:
        if self._urgent and not (self._ordinary and self._urgent_in_a_row >= URGENT_IN_A_ROW):
            return self._urgent
        return self._ordinary or None
