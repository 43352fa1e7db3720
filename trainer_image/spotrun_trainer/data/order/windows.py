"""An order that reads a few shards at a time: shards are shuffled, then samples within windows.

The shards of an epoch form a line, in an order that seed and epoch give. Each window of that line
is shuffled by itself. So while a window is read only its shards are needed, and the next ones are
known and can be fetched early. Nothing is stored, as in `shuffle`, and the result for given
arguments must never change.
"""

from bisect import bisect_right
from collections.abc import Sequence
from hashlib import sha256
from itertools import accumulate
from typing import NamedTuple

from spotrun_trainer.data.load import Json
from spotrun_trainer.data.order.shuffle import Sample, permutation, permutation_by


class _Line(NamedTuple):
    """The shards of an epoch, in the order in which they are read."""

    epoch: int
    shards: Sequence[int]
    ends: Sequence[int]


class WindowedOrder:
    """The order of samples that lie in shards of these lengths."""

    def __init__(
        self, lengths: Sequence[int], window: int | None, *, seed: int, shuffle: bool
    ) -> None:
        self.length = sum(lengths)
        self.seed = seed
        self._lengths = tuple(lengths)
        self._starts = (0, *accumulate(lengths))
        self._window = min(window or self.length, self.length)
        self._shuffle = shuffle
        self._lines: list[_Line] = []  # of the last two epochs

    def sample(self, number: int) -> Sample:
        """Return the sample with this number, counted from the beginning of training."""
        epoch, position = divmod(number, self.length)
        if not self._shuffle:
            return Sample(epoch, position)
        window, within = divmod(position, self._window)
        start = window * self._window
        size = min(self._window, self.length - start)
        key = f"window {self.seed} {epoch} {window}"
        place = start + permutation_by(key, size)(within)
        line = self._line(epoch)
        at = bisect_right(line.ends, place)
        shard = line.shards[at]
        return Sample(epoch, self._starts[shard] + self._lengths[shard] - line.ends[at] + place)

    def state(self) -> dict[str, Json]:
        """Return the values that define the order; the shards as a digest of their lengths."""
        shards = sha256(repr(self._lengths).encode()).hexdigest()[:16]
        return {
            "length": self.length,
            "seed": self.seed,
            "shuffle": self._shuffle,
            "window": self._window,
            "shards": shards,
        }

    def _line(self, epoch: int) -> _Line:
        for line in self._lines:
            if line.epoch == epoch:
                return line
        count = len(self._lengths)
        order = permutation(self.seed, epoch, count)
        shards = [order(position) for position in range(count)]
        line = _Line(epoch, shards, list(accumulate(self._lengths[one] for one in shards)))
        self._lines = [line, *self._lines[:1]]
        return line
