"""The work on one search: observe, ask for values, decide, act."""

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
from spotrun.policies.tuning.state import OVER, TuningState
from spotrun.runtime.asking.models import ASK_AGAIN_SECONDS, Models, Waits
from spotrun.runtime.asking.suggestions import Suggest
from spotrun.search import Nothing, Suggestion, needs_process

log = logging.getLogger(__name__)

_AGAIN_SECONDS = 0.02
"""The watch shows our own write within milliseconds."""


class TuningReconciler:
    """Reconciles all searches, one call at a time for each."""

    def __init__(
        self,
        caches: Caches,
        writer: TuningWriter,
        horizon: Horizon[Key, Resource],
        suggest: Suggest,
        *,
        wake: Callable[[Key], None],
        clock: Callable[[], float],
        wall: Callable[[], datetime],
    ) -> None:
        self._caches = caches
        self._writer = writer
        self._horizon = horizon
        self._suggest = suggest
        self._wall = wall
        self._memories: dict[Key, TuningMemory] = {}
        self._models = Models(suggest, wake, clock)

    def stop_asking(self) -> None:
        """End the processes that look for values: this replica is no longer the leader."""
        self._models.forget_all()

    async def reconcile(self, key: Key) -> float | None:
        """Observe one search, decide, act; return when to do so again, None: after a change."""
        if not self._horizon.caught_up(key):
            for resource in self._horizon.overdue(key):
                self._caches.relist(resource)
            return max(_AGAIN_SECONDS, self._horizon.waited_seconds(key) / 4)
        search = await self._look(key)
        if search is None:
            self._memories.pop(key, None)
            self._models.forget(key)
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
            wait_seconds = min(wait_seconds, _AGAIN_SECONDS)  # each pass begins one trial
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

    async def _decide(self, search: TuningSnapshot) -> TuningDecision:
        now = self._wall()
        decision = decide(search, now)
        if not decision.num_wanted or decision.status.phase in OVER:
            return decision
        if decision.steps:  # they do not wait for an answer
            return replace(decision, num_wanted=0)
        values = await self._values(search, decision.status)
        if isinstance(values, Waits):
            told = decide(search, now, Nothing(values.why)) if values.why else decision
            waits = min(told.wake_after_seconds, values.seconds)
            return replace(told, num_wanted=0, wake_after_seconds=waits)
        return decide(search, now, values)

    async def _values(
        self, search: TuningSnapshot, status: TuningState
    ) -> Suggestion | Nothing | Waits:
        try:
            question = question_of(search, status)
            if needs_process(question):
                return self._models.values(Key(search.namespace, search.name), search.uid, question)
            values = await self._suggest(question)
        except ValueError as error:
            log.warning("tuningjob %s/%s: %s", search.namespace, search.name, error)
            values = Nothing(str(error))
        if isinstance(values, Nothing) and not values.is_final:
            return Waits(values.why, ASK_AGAIN_SECONDS)
        return values
