"""Work that only the leader does: a queue, and what is done with each of its keys."""

from collections.abc import Callable, Coroutine, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar

from spotrun.kube.workqueue.queue import Work, WorkQueue

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class LeaderWork(Generic[K]):
    """One kind of objects that the leader keeps up to date."""

    queue: WorkQueue[K]
    work: Work[K]
    at_once: int  # keys
    known: Callable[[], Iterable[K]]  # all that a new leader must look at

    def begin(self) -> None:
        """Accept keys, and queue all that are known."""
        self.queue.open()
        for key in self.known():
            self.queue.add(key)

    def run(self, leads: Callable[[], bool]) -> Coroutine[Any, Any, NoReturn]:
        """Work until cancelled; a key that comes after the lead is lost is left alone."""

        async def work(key: K) -> float | None:
            return await self.work(key) if leads() else None

        return self.queue.run(work, workers=self.at_once)
