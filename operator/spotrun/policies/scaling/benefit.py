"""The benefit of a size: how long a step takes there, measured or estimated from its parts.

    step = max(computing, the time in which its data are delivered) + communication that shows

Computing shrinks with the rounds of microbatches, ceil(M / processes), except for work that every
process does alike, which two measured sizes show. If workers waited for data, the data came as fast
as they could, and come no faster for more workers, unless two sizes show that they do. All-reduce
grows with (n-1)/n. More of it shows if less computing hides it, as several sizes show.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

MOST_SIZES = 64
"""The most sizes that are compared; if there are more, those closest in ratio are left out."""
MOST_LEAP = 4.0
"""No estimate is trusted beyond this many times the largest measured size."""
HIDDEN_LEAP = 2.0
"""The limit, unless a deadline needs more, if no communication shows: less computing hides less."""


@dataclass(frozen=True)
class Point:
    """A measurement at one size."""

    workers: int
    seconds: float
    compute: float | None = None  # shares of the step; None: all of it, as far as known
    data: float | None = None

    @property
    def busy(self) -> float:
        """Seconds of computing."""
        return self.seconds * (1.0 if self.compute is None else self.compute)

    @property
    def delivery(self) -> float | None:
        """Seconds until a step's data have arrived; None if these are fewer than it computes."""
        waited = self.seconds * (self.data or 0.0)
        return self.busy + waited if waited > _STARVED * self.seconds else None

    @property
    def exposed(self) -> float:
        """Seconds of waiting for others, and of the short wait for data that every worker has."""
        return max(self.seconds - (self.delivery or self.busy), 0.0)


@dataclass(frozen=True)
class Rounds:
    """The microbatches that the busiest process has in a step."""

    microbatches: int | None  # None: unknown, so the work divides evenly
    processes: int

    def at(self, workers: int) -> float:
        """Return the microbatches in a world of this many workers."""
        if self.microbatches is None:
            return 1.0 / (workers * self.processes)
        return math.ceil(self.microbatches / (workers * self.processes))

    def shorter(self, sizes: Iterable[int]) -> tuple[int, ...]:
        """The sizes at which a step has fewer rounds than at every smaller one."""
        found: list[int] = []
        for size in sizes:
            if not found or self.at(size) < self.at(found[-1]):
                found.append(size)
        return tuple(found)


