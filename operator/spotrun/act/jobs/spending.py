"""The only writer of SpendLimits, and of the finalizer of jobs that they cover.

Only the leader writes, and makes one call at a time for a namespace. A job gets the finalizer
before its first worker is created, and keeps it until the stored status of each limit contains its
spending.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from spotrun.act.errors import SOON_SECONDS
from spotrun.act.writes import Writes, Written, status_patch
from spotrun.api.names import FINALIZER_SPEND
from spotrun.kube.errors import Conflict, Invalid, NotFound
from spotrun.kube.read_your_writes import Horizon
from spotrun.kube.resource import Key, Resource
from spotrun.kube.rest.client import Client
from spotrun.observe.caches import Caches
from spotrun.observe.kube_objects import SPEND_LIMITS, TRAINING_JOBS
from spotrun.policies.budget.spend.codec import write
from spotrun.policies.budget.spend.decide import SpendDecision, decide
from spotrun.policies.budget.spend.facts import JobFacts, Limit, SpendState
from spotrun.state.snapshot import SpendVerdict

log = logging.getLogger(__name__)

_REFRESH_SECONDS = 30.0
"""The interval of writes in which only sums change; jobs' own sums change once a minute."""
_UNDECIDED = SpendVerdict(
    "the operator failed to decide about the SpendLimits of this namespace, and tries again: "
    "its log has the error",
    "undecided",
)


class SpendKeeper:
    """Decides about the SpendLimits of a namespace, and writes what follows."""

    def __init__(
        self,
        client: Client,
        caches: Caches,
        horizon: Horizon[Key, Resource],
        *,
        leads: Callable[[], bool],
        clock: Callable[[], float],
        wall: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._caches = caches
        self._horizon = horizon
        self._writes = Writes(horizon, leads)
        self._clock = clock
        self._wall = wall
        self._written_at: dict[Key, float] = {}

    def begin(self) -> None:
        """Publish what the statuses say of all jobs, before anything is decided about a job."""
        for namespace in self._caches.spending.namespaces():
            decision = self._decide(namespace)
            self._caches.spending.publish(namespace, decision.verdicts)

    async def keep(self, namespace: str) -> float | None:
        """Bring one namespace up to date; returns when to look again. Raises KubeError."""
        here = Key(namespace, "")
        if not self._horizon.caught_up(here):
            for resource in self._horizon.overdue(here):
                self._caches.relist(resource)
            return max(SOON_SECONDS, self._horizon.waited_seconds(here) / 4)
        decision = self._decide(namespace)
        late = [job.uid for job in decision.protect if not await self._protect(namespace, job)]
        verdicts = {
            uid: replace(one, is_granted=False) if uid in late else one
            for uid, one in decision.verdicts.items()
        }
        self._caches.spending.publish(namespace, verdicts)
        stored = [
            await self._store(namespace, limit, decision.states.get(limit.name))
            for limit in self._caches.spending.limits_of(namespace)
        ]
        for job in decision.release:
            await self._release(namespace, job)
        again = min(decision.wake_after_seconds, SOON_SECONDS if late else float("inf"), *stored)
        return again if again < float("inf") else None

    def _decide(self, namespace: str) -> SpendDecision:
        spending = self._caches.spending
        limits, jobs = spending.limits_of(namespace), spending.jobs_of(namespace)
        try:
            return decide(limits, jobs, self._wall(), spending.verdicts_of(namespace))
        except Exception:
            log.exception("spendlimits of %s could not be decided", namespace)
            asking = (job.uid for job in jobs if job.asks)
            return SpendDecision(dict.fromkeys(asking, _UNDECIDED), wake_after_seconds=60.0)

    async def _protect(self, namespace: str, job: JobFacts) -> bool:
        return await self._set_finalizers(namespace, job, (*job.finalizers, str(FINALIZER_SPEND)))

    async def _release(self, namespace: str, job: JobFacts) -> bool:
        others = tuple(one for one in job.finalizers if one != FINALIZER_SPEND)
        return await self._set_finalizers(namespace, job, others)

    async def _set_finalizers(
        self, namespace: str, job: JobFacts, finalizers: tuple[str, ...]
    ) -> bool:
        """Write the finalizers on this version of the job; return whether that succeeded."""
        patch: list[dict[str, object]] = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": job.version},
            {"op": "add", "path": "/metadata/finalizers", "value": list(finalizers)},
        ]
        try:
            written = await self._writes.do(
                "job_finalizer",
                namespace,
                lambda: self._client.patch(
                    TRAINING_JOBS, job.name, patch, Written, namespace=namespace
                ),
            )
        except (Conflict, NotFound, Invalid) as error:
            log.debug("finalizer of %s/%s: %s", namespace, job.name, error)
            return False
        version = written.metadata.version
        for key in (Key(namespace, ""), Key(namespace, job.name)):
            self._writes.reached(key, TRAINING_JOBS, job.name, version)
        return True

    async def _store(self, namespace: str, limit: Limit, state: SpendState | None) -> float:
        """Store a limit's status if it has changed enough; return after how long to try again."""
        if state is None or replace(state, as_of=limit.state.as_of) == limit.state:
            return float("inf")
        key = Key(namespace, limit.name)
        since = self._clock() - self._written_at.get(key, float("-inf"))
        if not _is_urgent(limit.state, state) and since < _REFRESH_SECONDS:
            return _REFRESH_SECONDS - since
        try:
            written = await self._writes.do(
                "spend_status",
                namespace,
                lambda: self._client.patch(
                    SPEND_LIMITS,
                    limit.name,
                    status_patch(limit.version, write(state)),
                    Written,
                    namespace=namespace,
                    subresource="status",
                ),
            )
        except (Conflict, NotFound) as error:
            log.debug("spendlimit %s/%s has changed meanwhile: %s", namespace, limit.name, error)
            return SOON_SECONDS
        self._written_at[key] = self._clock()
        self._writes.reached(Key(namespace, ""), SPEND_LIMITS, limit.name, written.metadata.version)
        return float("inf")


def _is_urgent(old: SpendState, new: SpendState) -> bool:
    """Whether anything but sums has changed in a status."""
    sums = {"spent_usd", "reserved_usd", "forecast_usd", "used_percent", "message", "as_of"}
    told = {name: getattr(old, name) for name in sums}
    return replace(new, **told) != old
