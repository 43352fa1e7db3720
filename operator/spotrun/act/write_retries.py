"""Retries of failed writes: each write separately, with growing pauses.

A write that a webhook refuses, or that is too large for etcd, must not delay what else a job needs:
its other writes continue, and decisions keep their own times.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

from spotrun.act.errors import Trouble
from spotrun.kube.backoff import Backoff, Roll, log_level
from spotrun.kube.errors import Ambiguous, KubeError, Retryable, Unauthorized
from spotrun.observe.jobs.leader_memory import Failing, Memory

log = logging.getLogger(__name__)

Results = Sequence[Trouble | None]
"""The outcome of writes of one kind; None is a success."""

UNSURE_SECONDS = 1.0
"""The time in which the caches show a write whose answer was lost."""
AGAIN = Backoff(least_seconds=0.1, most_seconds=120.0)
"""The work queue's pauses: short at first, for a brief fault, and long for one that stays."""

_BUSY = frozenset({408, 429, 503})
"""The answers to any request by an API server that is overloaded or about to end, or by a load
balancer in front of it. If a webhook is down, the API server answers 500."""


class Retries:
    """Counts failures in a row of each write of a job, in the job's memory."""

    def __init__(
        self,
        clock: Callable[[], float],
        roll: Roll,
        count: Callable[[KubeError], None] = lambda _: None,
    ) -> None:
        """Start with no failures; `count` is called for each one that is not reported elsewhere."""
        self._clock = clock
        self._roll = roll
        self._count = count

    async def attempt(
        self, memory: Memory, what: str, write: Callable[[], Awaitable[Results]]
    ) -> list[Trouble]:
        """Write, unless that failed and it is too soon; return the trouble, if any.

        If one of several equal writes succeeded, the count of failures begins again. A failure of
        the API server as a whole does not count for a write; the whole job waits then.
        """
        failing = memory.failing.get(what)
        wait_seconds = failing.retry_at - self._clock() if failing is not None else 0.0
        if wait_seconds > 0:
            return [Trouble(wake_after_seconds=wait_seconds)]
        results = await write()
        troubles = [one for one in results if one is not None]
        failures = [one.failure for one in troubles if one.failure is not None]
        if not failures:
            memory.failing.pop(what, None)
            return troubles
        times = 1 if failing is None or None in results else failing.times + 1
        pause_seconds = self._pause_seconds(times, failures[0])
        if not pause_seconds:
            return troubles
        memory.failing[what] = Failing(times, failures[0].message, self._clock() + pause_seconds)
        self._count(failures[0])
        _log(what, memory.failing[what], pause_seconds)
        others = [one for one in troubles if one.failure is None]
        return [*others, Trouble(wake_after_seconds=pause_seconds)]

    @staticmethod
    def keep(memory: Memory, wanted: Iterable[str]) -> None:
        """Forget the failures of writes that are not wanted any more."""
        known = memory.failing
        memory.failing = {what: known[what] for what in wanted if what in known}

    def _pause_seconds(self, times: int, error: KubeError) -> float:
        if _is_of_the_server(error):
            return 0.0
        asked = error.retry_after_seconds
        if isinstance(error, Ambiguous):
            asked = max(UNSURE_SECONDS, asked or 0.0)
        return AGAIN.pause_seconds(times, self._roll, asked)


def _is_of_the_server(error: KubeError) -> bool:
    """Whether any write would fail: the server is unreachable or busy, or rejects our token."""
    not_sent = isinstance(error, Retryable) and not error.status
    return not_sent or error.status in _BUSY or isinstance(error, Unauthorized)


def _log(what: str, failing: Failing, pause_seconds: float) -> None:
    log.log(
        log_level(failing.times),
        "%s: %s (%d failures in a row), trying again in %.1f s",
        what,
        failing.words,
        failing.times,
        pause_seconds,
    )