@dataclass(frozen=True)
class Curve:
    """The time of a step at each size."""

    points: tuple[Point, ...]  # by size, at least one
    rounds: Rounds

    def seconds(self, size: int) -> float:
        """Return a step's seconds at this size: measured, or estimated from measured sizes."""
        known = self._seconds.get(size)
        if known is None:
            nearest = min(self.points, key=lambda point: abs(math.log(point.workers / size)))
            found = max(self._busy(size), self._delivery(size)) + self._exposed(size)
            known = max(found, nearest.seconds * _LEAST)
            self._seconds[size] = known
        return known

    def efficiency(self, before: int, after: int) -> float:
        """The share of the added workers that shows up as added throughput."""
        gained = self.seconds(before) / self.seconds(after) - 1
        return gained / ((after - before) / before)

    def compute(self, size: int) -> float | None:
        """Return the share of a step in which workers compute; None if it is not reported."""
        if any(point.compute is None for point in self.points):
            return None
        known = self._by_size.get(size)
        if known is not None:
            return known.compute
        return min(self._busy(size) / self.seconds(size), 1.0)

    @property
    def farthest(self) -> float:
        """The largest size for which an estimate is trusted."""
        return self.points[-1].workers * MOST_LEAP

    @property
    def prudent(self) -> float:
        """The largest size that is tried without need."""
        largest = self.points[-1]
        is_alone = largest.workers * self.rounds.processes == 1
        is_hidden = is_alone or largest.exposed < _HIDDEN * largest.seconds
        return largest.workers * (HIDDEN_LEAP if is_hidden else MOST_LEAP)

    def unhindered(self, size: int) -> float:
        """Return the seconds of a step there in which no worker waits for data or for others."""
        known = self._by_size.get(size)
        return self._busy(size) if known is None else known.busy

    def is_unhindered(self, size: int) -> bool:
        """Whether no such waiting shows at a size that was measured."""
        known = self._by_size.get(size)
        if known is None or known.compute is None:
            return False
        return known.delivery is None and known.exposed < _HIDDEN * known.seconds

    @cached_property
    def _by_size(self) -> dict[int, Point]:
        return {point.workers: point for point in self.points}

    @cached_property
    def _seconds(self) -> dict[int, float]:
        """Step seconds by size, with the estimates so far: sizes are compared with each other."""
        return {point.workers: point.seconds for point in self.points}

    def _busy(self, size: int) -> float:
        """Scale one size's time with the rounds; from two sizes, follow the line over them."""
        here = self.rounds.at(size)
        if len(self.points) == 1:
            [point] = self.points
            return point.busy * here / self.rounds.at(point.workers)
        low, high = _around(self.points, size)
        first, last = ((self.rounds.at(point.workers), point.busy) for point in (low, high))
        return max(_on_line(first, last, here), 0.0)

    def _delivery(self, size: int) -> float:
        """Take one size's time for all sizes; from two, follow the line over the rounds."""
        known = [(point, point.delivery) for point in self.points if point.delivery is not None]
        if len(known) < 2:
            return known[0][1] if known else 0.0
        times = {point.workers: seconds for point, seconds in known}
        low, high = _around([point for point, _ in known], size)
        ends = ((self.rounds.at(point.workers), times[point.workers]) for point in (low, high))
        first, last = ends
        return max(_on_line(first, last, self.rounds.at(size)), 0.0)

    def _exposed(self, size: int) -> float:
        """Let one size's time grow as a ring does; from two, follow lines through them.

        Traffic, (n-1)/n less what computing hides of it, lies on a line over 1/n, and latency on
        one over n; it is not known which of them applies, so the estimate is halfway. A single
        process shows neither. If several processes show none, it hides behind their computing, and
        appears somewhere before the next size that shows it.
        """
        shown = [p for p in self.points if p.workers * self.rounds.processes > 1] or self.points
        if len(shown) == 1:
            return shown[0].exposed * self._ring_ratio(shown[0], size)
        low, high = _around(shown, size)
        if low.workers < size < high.workers and low.exposed < _HIDDEN * low.seconds:
            whole = (high.exposed + _OVERLAP * high.busy) * self._ring_ratio(high, size)
            return max(whole - _OVERLAP * self._busy(size), 0.0)
        ends = (low.workers, low.exposed), (high.workers, high.exposed)
        first, last = ((1 / workers, seconds) for workers, seconds in ends)
        traffic, latency = _on_line(first, last, 1 / size), _on_line(*ends, size)
        return max((traffic + latency) / 2, 0.0)

    def _ring_ratio(self, point: Point, size: int) -> float:
        here, there = (_ring(n * self.rounds.processes) for n in (point.workers, size))
        return there / here if here else 1.0


_STARVED = 0.1
"""A share of a step: fetching data that have arrived takes some time at every size."""
_HIDDEN = 0.02
"""A share of a step: less communication than this is the noise of a measurement."""
_OVERLAP = 0.5
"""A share of computing: gradients travel during most of the backward pass, which is two thirds of
it."""
_LEAST = 0.05
"""A share of the nearest step that was measured: a smaller estimate is not trusted."""


def _around(points: Sequence[Point], size: int) -> tuple[Point, Point]:
    """Return the nearest point on both sides; beyond all points, the last two on that side."""
    below = [point for point in points if point.workers < size]
    above = [point for point in points if point.workers > size]
    if below and above:
        return below[-1], above[0]
    return (below[-2], below[-1]) if below else (above[0], above[1])


def _on_line(first: tuple[float, float], last: tuple[float, float], x: float) -> float:
    (x0, y0), (x1, y1) = first, last
    return max(y0, y1) if x0 == x1 else y0 + (x - x0) / (x1 - x0) * (y1 - y0)


def _ring(processes: int) -> float:
    """Return how much each sends in an all-reduce, relative to a very large number of processes."""
    return (processes - 1) / processes


def thinned(sizes: Sequence[int], kept: Iterable[int]) -> tuple[int, ...]:
    """Return no more sizes than can be compared, evenly spread in ratio."""
    if len(sizes) <= MOST_SIZES:
        return tuple(sizes)
    first, last = sizes[0], sizes[-1]
    marks = (first * (last / first) ** (i / (MOST_SIZES - 1)) for i in range(MOST_SIZES))
    spread = {sizes[min(bisect_left(sizes, mark - 0.5), len(sizes) - 1)] for mark in marks}
    return tuple(sorted({*spread, *(size for size in kept if size in sizes)}))


def efficient(curve: Curve, sizes: Sequence[int], least: float) -> tuple[int, ...]:
    """Return the sizes that bring enough compared with every smaller one, and the smallest."""
    return tuple(
        size
        for index, size in enumerate(sizes)
        if all(curve.efficiency(smaller, size) >= least for smaller in sizes[:index])
    )
