"""Fetching the first shards that a training will read, while its script makes the model.

A script opens its data long before its first step, and the newest checkpoint says which samples
come first, and in which order. With both, this module fetches the shards of these samples into the
node's cache. Nothing depends on it: a training that continues at another position reads other
shards, and the fetched ones stay in the cache like any others.
"""

import os
import threading
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple, Protocol
from weakref import WeakSet

from spotrun_trainer.data.cache.settings import node_cache
from spotrun_trainer.data.load import Json
from spotrun_trainer.process import threads

MOST_SAMPLES = 1024
"""This many samples of a shuffled window are in most of its shards."""
SHARE_OF_CACHE = 1 / 8
"""The largest part of the cache to fetch, because fetching removes the least recently used
files."""


class Position(NamedTuple):
    """The position in its data where a training is likely to continue."""

    sample: int  # the number of the next sample
    order: Mapping[str, Json]

    @classmethod
    def saved_in(cls, extra: Mapping[str, Any]) -> "Position | None":
        """Return the position in a checkpoint's extra values, if they have one."""
        sample, order = extra.get("samples"), extra.get("data")
        if not isinstance(sample, int) or sample < 0 or not isinstance(order, dict):
            return None
        return cls(sample, order)


class Fetched(NamedTuple):
    """The shards that this process fetched before the training continued."""

    shards: int = 0
    bytes: int = 0


class Sampled(Protocol):
    """A sample: the part that is needed here."""

    @property
    def index(self) -> int: ...


class Ordered(Protocol):
    """An order of samples: `spotrun_trainer.data.order.orders.SampleOrder`."""

    def sample(self, number: int) -> Sampled: ...
    def state(self) -> Mapping[str, Json]: ...


class Shards(Protocol):
    """A dataset in shards."""

    @property
    def lead(self) -> int:
        """The number of samples to fetch ahead; 0: there is nothing to fetch."""

    def __len__(self) -> int: ...
    def order(self, seed: int, *, shuffle: bool) -> Ordered: ...
    def part_of(self, index: int) -> Hashable:
        """Return the name of the shard that is fetched for a sample."""

    def preload(self, index: int, most_bytes: int) -> int:
        """Fetch the shard of a sample, and return its bytes; 0 if it is here already, or larger."""


Find = Callable[[], Position | None]


class FirstShards:
    """Fetches the first shards of the data that is opened, until the training continues."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._find: Find | None = None
        self._opened = WeakSet[Shards]()
        self._fetched = Fetched()
        self._is_over = False
        os.register_at_fork(after_in_child=self._begin_anew)

    def look_up(self, find: Find) -> None:
        """Set how to find where the training will continue; it is called once data is opened."""
        with self._lock:
            self._find = _once(find)
            opened = list(self._opened)
        for dataset in opened:
            self.opened(dataset)

    def opened(self, dataset: Shards) -> None:
        """Note that the script has opened a dataset, and begin to fetch if that helps."""
        with self._lock:
            if self._is_over or not dataset.lead:
                return
            self._opened.add(dataset)
            find = self._find
        if find is not None:
            threads.start(lambda: self._run(find, dataset), name="first-shards", end=self._stop)

    def end(self) -> Fetched:
        """Stop fetching: readers fetch by themselves from now on. Return what was fetched, once."""
        self._stop()
        with self._lock:
            fetched, self._fetched = self._fetched, Fetched()
        return fetched

    def _stop(self) -> None:
        with self._lock:
            self._is_over = True
            self._opened.clear()

    def _begin_anew(self) -> None:
        """Reset in a fork, such as a loader worker; a thread may have held the lock."""
        self._lock, self._find, self._opened = threading.Lock(), None, WeakSet()
        self._fetched, self._is_over = Fetched(), False

    def _run(self, find: Find, dataset: Shards) -> None:
        try:
            position = find()
            order = None if position is None else order_like(dataset, position.order)
            if position is not None and order is not None:
                self._fetch(dataset, order, position.sample)
        except (OSError, ValueError):
            return  # a reader will get the same error, and report it

    def _fetch(self, dataset: Shards, order: Ordered, start: int) -> None:
        done, left = set[Hashable](), int(node_cache().limit_bytes * SHARE_OF_CACHE)
        for number in range(start, start + min(MOST_SAMPLES, len(dataset))):
            index = order.sample(number).index
            if (part := dataset.part_of(index)) in done:
                continue
            with self._lock:
                if self._is_over:
                    return
            done.add(part)
            if num_bytes := dataset.preload(index, left):
                left -= num_bytes
                with self._lock:
                    shards, before = self._fetched
                    self._fetched = Fetched(shards + 1, before + num_bytes)


def order_like(dataset: Shards, state: Mapping[str, Json]) -> Ordered | None:
    """Return the order of a dataset that a checkpoint describes; None if it has other data."""
    seed = state.get("seed")
    if state.get("length") != len(dataset) or not isinstance(seed, int):
        return None
    orders = (dataset.order(seed, shuffle=shuffle) for shuffle in (True, False))
    return next((order for order in orders if order.state() == state), None)


def _once(find: Find) -> Find:
    found, lock = list[Position | None](), threading.Lock()

    def look() -> Position | None:
        with lock:
            if not found:
                found.append(find())
            return found[0]

    return look


FIRST_SHARDS = FirstShards()
"""The only one of this process."""
