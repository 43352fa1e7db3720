"""A work queue: one entry per key, serial for a key, parallel over keys, fair over groups."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable
from random import Random
from typing import Generic, NoReturn, TypeVar

from spotrun.kube.backoff import Backoff, Roll
from spotrun.kube.errors import KubeError
from spotrun.kube.workqueue.schedule import Schedule

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

Work = Callable[[K], Awaitable[float | None]]
"""Works on a key; returns the seconds until the next time, None if only `add` brings it back."""

KEY_BACKOFF = Backoff(least_seconds=0.1, most_seconds=120.0)
"""The pauses after failures: short for a conflict, long for a template that nobody fixes."""


class WorkQueue(Generic[K]):
    """Keys that `run` works on; all in one event loop."""

    def __init__(
        self,
        *,
        group_of: Callable[[K], Hashable] = lambda _: None,
        backoff: Backoff = KEY_BACKOFF,
        clock: Callable[[], float] = time.monotonic,
        roll: Roll | None = None,
    ) -> None:
        self._group_of = group_of
        self._backoff = backoff
        self._roll = roll or Random().random  # noqa: S311 - jitter, not a secret
        self._clock = clock
        self._changed = asyncio.Event()
        self.open()

    def open(self) -> None:
        """Accept keys, beginning with none."""
        self._is_open = True
        self._schedule: Schedule[K] = Schedule(
            group_of=self._group_of, backoff=self._backoff, roll=self._roll
        )

    def close(self) -> None:
        """Forget all keys and accept none, as no replica works on them here; not during `run`."""
        self.open()
        self._is_open = False

    def add(self, key: K, *, urgent: bool = False) -> None:
        """Work on a key soon; urgent ones come first, and do not wait for their backoff."""
        if self._is_open:
            self._schedule.add(key, self._clock(), urgent=urgent)
            self._changed.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Work on a key after this time; of several such times the earliest counts."""
        if self._is_open:
            self._schedule.add_at(key, self._clock() + seconds)
            self._changed.set()

    def forget(self, key: K) -> None:
        """Drop the alarm and the backoff of a key whose object is gone."""
        self._schedule.forget(key)

    def failures(self, key: K) -> int:
        """Return how often the work on a key has failed in a row."""
        return self._schedule.failures(key)

    def waiting(self) -> int:
        """Return how many keys could be worked on now, if there were workers."""
        return self._schedule.waiting()

    def oldest_seconds(self) -> float:
        """Return how long the longest-waiting key has waited."""
        since = self._schedule.oldest()
        return 0.0 if since is None else self._clock() - since

    async def run(self, work: Work[K], *, workers: int) -> NoReturn:
        """Work for ever, on this many keys at once. Cancelling it also cancels work under way.

        An exception is the failure of a key, never of the queue: the key comes again after a
        backoff, and not before the Retry-After of a KubeError.
        """
        tasks: set[asyncio.Task[None]] = set()

        def finished(task: asyncio.Task[None]) -> None:
            tasks.discard(task)
            self._changed.set()

        try:
            while True:
                self._changed.clear()
                while (
                    len(tasks) < workers and (key := self._schedule.take(self._clock())) is not None
                ):
                    task = asyncio.create_task(self._work(key, work))
                    tasks.add(task)
                    task.add_done_callback(finished)
                    await asyncio.sleep(0)  # its request is sent before the next key is taken
                await self._wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait(self) -> None:
        """Wait until something was added or finished, or an alarm is due."""
        alarm = self._schedule.next_alarm()
        seconds = None if alarm is None else max(0.0, alarm - self._clock())
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _work(self, key: K, work: Work[K]) -> None:
        try:
            wake_after_seconds = await work(key)
        except Exception as error:
            self._failed(key, error)
        except asyncio.CancelledError:
            self.add(key)  # not lost, should `run` be called again
            self._schedule.done(key, self._clock())
            raise
        else:
            self._schedule.done(key, self._clock())
            if wake_after_seconds is not None:
                self._schedule.add_at(key, self._clock() + wake_after_seconds)

    def _failed(self, key: K, error: Exception) -> None:
        retry_after = error.retry_after_seconds if isinstance(error, KubeError) else None
        pause_seconds = self._schedule.failed(key, self._clock(), retry_after)
        known = isinstance(error, KubeError)  # its message is enough; others need a traceback
        log.warning(
            "%s failed (%d in a row), trying again in %.1f s: %s",
            key,
            self._schedule.failures(key),
            pause_seconds,
            error,
            exc_info=None if known else error,
        )
