"""The order of the samples: a permutation for each seed and epoch that is never stored.

Any process can look up position p of an epoch by itself, in constant time and memory: a Feistel
network over the grid of about sqrt(n) x sqrt(n) positions (Black and Rogaway, "Ciphers with
arbitrary finite domains", 2002). A checkpoint stores no order and relies on this one: the result
for given arguments must never change.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import shake_128
from math import isqrt

from spotrun_trainer.data.load import Json

ROUNDS = 6
"""Three changes of each coordinate: with only four rounds neighbours in a row keep a likely
distance."""
ROUNDS_OF_FEW = 16
FEW = 256
"""Below this many samples six rounds favour some orders (measured: chi-square over all of them)."""

_MASK = (1 << 64) - 1
# The multipliers of splitmix64's finalizer (Steele, Lea and Flood, 2014).
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


@dataclass(frozen=True, slots=True)
class Sample:
    """One use of one element of the dataset."""

    epoch: int
    index: int


class Order:
    """The mapping from a sample's number to the sample."""

    def __init__(self, length: int, *, seed: int, shuffle: bool) -> None:
        self.length = length
        self.seed = seed
        self.shuffle = shuffle

    def sample(self, number: int) -> Sample:
        """Return the sample with this number, counted from the beginning of training."""
        epoch, position = divmod(number, self.length)
        if not self.shuffle:
            return Sample(epoch, position)
        return Sample(epoch, permutation(self.seed, epoch, self.length)(position))

    def state(self) -> dict[str, Json]:
        """Return the values that define the order."""
        return {"length": self.length, "seed": self.seed, "shuffle": self.shuffle}


def permutation(seed: int, epoch: int, length: int) -> Callable[[int], int]:
    """Return a permutation of range(length) for an epoch, as a function."""
    return permutation_by(f"order {seed} {epoch}", length)


@lru_cache(maxsize=64)  # a microbatch touches at most two epochs, or windows, of each source
def permutation_by(key: str, length: int) -> Callable[[int], int]:
    """Return a permutation of range(length) that follows from the key, as a function."""
    columns = isqrt(length - 1) + 1
    rows = -(-length // columns)
    keys = _round_keys(key, ROUNDS if length >= FEW else ROUNDS_OF_FEW)

    def index(position: int) -> int:
        # The grid is a little larger than the epoch: a position outside is mapped again.
        while (position := _shuffled(position, rows, columns, keys)) >= length:
            pass
        return position

    return index


def _round_keys(key: str, rounds: int) -> tuple[int, ...]:
    digest = shake_128(key.encode()).digest(8 * rounds)
    return tuple(int.from_bytes(digest[at : at + 8], "big") for at in range(0, 8 * rounds, 8))


def _shuffled(position: int, rows: int, columns: int, keys: tuple[int, ...]) -> int:
    # Written out, because every sample of the training passes here: 2.5 us instead of 4.
    row, column = divmod(position, columns)
    for turn in range(0, len(keys), 2):
        mixed = ((column ^ keys[turn]) * _FIRST) & _MASK
        mixed = ((mixed ^ (mixed >> 32)) * _SECOND) & _MASK
        row = (row + (mixed >> 32)) % rows
        mixed = ((row ^ keys[turn + 1]) * _FIRST) & _MASK
        mixed = ((mixed ^ (mixed >> 32)) * _SECOND) & _MASK
        column = (column + (mixed >> 32)) % columns
    return row * columns + column
