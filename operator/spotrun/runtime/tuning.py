"""The work on one search: observe, ask for values, decide, act."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from spotrun.act.errors import SOON_SECONDS
from spotrun.act.tuning import TuningMemory, TuningWriter
from spotrun.kube.errors import Conflict
from spotrun.kube.read_your_writes import Horizon
from spotrun.kube.resource import Key, Resource
from spotrun.observe.caches import Caches
from spotrun.policies.tuning.beginning import question_of
from spotrun.policies.tuning.decide import TuningDecision, decide
from spotrun.policies.tuning.following import courses
from spotrun.policies.tuning.snapshot import TuningSnapshot
from spotrun.policies.tuning.state import OVER
from spotrun.runtime.suggestions import Suggest
from spotrun.search import Nothing, Question, Suggestion, needs_process

log = logging.getLogger(__name__)

_AGAIN_SECONDS = 0.02
"""Our own write comes back through the watch within milliseconds."""
_ASK_AGAIN_SECONDS = 15.0
_MODEL_FREE_SECONDS = 1.0
_MODELS_AT_ONCE = 1
"""A model of the trials is a process of 100 MB beside the operator; others wait for a second."""


class TuningReconciler:
    """Reconciles all searches, one call at a time for each."""

    def __init__(
        self,
        caches: Caches,
        writer: TuningWriter,
        horizon: Horizon[Key, Resource],
        suggest: Suggest,
        *,
        wall: Callable[[], datetime],
    ) -> None:
        self._caches = caches
        self._writer = writer
        self._horizon = horizon
        self._suggest = suggest
        self._wall = wall
        self._memories: dict[Key, TuningMemory] = {}
        self._models = asyncio.Semaphore(_MODELS_AT_ONCE)

    async def reconcile(self, key: Key) -> float | None:
        """Bring one search further; return when to look again, None: when something changes."""
        if not self._horizon.caught_up(key):
            for resource in self._horizon.overdue(key):
                self._caches.relist(resource)
            return max(_AGAIN_SECONDS, self._horizon.waited_seconds(key) / 4)
        search = await self._look(key)
        if search is None:
            self._memories.pop(key, None)
            return None
        memory = self._memories[key]
        try:
            decision = await self._decide(search)
            memory.unwritten = courses(decision.status)
            wait_seconds = await self._writer.carry_out(search, decision, memory)
        except Conflict as error:
            log.debug("tuningjob %s/%s has changed meanwhile: %s", *key, error)
            return SOON_SECONDS
        if decision.num_wanted and decision.status != search.status:
            wait_seconds = min(wait_seconds, _AGAIN_SECONDS)  # one trial begins at a look
        return wait_seconds if wait_seconds < float("inf") else None

    async def _look(self, key: Key) -> TuningSnapshot | None:
        search = self._caches.search(key)
        if search is None:
            return None
        memory = self._memories.setdefault(key, TuningMemory())
        if memory.uid != search.uid:
            memory = self._memories[key] = TuningMemory(search.uid)
        missing = [
            one.number
            for one in search.status.trials
            if not one.has_ended and one.number not in search.children
        ]
        gone = [number for number in missing if not await self._writer.exists(search, number)]
        return replace(
            search,
            gone=frozenset(gone),
            taken=frozenset(memory.taken),
            refused=dict(memory.refused),
            over_quota=dict(memory.over_quota),
            unwritten=memory.unwritten,
        )

    async def _ask(self, question: Question) -> Suggestion | Nothing:
        if not needs_process(question):
            return await self._suggest(question)
        async with self._models:
            return await self._suggest(question)

    async def _decide(self, search: TuningSnapshot) -> TuningDecision:
        now = self._wall()
        decision = decide(search, now)
        if not decision.num_wanted or decision.status.phase in OVER:
            return decision
        if decision.steps:  # they do not wait for an answer, which may take a minute
            return replace(decision, num_wanted=0)
        try:
            question = question_of(search, decision.status)
            if needs_process(question) and self._models.locked():
                # Another search asks: meanwhile this one stops what is to be stopped.
                waits = min(decision.wake_after_seconds, _MODEL_FREE_SECONDS)
                return replace(decision, num_wanted=0, wake_after_seconds=waits)
            values = await self._ask(question)
        except ValueError as error:  # a process with too little memory or time: it may pass
            log.warning("tuningjob %s/%s: %s", search.namespace, search.name, error)
            values = Nothing(str(error))
        answered = decide(search, now, values)
        if isinstance(values, Nothing) and not values.is_final:
            waits = min(answered.wake_after_seconds, _ASK_AGAIN_SECONDS)
            return replace(answered, wake_after_seconds=waits)
        return answered
