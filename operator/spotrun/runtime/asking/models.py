"""The models of searches, asked in the background: the work on a search never waits for an answer.

A model is a process of 100 MB beside the operator, which may take a minute if CPU is scarce. So
only a few run at a time, and meanwhile the status says what is known, a failure included.
"""

import asyncio
import logging
from asyncio import Task
from collections.abc import Callable
from dataclasses import dataclass

from spotrun.kube.resource import Key
from spotrun.runtime.asking.suggestions import Suggest
from spotrun.search import Nothing, Question, Suggestion

log = logging.getLogger(__name__)

AT_ONCE = 2
"""While one takes long, the other serves the rest of the searches."""
SLOW_SECONDS = 5.0
"""A thousand trials take a second or two; if a model takes longer than this, the status says so."""
ASK_AGAIN_SECONDS = 15.0

Answer = Suggestion | Nothing


@dataclass(frozen=True)
class Waits:
    """There is no answer yet: the reason, which may be empty, and when to ask again."""

    why: str
    seconds: float


@dataclass
class _Asked:
    uid: str  # of the search
    number: int  # of the trial that the values are for
    since: float = 0.0
    task: Task[Answer] | None = None  # None: it has failed, and is asked again
    failure: str = ""
    again_at: float = 0.0


class Models:
    """Asks each search's model once for each trial, and wakes the search with the answer."""

    def __init__(
        self, suggest: Suggest, wake: Callable[[Key], None], clock: Callable[[], float]
    ) -> None:
        self._suggest = suggest
        self._wake = wake
        self._clock = clock
        self._free = asyncio.Semaphore(AT_ONCE)
        self._asked: dict[Key, _Asked] = {}

    def values(self, key: Key, uid: str, question: Question) -> Answer | Waits:
        """Return the values of the next trial, or the reason why they are not known yet."""
        asked = self._asked.get(key)
        if asked is None or (asked.uid, asked.number) != (uid, question.number):
            self.forget(key)
            asked = self._asked[key] = _Asked(uid, question.number)
        if asked.task is None:
            if (left := asked.again_at - self._clock()) > 0:
                return Waits(asked.failure, left)
            self._begin(key, asked, question)
        elif asked.task.done():
            return self._answered(key, asked, asked.task)
        return self._waits(asked)

    def forget(self, key: Key) -> None:
        """Stop asking for a search; this ends a process that looks for its values."""
        asked = self._asked.pop(key, None)
        if asked is not None and asked.task is not None:
            asked.task.cancel()

    def forget_all(self) -> None:
        """Stop asking for all searches."""
        for key in tuple(self._asked):
            self.forget(key)

    def _begin(self, key: Key, asked: _Asked, question: Question) -> None:
        asked.since = self._clock()
        asked.task = asyncio.create_task(self._ask(question))
        asked.task.add_done_callback(lambda task: None if task.cancelled() else self._wake(key))

    async def _ask(self, question: Question) -> Answer:
        async with self._free:
            try:
                return await self._suggest(question)
            except ValueError as error:  # too little memory or time, perhaps only now
                return Nothing(str(error))

    def _answered(self, key: Key, asked: _Asked, task: Task[Answer]) -> Answer | Waits:
        asked.task, asked.again_at = None, self._clock() + ASK_AGAIN_SECONDS
        answer = task.result()
        if isinstance(answer, Suggestion) or answer.is_final:
            self.forget(key)
            return answer
        log.warning("tuningjob %s/%s: %s", *key, answer.why)
        asked.failure = answer.why
        return Waits(asked.failure, ASK_AGAIN_SECONDS)

    def _waits(self, asked: _Asked) -> Waits:
        if asked.failure:  # it holds until there is another answer
            return Waits(asked.failure, float("inf"))
        left = asked.since + SLOW_SECONDS - self._clock()
        if left > 0:
            return Waits("", left)
        why = (
            f"the model has looked for the values of trial {asked.number} for more than "
            f"{SLOW_SECONDS:.0f} s: give the operator more CPU, or search with sobol or random"
        )
        return Waits(why, float("inf"))
