"""Microbatches that worker processes load before they are needed."""

from collections.abc import Container, Iterable
from concurrent.futures import Future

from spotrun_trainer.data.load import Load, Loaded, Request
from spotrun_trainer.data.workers.pin_memory import Pinner
from spotrun_trainer.data.workers.worker_pool import Workers
from spotrun_trainer.data.workers.worker_process import Dropped, Failure, Outcome

PER_WORKER = 2
"""Microbatches that are loading or wait to be taken, for each worker: one is loaded while another
is requested, as with DataLoader's prefetch_factor."""

Key = tuple[int, int]
"""The identity of a microbatch: the number of its first sample, and its size."""


class Ahead:
    """Lets free workers load microbatches, and keeps these until they are taken or dropped."""

    def __init__(self, load: Load, *, num_workers: int, pinning: bool) -> None:
        self._workers = Workers(load, num_workers)
        self._pinner = Pinner() if pinning else None
        self.capacity = PER_WORKER * num_workers
        self._loading: dict[Key, int] = {}
        self._keys: dict[int, Key] = {}  # by ticket, until it is answered
        self._ready: dict[Key, Failure | Loaded | Future[Loaded]] = {}

    def drop_all_but(self, kept: Container[Key]) -> None:
        """Drop all other microbatches, loaded or still loading."""
        self._ready = {key: loaded for key, loaded in self._ready.items() if key in kept}
        dropped = [key for key in self._loading if key not in kept]
        self._workers.drop(self._loading.pop(key) for key in dropped)

    def want(self, requests: Iterable[Request]) -> None:
        """Load these, in this order, unless they are loaded already."""
        for request in requests:
            key = (request.first, request.size)
            if key not in self._loading and key not in self._ready:
                ticket = self._workers.ask(request)
                self._loading[key], self._keys[ticket] = ticket, key

    def take(self, request: Request) -> Loaded:
        """Return the microbatch once it is loaded; raises the dataset's exception for it."""
        self.want([request])
        self._hear(timeout_seconds=0.0)  # receives what has arrived meanwhile, so that it is pinned
        key = (request.first, request.size)
        while key not in self._ready:
            self._hear(timeout_seconds=None)
        outcome = self._ready.pop(key)
        if isinstance(outcome, Future):
            outcome = outcome.result()
        if isinstance(outcome, Failure):
            raise outcome.error
        return outcome

    def close(self) -> None:
        self._ready.clear()
        self._workers.close()
        if self._pinner:
            self._pinner.close()

    def _hear(self, *, timeout_seconds: float | None) -> None:
        for ticket, outcome in self._workers.answers(timeout_seconds=timeout_seconds):
            key = self._keys.pop(ticket)
            # Otherwise it was dropped, and perhaps requested again with another ticket.
            if self._loading.get(key) == ticket:
                del self._loading[key]
                self._ready[key] = self._prepared(outcome)

    def _prepared(self, outcome: Outcome) -> Failure | Loaded | Future[Loaded]:
        assert not isinstance(outcome, Dropped)
        if self._pinner and isinstance(outcome, Loaded):
            return self._pinner.begin(outcome)
        return outcome
