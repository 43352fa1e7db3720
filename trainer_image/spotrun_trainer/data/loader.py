"""The source of a training's data: what is planned, who loads it, and what was waited for it."""

import time
from collections.abc import Container, Iterable, Iterator
from contextlib import nullcontext
from typing import Protocol

from spotrun_trainer.data.load import Batch, Json, Load, Loaded, Request
from spotrun_trainer.data.pin_memory import pin
from spotrun_trainer.data.prefetch import Ahead, Key
from spotrun_trainer.data.seeds import generators_kept
from spotrun_trainer.data.sharding import Block, earliest, upcoming


class Feed(Protocol):
    """What is special about a kind of dataset."""

    @property
    def length(self) -> int | None:
        """Samples in an epoch, if the dataset says."""

    follows_requests: bool
    """What loads can begin anywhere: it need not be told where training goes on."""

    def check(self) -> None:
        """Refuse a dataset that has changed since it was opened."""

    def load(self) -> Load:
        """What loads microbatches, for workers that start now."""

    def note(self, loaded: Loaded, floor: int) -> None:
        """See a microbatch pass; nothing that begins before `floor` will be asked for again."""

    def state(self) -> dict[str, Json]: ...
    def restore(self, state: dict[str, Json], start: int) -> None: ...


class Shelf(Protocol):
    """Where microbatches are taken from."""

    capacity: int
    """How many it is worth to want at once."""

    def drop_all_but(self, kept: Container[Key]) -> None: ...
    def want(self, requests: Iterable[Request]) -> None: ...
    def take(self, request: Request) -> Loaded: ...
    def close(self) -> None: ...


class InThisProcess:
    """No workers: microbatches are loaded when they are taken."""

    capacity = 0

    def __init__(self, load: Load, *, pinning: bool) -> None:
        self._load = load
        self._pinning = pinning

    def drop_all_but(self, kept: Container[Key]) -> None:
        """Nothing is there that could be dropped."""

    def want(self, requests: Iterable[Request]) -> None:
        """Nobody is there who could begin."""

    def take(self, request: Request) -> Loaded:
        with generators_kept() if self._load.draws else nullcontext():
            loaded = self._load(request)
        return pin(loaded) if self._pinning else loaded

    def close(self) -> None:
        """Nothing is there that could be closed."""


class Loader:
    """A source of microbatches: `spotrun_trainer.data.source.Source`.

    What a microbatch holds follows from its number alone. So any of them may be dropped and asked
    for again, here or elsewhere, whenever the world demands it.
    """

    def __init__(self, feed: Feed, *, num_workers: int, pinning: bool) -> None:
        self.length = feed.length
        self._feed = feed
        self._num_workers = num_workers
        self._pinning = pinning
        self._shelf: Shelf | None = None
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
        """Begin to load the block and what follows it; keep nothing else of what was begun."""
        self._feed.check()
        shelf = self._opened()
        self._plan, self._num_taken = block, 0
        try:
            shelf.drop_all_but(set(upcoming(block, 0, block.microbatches + shelf.capacity)))
            self._want_next(shelf)
        except Exception:
            self.close()
            raise

    def microbatches(self, block: Block) -> Iterator[Batch]:
        """The block's microbatches in order, each as soon as it is there."""
        self.expect(block)
        self._floor = earliest(block)
        return self._each(block)

    def state(self) -> dict[str, Json]:
        """What has to be known, besides the number of samples, to go on from there."""
        return self._feed.state()

    def restore(self, state: dict[str, Json], start: int) -> None:
        """Go on with sample `start` of a training that came to `state`."""
        self._feed.restore(state, start)
        self._plan, self._floor = Block(start, 0, 1), start
        if self._shelf and not self._feed.follows_requests:
            self._shelf.close()
            self._shelf = None

    def close(self) -> None:
        """End the workers; nothing can be asked for any more."""
        self._closed = True
        if self._shelf:
            self._shelf.close()

    def _each(self, block: Block) -> Iterator[Batch]:
        for key in upcoming(block, 0, block.microbatches):
            began = time.perf_counter()
            loaded = self._take(key, of_plan=block == self._plan)
            self._waited_seconds += time.perf_counter() - began
            yield loaded.batch

    def _take(self, key: Key, *, of_plan: bool) -> Loaded:
        shelf = self._opened()
        try:
            loaded = shelf.take(Request(*key, self._floor))
            self._num_taken += of_plan
            self._want_next(shelf)
        except Exception:
            self.close()
            raise
        self._feed.note(loaded, self._floor)
        return loaded

    def _want_next(self, shelf: Shelf) -> None:
        keys = upcoming(self._plan, self._num_taken, shelf.capacity)
        shelf.want(Request(*key, self._floor) for key in keys)

    def _opened(self) -> Shelf:
        if self._closed:
            raise RuntimeError("this source of data is closed: it was told to, or it had failed")
        if not self._shelf:
            load = self._feed.load()
            self._shelf = (
                Ahead(load, num_workers=self._num_workers, pinning=self._pinning)
                if self._num_workers
                else InThisProcess(load, pinning=self._pinning)
            )
        return self._shelf
