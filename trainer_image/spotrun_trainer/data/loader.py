"""The source of a training's data: it plans microbatches, has them loaded, and times the waits."""

import time
from collections.abc import Container, Iterable, Iterator
from contextlib import nullcontext
from typing import Protocol

from spotrun_trainer.data.load import Batch, Json, Load, Loaded, Request
from spotrun_trainer.data.order.seeds import generators_kept
from spotrun_trainer.data.order.sharding import Block, earliest, upcoming
from spotrun_trainer.data.workers.pin_memory import pin
from spotrun_trainer.data.workers.prefetch import Ahead, Key


class Feed(Protocol):
    """The part of a source that depends on the kind of dataset."""

    @property
    def length(self) -> int | None:
        """Samples in an epoch, if the dataset says."""

    follows_requests: bool
    """Whether loading can begin at any sample, without knowing where training continues."""

    def check(self) -> None:
        """Refuse a dataset that has changed since it was opened."""

    def load(self) -> Load:
        """Return a loader of microbatches for workers that start now."""

    def note(self, loaded: Loaded, floor: int) -> None:
        """Note a loaded microbatch; none that begins before `floor` will be requested again."""

    def state(self) -> dict[str, Json]: ...
    def restore(self, state: dict[str, Json], start: int) -> None: ...


class Prefetcher(Protocol):
    """The store that microbatches are taken from."""

    capacity: int
    """The number of microbatches that are useful to request at once."""

    def drop_all_but(self, kept: Container[Key]) -> None: ...
    def want(self, requests: Iterable[Request]) -> None: ...
    def take(self, request: Request) -> Loaded: ...
    def close(self) -> None: ...


class InThisProcess:
    """Loads microbatches when they are taken, without workers."""

    capacity = 0

    def __init__(self, load: Load, *, pinning: bool) -> None:
        self._load = load
        self._pinning = pinning

    def drop_all_but(self, kept: Container[Key]) -> None:
        """Do nothing: no microbatch is loaded ahead."""

    def want(self, requests: Iterable[Request]) -> None:
        """Do nothing: there is no worker to begin."""

    def take(self, request: Request) -> Loaded:
        with generators_kept() if self._load.draws else nullcontext():
            loaded = self._load(request)
        return pin(loaded) if self._pinning else loaded

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


class Loader:
    """A source of microbatches: `spotrun_trainer.data.source.Source`.

    The content of a microbatch follows from its number alone. So any of them may be dropped and
    requested again, here or elsewhere, whenever the world changes.
    """

    def __init__(self, feed: Feed, *, num_workers: int, pinning: bool) -> None:
        self.length = feed.length
        self._feed = feed
        self._num_workers = num_workers
        self._pinning = pinning
        self._prefetcher: Prefetcher | None = None
        self._closed = False
        self._plan = Block(0, 0, 1)
        self._num_taken = 0
        self._floor = 0
        self._waited_seconds = 0.0

    @property
    def wait_seconds(self) -> float:
        """Seconds waited for data since this was read last."""
        waited, self._waited_seconds = self._waited_seconds, 0.0
        return waited

    def expect(self, block: Block) -> None:
        """Begin to load the block and the ones after it; drop all other prefetched microbatches."""
        self._feed.check()
        prefetcher = self._opened()
        self._plan, self._num_taken = block, 0
        try:
            prefetcher.drop_all_but(
                set(upcoming(block, 0, block.microbatches + prefetcher.capacity))
            )
            self._want_next(prefetcher)
        except Exception:
            self.close()
            raise

    def microbatches(self, block: Block) -> Iterator[Batch]:
        """Yield the block's microbatches in order, each as soon as it is loaded."""
        self.expect(block)
        self._floor = earliest(block)
        return self._each(block)

    def state(self) -> dict[str, Json]:
        """Return the state that is needed, besides the number of samples, to continue there."""
        return self._feed.state()

    def restore(self, state: dict[str, Json], start: int) -> None:
        """Continue with sample `start` of a training that was saved with `state`."""
        self._feed.restore(state, start)
        self._plan, self._floor = Block(start, 0, 1), start
        if self._prefetcher and not self._feed.follows_requests:
            self._prefetcher.close()
            self._prefetcher = None

    def close(self) -> None:
        """End the workers; no microbatch can be requested any more."""
        self._closed = True
        if self._prefetcher:
            self._prefetcher.close()

    def _each(self, block: Block) -> Iterator[Batch]:
        for key in upcoming(block, 0, block.microbatches):
            began = time.perf_counter()
            loaded = self._take(key, of_plan=block == self._plan)
            self._waited_seconds += time.perf_counter() - began
            yield loaded.batch

    def _take(self, key: Key, *, of_plan: bool) -> Loaded:
        prefetcher = self._opened()
        try:
            loaded = prefetcher.take(Request(*key, self._floor))
            self._num_taken += of_plan
            self._want_next(prefetcher)
        except Exception:
            self.close()
            raise
        self._feed.note(loaded, self._floor)
        return loaded

    def _want_next(self, prefetcher: Prefetcher) -> None:
        keys = upcoming(self._plan, self._num_taken, prefetcher.capacity)
        prefetcher.want(Request(*key, self._floor) for key in keys)

    def _opened(self) -> Prefetcher:
        if self._closed:
            raise RuntimeError(
                "this source of data is closed: close() was called, or it failed before"
            )
        if not self._prefetcher:
            load = self._feed.load()
            self._prefetcher = (
                Ahead(load, num_workers=self._num_workers, pinning=self._pinning)
                if self._num_workers
                else InThisProcess(load, pinning=self._pinning)
            )
        return self._prefetcher
