"""Token buckets: limits of a rate, for one user or for each of many."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from spotrun.kube.lru_map import LruMap

Clock = Callable[[], float]


@dataclass(frozen=True)
class Rate:
    """A rate: an average per second, and a burst that may come at once."""

    per_second: float
    burst: float


class Bucket:
    """One bucket, full at first."""

    __slots__ = ("_at", "_clock", "_level", "_rate")

    def __init__(self, rate: Rate, clock: Clock) -> None:
        self._rate = rate
        self._clock = clock
        self._level = rate.burst
        self._at = clock()

    def wait_seconds(self) -> float:
        """Return the seconds until one may be taken; 0 if at once."""
        self._refill()
        return max(0.0, (1.0 - self._level) / self._rate.per_second)

    def take(self) -> None:
        """Take one; if the bucket is empty, the next caller waits longer."""
        self._refill()
        self._level -= 1.0

    def drain(self, seconds: float) -> None:
        """Leave nothing to be taken for this time from now on."""
        self._refill()
        self._level = min(self._level, -seconds * self._rate.per_second)

    def _refill(self) -> None:
        now = self._clock()
        gained = (now - self._at) * self._rate.per_second
        self._level = min(self._rate.burst, self._level + max(0.0, gained))
        self._at = now


class Buckets:
    """One bucket for each key; the least recently used are forgotten beyond `most`."""

    def __init__(self, rate: Rate, clock: Clock, most: int = 10_000) -> None:
        self._rate = rate
        self._clock = clock
        self._buckets = LruMap[Hashable, Bucket](most)

    def __getitem__(self, key: Hashable) -> Bucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = Bucket(self._rate, self._clock)
        return bucket
